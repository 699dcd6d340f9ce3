"""`fable-exec mcp` as a process: what goes over the wire besides calls, and how it ends."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.policy import dump_json
from tests.adapters.mcp_peers import told
from tests.adapters.places import shell_policy
from tests.bounds import BUSY_SECONDS, bounds
from tests.cli.typed import PROGRAM, environment, is_running, typed_here
from tests.doors import TOKEN
from tests.waiting import until

pytestmark = [pytest.mark.requires_ability("mcp"), pytest.mark.requires_ability("confinement")]


@attrs.define
class Wire:
    """The program, and lines to and from it."""

    process: subprocess.Popen[bytes]
    _number: int = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self, seconds: float = 20) -> dict[str, Any]:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        assert ready, "no answer in time"
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, **parameters: Any) -> int:
        self._number += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters}).encode())
        return self._number

    def answer_to(self, number: int) -> dict[str, Any]:
        while (message := self.read()).get("id") != number:
            pass
        return message

    def shake_hands(self) -> None:
        client = {"name": "test", "version": "0"}
        number = self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        assert self.answer_to(number)["result"]["serverInfo"]["name"] == "fable-exec"
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def sleep(self, marker: str) -> int:
        number = self.ask("tools/call", name="run_shell", arguments={"text": f"setsid sleep {marker} & sleep {marker}"})
        assert until(lambda: is_running(marker))
        return number


@pytest.fixture
def policy_file(workspace: Path, tmp_path: Path) -> Path:
    path = tmp_path / "policy.json"
    path.write_text(dump_json(shell_policy(workspace)))
    return path


@pytest.fixture
def admin() -> Iterator[str]:
    """Where the administrator is heard: a name that leaves room for a socket's (107 bytes)."""
    with tempfile.TemporaryDirectory() as directory:
        yield str(Path(directory).resolve() / "admin")


@pytest.fixture
def wire(policy_file: Path, admin: str) -> Iterator[Wire]:
    with subprocess.Popen(
        [*PROGRAM, "mcp", "--policy", str(policy_file), "--admin-socket", admin],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            found = Wire(process)
            found.shake_hands()
            yield found
        finally:
            process.kill()


def sleeping() -> str:
    return f"7{time.time_ns() % 10**9}"


MALFORMED = [
    b"not json",
    b"{}",
    b"[]",
    b'{"jsonrpc": "2.0", "id": 900, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 901, "method": "tools/call", "params": {"name": 7}}',
    b'{"jsonrpc": "2.0", "id": 902, "method": "tools/call", "params": {"name": "read_file", "arguments": [1]}}',
    b'{"jsonrpc": "2.0", "id": 903, "method": "no/such", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 904, "method": "tools/call", "params": {"name": "read_file", "arguments": {"path": "\\ud800"}}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12345}}',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"jsonrpc": "2.0", "id": 905, "method": "tools/call", "params": {"name": "' + b"x" * 1_000_000 + b'"}}',
]


@pytest.mark.parametrize("end_seconds", bounds(2.0))
def test_malformed_lines_are_survived_and_the_end_of_the_input_ends_what_runs(wire: Wire, end_seconds: float) -> None:
    for line in MALFORMED:
        wire.send(line)
    script = "cat; ls /proc/self/fd | wc -l"  # no descriptor of the wire is there, and the input is at its end
    number = wire.ask("tools/call", name="run_shell", arguments={"text": script})
    answers = {}
    while number not in answers:
        message = wire.read()
        answers[message.get("id")] = message
    assert answers[number]["result"]["structuredContent"]["stdout"].strip() in ("3", "4")
    for identifier in (900, 901, 902, 903):
        assert "error" in answers[identifier], answers[identifier]
    assert answers[905]["result"]["isError"] and len(json.dumps(answers[905])) < 2000
    marker = sleeping()
    wire.sleep(marker)
    assert wire.process.stdin is not None and wire.process.stderr is not None
    wire.process.stdin.close()
    assert wire.process.wait(end_seconds) == 0
    assert not is_running(marker)
    assert b"Traceback" not in wire.process.stderr.read()


