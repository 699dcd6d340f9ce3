"""docs/reference/admin.md says what the code does: each line it shows is done, each channel unlocked as it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fable_exec import ExecutionBroker
from fable_exec.admin import AdminControl
from tests.doors import DIGEST, TOKEN
from tests.waiting import until

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "admin.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\{.*\}$", PAGE, re.MULTILINE)
PAIRS = re.findall(r"^```sh start\n(.+?)\n```\n```sh unlock\n(.+?)\n```", PAGE, re.MULTILINE | re.DOTALL)


def test_each_line_of_the_page_is_done_and_there_is_one_of_each_action(broker: ExecutionBroker) -> None:
    control = AdminControl(broker, lambda: None)
    done = [json.loads(line)["action"] for line in LINES if control.answer(line.replace("TOKEN", TOKEN).encode())["ok"]]
    assert done == ["unlock_writes", "lock_writes", "status", "shutdown"]


def test_there_is_a_pair_for_each_channel() -> None:
    assert [re.findall(r"--admin-(\S+) \S", start) for start, _ in PAIRS] == [["fd"], ["file"], ["socket"], ["socket"]]


@pytest.mark.parametrize(("start", "unlock"), PAIRS, ids=["descriptor", "file", "unix socket", "port"])
def test_a_channel_unlocks_as_the_page_says(start: str, unlock: str, workspace: Path, place: Path) -> None:
    if "socat" in unlock and shutil.which("socat") is None:
        pytest.skip("no socat here")
    (place / "admin").mkdir(mode=0o700)
    environment = {
        **os.environ,
        "HOME": str(place),
        "TOKEN": TOKEN,
        "FABLE_EXEC_WRITE_TOKEN_DIGEST": DIGEST,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    # The shell becomes the server, so that ending it ends the server.
    script = start.replace("python -m", f"exec {sys.executable} -m")
    pipe = subprocess.PIPE
    command = ["sh", "-c", script]
    with subprocess.Popen(command, cwd=workspace, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        try:
            ask(server, {"action": "probe"})  # it listens from here on
            if ":0" in start:
                environment["ADMIN_PORT"] = server.stderr.readline().strip().removeprefix("ADMIN_PORT=")
            assert ask(server, {"action": "write_file", "path": "a", "content": "x"})["code"] == "writes-locked"
            subprocess.run(["sh", "-c", unlock], env=environment, check=True, timeout=20, capture_output=True)
            assert until(lambda: ask(server, {"action": "write_file", "path": "a", "content": "x"})["ok"])
        finally:
            server.stdin.close()
    assert (server.returncode, (workspace / "a").read_text()) == (0, "x")


def ask(server: subprocess.Popen[str], request: dict[str, str]) -> dict[str, object]:
    """One request to it, and its answer."""
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    answer: dict[str, object] = json.loads(server.stdout.readline())
    return answer
