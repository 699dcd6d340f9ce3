"""`fable-exec supervise` where a state cannot be believed or a keeper is dead: `recover` and `prune`."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.cli.supervising import NOBODY, ended, shown, start, status_here, supervise
from tests.cli.typed import is_running, the_object
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("confinement")


def test_a_state_that_cannot_be_believed_is_listed_shown_and_never_written_over(root: Path, workspace: Path) -> None:
    ended_id = start(root, workspace, "true")["execution_id"]
    ended(root, ended_id)
    torn = root / NOBODY
    torn.mkdir(mode=0o700)
    (torn / "state.json").touch(mode=0o600)
    listed = json.loads(supervise("list", root, "--json").stdout)
    assert [(each["execution_id"], each["health"]) for each in listed] == [(ended_id, "exited"), (NOBODY, "unreadable")]
    assert listed[1]["reason"] == "torn"
    assert NOBODY in supervise("list", root).stdout.decode().splitlines()[2]
    asked = supervise("show", root, NOBODY)
    told = dict(re.split(r"  +", line, maxsplit=1) for line in asked.stdout.decode().splitlines())
    assert (asked.returncode, told["health"]) == (5, "unreadable") and f"{NOBODY}/state.json" in told["error"]
    assert the_object(supervise("show", root, NOBODY, "--json"))["reason"] == "torn"
    for verb in ("stop", "wait", "logs"):
        assert status_here(verb, root, NOBODY) == 5
    assert status_here("start", root, "--id", NOBODY, "--workspace", str(workspace), "--", "true") == 3
    assert (torn / "state.json").read_bytes() == b""


def test_a_job_whose_keeper_was_killed_cannot_be_stopped_and_its_end_is_recorded_once(root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    state = start(root, workspace, f"sleep {seconds}")
    os.kill(state["supervisor_pid"], signal.SIGKILL)
    assert until(lambda: not is_running(seconds))
    assert ended(root, state["execution_id"])["health"] == "lost"
    refused = supervise("stop", root, state["execution_id"])
    assert refused.returncode == 5 and b"recover" in refused.stderr
    waited = supervise("wait", root, state["execution_id"])
    assert waited.returncode == 125 and b"is lost: its keeper died" in waited.stderr
    recovered = supervise("recover", root)
    rows = [line.split() for line in recovered.stdout.decode().splitlines()]
    assert (recovered.returncode, rows[1:]) == (0, [[state["execution_id"], "lost", "recorded", "keeper_lost"]])
    again = supervise("recover", root, "--json")
    assert (again.returncode, json.loads(again.stdout)) == (0, [])
    after = shown(root, state["execution_id"])
    assert [after[name] for name in ("termination_reason", "exit_code", "signal")] == ["keeper_lost", None, None]
    assert status_here("stop", root, state["execution_id"]) == 0
    assert status_here("wait", root, state["execution_id"]) == 125


def test_what_cannot_be_recovered_is_told_and_exits_1(root: Path, workspace: Path) -> None:
    (root / NOBODY).mkdir(mode=0o700, parents=True)
    (root / NOBODY / "state.json").touch(mode=0o600)
    root.chmod(0o700)
    recovered = supervise("recover", root, "--json")
    (found,) = json.loads(recovered.stdout)
    assert (recovered.returncode, found["found"], found["done"]) == (1, "unreadable", "left")
    assert NOBODY in recovered.stderr.decode()


def test_what_has_ended_is_pruned_and_nothing_else(root: Path, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    old, newer = (start(root, workspace, "true", "--label", f"n={number}")["execution_id"] for number in (1, 2))
    live = start(root, tmp_path / "other", "sleep 30")["execution_id"]
    for each in (old, newer):
        ended(root, each)
    assert supervise("prune", root).stdout == b""
    kept = supervise("prune", root, "--older-than", "0", "--keep", "1")
    assert (kept.returncode, kept.stdout.decode()) == (0, f"{old}\n")
    assert json.loads(supervise("prune", root, "--older-than", "0", "--json").stdout) == [newer]
    assert [each["execution_id"] for each in json.loads(supervise("list", root, "--json").stdout)] == [live]
    assert status_here("show", root, old) == 4
    for flags in (["--older-than", "-1"], ["--older-than", "nan"], ["--keep", "-1"], ["--keep", "x"]):
        assert status_here("prune", root, *flags) == 2