ANSWERED_AS_NO_MESSAGE = [
    (b"not json", None, -32700),
    (b"\xff\xfe\x00", None, -32700),
    (b"[" * 100_000, None, -32700),
    (b"[]", None, -32600),
    (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', None, -32600),
    (b'{"id": 800, "method": "ping"}', 800, -32600),
    (b'{"jsonrpc": "2.0", "id": "801", "method": "ping", "params": []}', "801", -32600),
    (b'{"jsonrpc": "2.0", "id": 802, "method": "tools/call", "params": {"name": "\\ud800"}}', 802, -32600),
    (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', None, -32600),
]
ANSWERED_BY_NOBODY = [b"", b" \r", b"{}", b'{"method": "notifications/x"}', b'{"id": 1, "result": {}}', b'{"id": 1, "error": 2}']


def test_who_waits_for_an_answer_to_what_is_no_message_gets_one(wire: Wire) -> None:
    for line, identifier, code in ANSWERED_AS_NO_MESSAGE:
        wire.send(line)
        answer = wire.read()
        assert (answer["id"], answer["error"]["code"]) == (identifier, code), answer
    for line in ANSWERED_BY_NOBODY:
        wire.send(line)
    number = wire.ask("ping")
    assert wire.read() == {"jsonrpc": "2.0", "id": number, "result": {}}


def test_a_line_without_an_end_is_not_kept(wire: Wire) -> None:
    def resident_kibibytes() -> int:
        lines = Path(f"/proc/{wire.process.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))

    before = resident_kibibytes()
    assert wire.process.stdin is not None
    for _ in range(512):
        wire.process.stdin.write(b"x" * 2**20)
    assert resident_kibibytes() < before + 256 * 1024
    wire.send(b"")
    assert "longer than" in wire.read()["error"]["message"]
    assert wire.answer_to(wire.ask("ping"))["result"] == {}


def test_input_that_does_not_block_is_waited_for_whatever_the_number_of_its_descriptor() -> None:
    from fable_exec.adapters.mcp.standard_input import MessageLines

    message = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'

    async def read_as_it_comes(reading: int, writing: int) -> list[str]:
        async def read_all(lines: MessageLines) -> list[str]:
            return [line async for line in lines]

        async def write() -> None:
            for part in (message[:20], message[20:]):
                await asyncio.sleep(0.05)  # the reader waits meanwhile; were it late, it would only read at once
                os.write(writing, part)
            os.close(writing)

        _, lines = await asyncio.gather(write(), read_all(MessageLines(reading, 1000)))
        return lines

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        high = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, 1024)
        assert asyncio.run(read_as_it_comes(high, writing)) == [message.decode().rstrip()]
        os.close(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(reading)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -9), pytest.param(signal.SIGINT, 130, marks=pytest.mark.deep)])
def test_killed_it_leaves_nothing(number: signal.Signals, status: int, wire: Wire) -> None:
    marker = sleeping()
    wire.sleep(marker)
    os.kill(wire.process.pid, number)
    assert wire.process.wait(BUSY_SECONDS) == status
    assert until(lambda: not is_running(marker))


def test_the_administrator_unlocks_and_shuts_down(wire: Wire, admin: str) -> None:
    marker = sleeping()
    write = {"name": "write_file", "arguments": {"path": "a", "content": "x"}}
    assert wire.answer_to(wire.ask("tools/call", **write))["result"]["isError"]
    told(admin, {"action": "unlock_writes", "token": TOKEN})
    assert not wire.answer_to(wire.ask("tools/call", **write))["result"].get("isError")
    wire.sleep(marker)
    told(admin, {"action": "shutdown"})
    assert wire.process.wait(BUSY_SECONDS) == 0
    assert not is_running(marker)


@pytest.mark.deep
def test_a_peer_that_goes_away_without_a_word_is_noticed(wire: Wire) -> None:
    marker = sleeping()
    wire.sleep(marker)
    for stream in (wire.process.stdin, wire.process.stdout):
        assert stream is not None
        stream.close()
    wire.process.wait(BUSY_SECONDS)
    assert until(lambda: not is_running(marker))


def test_words_for_people_go_to_standard_error_and_statuses_are_those_of_serve(workspace: Path, tmp_path: Path) -> None:
    shown = typed_here("mcp", "--help")
    assert shown.returncode == 0 and b"usage: fable-exec mcp" in shown.stdout and b"MCP" in shown.stdout
    broken = typed_here("mcp", "--workspace", str(tmp_path / "missing"), "--allow", "true")
    assert broken.returncode == 2 and broken.stdout == b"" and b"workspace" in broken.stderr
    unknown = typed_here("mcp", "--unlocked", "--workspace", str(workspace))
    assert unknown.returncode == 2 and unknown.stdout == b""
