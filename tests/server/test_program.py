"""`python -m fable_exec.server` as its peers see it: lines in, lines out, and how it ends."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fable_exec.protocol.requests import ACTIONS
from tests.bounds import BUSY_SECONDS, bounds
from tests.doors import DIGEST, PATH, PROGRAMS, TOKEN

PROBE = {"action": "probe"}


class Peer:
    """A server and the other ends of its pipes."""

    def __init__(self, workspace: Path, *flags: str, **popen: Any) -> None:
        environment = {**os.environ, "FABLE_EXEC_WRITE_TOKEN_DIGEST": DIGEST, "PATH": os.pathsep.join(PATH)}
        allowed = [flag for name in PROGRAMS for flag in ("--allow-executable", name)]
        argv = [sys.executable, "-m", "fable_exec.server", "--workspace", str(workspace), *allowed, *flags]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, **popen
        )
        self._buffer = b""

    def send(self, *requests: Any) -> None:
        for request in requests:
            self.write(request if isinstance(request, bytes) else json.dumps(request).encode() + b"\n")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self, timeout: float = 30) -> bytes:
        """The next line as it came, b"" at the end."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            if not select.select([descriptor], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"no line in {timeout} s")
            data = os.read(descriptor, 1 << 16)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"

    def answer(self, timeout: float = 30) -> dict[str, Any]:
        line = self.line(timeout)
        assert line, "the server ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, request: Any) -> dict[str, Any]:
        self.send(request)
        return self.answer()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def finish(self) -> tuple[int, str]:
        """End its input, wait for it; its status and what it said on standard error."""
        self.end_input()
        assert self.process.stdout is not None and self.process.stderr is not None
        self._buffer += self.process.stdout.read()
        text = self.process.stderr.read().decode()
        self.close()
        return self.process.returncode, text

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def peer(workspace: Path) -> Iterator[Callable[..., Peer]]:
    """`peer(*flags)`: a server on the workspace, ended with the test."""
    with ExitStack() as stack:

        def start(*flags: str, **popen: Any) -> Peer:
            started = Peer(workspace, *flags, **popen)
            stack.callback(started.close)
            return started

        yield start


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One for all that is refused, on a workspace with a file and a directory: what is refused changes nothing."""
    workspace = tmp_path_factory.mktemp("refusing").resolve()
    (workspace / "directory").mkdir()
    (workspace / "file").touch(0o600)
    server = Peer(workspace)
    yield server
    server.close()


def command(*argv: str, **members: Any) -> dict[str, Any]:
    return {"action": "execute_command", "command": list(argv), **members}


# Lines


HASH = hashlib.sha256("é\n".encode()).hexdigest()
READ = (
    f'{{"ok":true,"result":{{"path":"a.txt","content":"é\\n","content_hash":"{HASH}",'
    '"truncated":false,"total_bytes":3,"encoding":"utf-8"}}'
)
NOT_JSON = (
    '{"ok":false,"error":"JSONDecodeError",'
    '"message":"the line is not JSON: Expecting value at character 0","code":"json-invalid"}'
)
LOCKED = '{"ok":false,"error":"PermissionError","message":"workspace writes are locked","code":"writes-locked"}'
UNKNOWN = (
    '{"ok":false,"error":"ValueError","message":"there is no action \\"nope\\"; there are '
    + ", ".join(sorted(ACTIONS))
    + '","code":"invalid-request"}'
)
NO_PATH = '{"id":7,"ok":false,"error":"ValueError","message":"stat_path needs path","code":"invalid-request"}'
BYTE_FOR_BYTE = [
    ('{"action":"inspect_files","path":"a.txt"}', READ),
    ('{"action":"write_file","path":"b","content":"x"}', LOCKED),
    ('{"action":"nope"}', UNKNOWN),
    ("not json", NOT_JSON),
    ('{"id":7,"action":"stat_path"}', NO_PATH),
    ('{"id":"é","action":"cancel","target":1}', '{"id":"é","ok":true,"result":{"cancelled":false}}'),
]


def test_answers_are_what_peers_of_the_protocol_read_byte_for_byte(peer: Callable[..., Peer], workspace: Path) -> None:
    (workspace / "a.txt").write_bytes("é\n".encode())
    (workspace / "a.txt").chmod(0o600)
    server = peer()
    for request, answer in BYTE_FOR_BYTE:
        server.send(request.encode() + b"\n")
        assert server.line() == answer.encode() + b"\n"


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize(
    ("sent", "error", "code"),
    [
        (b"\xff\n", "JSONDecodeError", "json-invalid"),
        (b"nonsense\n", "JSONDecodeError", "json-invalid"),
        (b'{"action":"probe"\n', "JSONDecodeError", "json-invalid"),
        (b'{"action":"probe","x":NaN}\n', "JSONDecodeError", "json-invalid"),
        (b"[1]\n", "ValueError", "invalid-request"),
        (b'"probe"\n', "ValueError", "invalid-request"),
        (b'{"action":"probe","action":"probe"}\n', "ValueError", "invalid-request"),
        (b'{"action":"probe","token":"t"}\n', "ValueError", "invalid-request"),
        (b'{"action":"unlock_writes","token":"t"}\n', "ValueError", "invalid-request"),
        (b'{"action":"shutdown"}\n', "ValueError", "invalid-request"),
        (b'{"action":"stat_path","path":"\\ud800"}\n', "ValueError", "invalid-request"),
        (b"[" * 5000 + b"]" * 5000 + b"\n", "ValueError", "invalid-request"),
        (b'{"action":' + b"9" * 5000 + b"}\n", "ValueError", "invalid-request"),
        (b"x" * (1024 * 1024 + 1) + b"\n", "InvalidFrame", "frame-too-large"),
        (json.dumps(command("ls")).encode() + b"\n", "PermissionError", "executable-denied"),
        (b'{"action":"write_file","path":"new","content":"x"}\n', "PermissionError", "writes-locked"),
        (b'{"action":"inspect_files","path":"../x"}\n', "PermissionError", "path-denied"),
        (b'{"action":"inspect_files","path":"missing"}\n', "ValueError", "not-found"),
        (b'{"action":"inspect_files","path":"directory"}\n', "IsADirectoryError", "is-directory"),
        (b'{"action":"list_directory","path":"missing"}\n', "FileNotFoundError", "not-found"),
        (b'{"action":"list_directory","path":"file"}\n', "NotADirectoryError", "not-a-directory"),
        (json.dumps(command("true", cwd="missing")).encode() + b"\n", "FileNotFoundError", "not-found"),
        (json.dumps(command("true", env={"LD_PRELOAD": "x"})).encode() + b"\n", "PermissionError", "denied"),
        (json.dumps(command("true", timeout_seconds=0)).encode() + b"\n", "ValueError", "invalid-request"),
        (b'{"action":"read_command","handle":"none"}\n', "ValueError", "invalid-request"),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else str(value),
)
def test_each_error_has_its_name_and_the_next_line_is_in_step(refusing: Peer, sent: bytes, error: str, code: str) -> None:
    answer = refusing.ask(sent)
    assert (answer["ok"], answer["error"], answer["code"]) == (False, error, code)
    assert len(answer["message"].encode()) <= 8192
    assert refusing.ask(PROBE)["ok"]


def test_blank_lines_are_no_requests_and_the_last_line_needs_no_newline(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.write(b"\n  \n\r\n\xef\xbb\xbf" + json.dumps(PROBE).encode())
    server.end_input()
    assert server.answer()["ok"]
    assert server.line() == b""


def test_a_line_may_come_byte_by_byte(peer: Callable[..., Peer]) -> None:
    server = peer()
    for byte in json.dumps(PROBE).encode() + b"\n":
        server.write(bytes([byte]))
    assert server.answer()["ok"]


# Order and concurrency


@pytest.mark.requires_ability("confinement")
def test_answers_without_an_id_come_in_order(peer: Callable[..., Peer], workspace: Path) -> None:
    (workspace / "file").touch(0o600)
    server = peer()
    server.send(
        command("sleep", "0.3"),
        {"action": "stat_path", "path": "file"},
        b"nonsense\n",
        command("echo", "second"),
        {"action": "list_directory"},
    )
    answers = [server.answer() for _ in range(5)]
    assert [answer.get("result", {}).get("stdout", answer.get("error")) for answer in answers] == [
        "",
        None,
        "JSONDecodeError",
        "second\n",
        None,
    ]
    assert answers[1]["result"]["kind"] == "file"


@pytest.mark.requires_ability("confinement")
def test_requests_with_an_id_overtake_and_each_is_answered_once(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.send(
        command("sleep", "600", id="slow"), *({**PROBE, "id": number} for number in range(20)), command("echo", "x", id="quick")
    )
    order = [server.answer()["id"] for _ in range(21)]
    assert sorted(map(str, order)) == sorted(["quick", *map(str, range(20))])
    server.send({"action": "cancel", "id": "cancel", "target": "slow"})
    assert {server.answer()["id"] for _ in range(2)} == {"slow", "cancel"}


@pytest.mark.requires_ability("confinement")
def test_no_more_than_the_policys_number_is_in_flight(peer: Callable[..., Peer], tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"limits": {"max_in_flight": 2}}')
    server = peer("--policy", str(tmp_path / "policy.json"))
    began = time.monotonic()
    server.send(*(command("sleep", "0.4", id=number) for number in range(4)))
    assert {server.answer()["id"] for _ in range(4)} == {0, 1, 2, 3}
    assert time.monotonic() - began > 0.7


@pytest.mark.requires_ability("confinement")
def test_a_stream_is_events_in_order_and_then_the_answer(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.send(command("cat", id="s", stdin="hé\n", stream=True))
    assert server.answer() == {"id": "s", "event": "started", "sequence": 0}
    assert server.answer() == {"id": "s", "event": "stdout", "sequence": 1, "data": "hé\n"}
    assert server.answer() == {"id": "s", "event": "exited", "sequence": 2, "outcome": "exited", "exit_code": 0, "signal": None}
    answer = server.answer()
    assert (answer["id"], answer["result"]["stdout"]) == ("s", "hé\n")


@pytest.mark.requires_ability("confinement")
def test_a_cancel_ends_what_runs_and_takes_back_what_waits(peer: Callable[..., Peer], tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"limits": {"max_in_flight": 1}}')
    server = peer("--policy", str(tmp_path / "policy.json"))
    server.send(command("sleep", "600", id="runs"), command("sleep", "600", id="waits"))
    server.send({"action": "cancel", "id": 1, "target": "waits"})
    first, second = server.answer(), server.answer()
    assert (first["id"], first["code"]) == ("waits", "conflict")
    assert second == {"id": 1, "ok": True, "result": {"cancelled": True}}
    server.send({"action": "cancel", "id": 2, "target": "runs"}, {"action": "cancel", "id": 3, "target": "nobody"})
    answers = {answer["id"]: answer for answer in (server.answer(), server.answer(), server.answer())}
    assert answers["runs"]["result"]["outcome"] == "cancelled"
    assert answers[2]["result"]["cancelled"] is True
    assert answers[3]["result"]["cancelled"] is False


@pytest.mark.requires_ability("confinement")
def test_an_answer_is_cut_to_its_bound_and_says_so(peer: Callable[..., Peer], tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"limits": {"max_answer_bytes": 65536}}')
    server = peer("--policy", str(tmp_path / "policy.json"))
    server.send(command("cat", stdin="\u0001" * 100_000))
    line = server.line()
    result = json.loads(line)["result"]
    assert len(line) <= 65536
    assert (result["answer_limited"], result["output_limited"], result["stdout_total_bytes"]) == (True, True, 100_000)


# Peers that misbehave


def memory_of(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_a_peer_that_sends_and_never_reads_costs_bounded_memory(peer: Callable[..., Peer]) -> None:
    server = peer()
    assert server.ask(PROBE)["ok"]
    assert server.process.stdin is not None
    os.set_blocking(server.process.stdin.fileno(), False)
    before = memory_of(server.process.pid)
    sent, quiet_since = 0, time.monotonic()
    requests = b"".join(json.dumps({**PROBE, "id": number}).encode() + b"\n" for number in range(2000))
    while time.monotonic() - quiet_since < 1:
        try:
            sent += os.write(server.process.stdin.fileno(), requests)
            quiet_since = time.monotonic()
        except BlockingIOError:
            select.select([], [server.process.stdin.fileno()], [], 0.1)
    assert sent < 4_000_000
    assert memory_of(server.process.pid) - before < 32 * 1024 * 1024


def test_a_line_without_an_end_costs_bounded_memory(peer: Callable[..., Peer]) -> None:
    server = peer()
    assert server.ask(PROBE)["ok"]
    before = memory_of(server.process.pid)
    for _ in range(64):
        server.write(b"x" * (1 << 20))
    server.write(b"\n")
    assert server.answer()["error"] == "InvalidFrame"
    assert memory_of(server.process.pid) - before < 16 * 1024 * 1024


# The end

in_time = pytest.mark.parametrize("bound_seconds", bounds(2.5))
"""docs/reference/server.md says 2 s."""


@pytest.mark.requires_ability("confinement")
def test_the_end_of_the_input_lets_what_runs_finish_and_is_status_zero(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.send(command("ls"), command("sleep", "0.3", id=1), PROBE)
    server.end_input()
    answers = [server.answer() for _ in range(3)]
    assert sorted(answer["ok"] for answer in answers) == [False, True, True]
    assert server.line() == b""
    assert server.process.wait(30) == 0


@in_time
@pytest.mark.requires_ability("confinement")
def test_what_does_not_finish_in_time_is_ended_and_answered(peer: Callable[..., Peer], bound_seconds: float) -> None:
    server = peer()
    server.send(command("sleep", "600", id=1), command("sleep", "600"), PROBE)
    assert server.process.stdin is not None
    time.sleep(0.5)
    began = time.monotonic()
    server.end_input()
    answers = [server.answer() for _ in range(3)]
    assert server.process.wait(BUSY_SECONDS) == 0
    assert time.monotonic() - began < bound_seconds
    outcomes = sorted(answer.get("result", {}).get("outcome", answer.get("code", "")) for answer in answers)
    assert outcomes == ["broker-gone", "cancelled", "cancelled"]


@in_time
@pytest.mark.requires_ability("confinement")
def test_it_ends_when_nobody_reads_its_answers(peer: Callable[..., Peer], bound_seconds: float) -> None:
    server = peer()
    server.send(command("sleep", "600", id=1), PROBE)
    assert server.answer()["ok"]
    assert server.process.stdout is not None
    began = time.monotonic()
    server.process.stdout.close()
    assert server.process.wait(BUSY_SECONDS) == 0
    assert time.monotonic() - began < bound_seconds


def test_the_end_of_the_input_counts_though_the_admins_descriptor_is_open(peer: Callable[..., Peer]) -> None:
    read, write = os.pipe()
    try:
        server = peer("--admin-fd", str(read), pass_fds=(read,))
        assert server.ask(PROBE)["ok"]
        assert server.finish() == (0, "")
    finally:
        os.close(read)
        os.close(write)


@in_time
def test_it_ends_with_the_process_that_it_is_told_of_though_its_input_is_open(
    peer: Callable[..., Peer], bound_seconds: float
) -> None:
    host = subprocess.Popen(["sleep", "600"])
    handle = os.pidfd_open(host.pid)
    try:
        server = peer("--host-fd", str(handle), pass_fds=(handle,))
        assert server.ask(PROBE)["ok"]
        began = time.monotonic()
        host.kill()
        assert server.process.wait(BUSY_SECONDS) == 0
        assert time.monotonic() - began < bound_seconds
    finally:
        os.close(handle)
        host.kill()
        host.wait()


@pytest.mark.requires_ability("confinement")
def test_an_interrupt_ends_it_without_a_traceback(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.send(command("sleep", "600", id=1), PROBE)
    assert server.answer()["ok"]
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(30) == 130
    assert server.process.stderr is not None
    assert server.process.stderr.read() == b""


@pytest.mark.parametrize(
    "flags",
    [
        ["--workspace", "/no/such/directory"],
        ["--allow-executable", "bin/tool"],
        ["--max-output-bytes", "0"],
        ["--write-token-digest", "short"],
        ["--admin-fd", "250"],
        ["--admin-fd", "0"],
        ["--host-fd", "250"],
        ["--admin-socket", "0.0.0.0:1"],
        ["--audit-log", "relative"],
        ["--policy", "/no/such.toml"],
    ],
)
def test_a_bad_policy_is_one_line_and_status_two(peer: Callable[..., Peer], flags: list[str]) -> None:
    status, text = peer(*flags).finish()
    assert status == 2
    assert text.count("\n") == 1
    assert "Traceback" not in text


def test_an_allow_list_that_means_nothing_here_is_status_two(workspace: Path) -> None:
    argv = [sys.executable, "-m", "fable_exec.server", "--workspace", str(workspace), "--allow-executable", "no-such-program"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("invalid policy: --allow: none of no-such-program could be found in ")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "invalid policy: --workspace, or a --policy that names one: is required\n"),
        (
            ["--workspace", ".", "--allow", "true", "--admin-fd", "99"],
            "invalid setting: --admin-fd: descriptor 99 is not open\n",
        ),
        (
            ["--workspace", ".", "--allow", "true", "--admin-fd", "0"],
            "invalid setting: --admin-fd: descriptor 0 is one of the standard descriptors; give another\n",
        ),
        (["--workspace", ".", "--allow", "true", "--host-fd", "99"], "invalid setting: --host-fd: descriptor 99 is not open\n"),
        (["--workspace", ".", "--policy-fd", "99"], "invalid setting: --policy-fd: descriptor 99 is not open\n"),
        (
            ["--workspace", ".", "--policy-fd", "2"],
            "invalid setting: --policy-fd: descriptor 2 is one of the standard descriptors",
        ),
    ],
)
def test_what_is_wrong_with_a_setting_is_told_as_that(flags: list[str], told: str, workspace: Path) -> None:
    argv = [sys.executable, "-P", "-m", "fable_exec.server", *flags]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=workspace)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(told) and done.stderr.count("\n") == 1


def test_closed_standard_descriptors_are_not_given_to_files(workspace: Path) -> None:
    argv = f"exec {sys.executable} -m fable_exec.server --workspace {workspace} --allow-executable true 2>&- <&-"
    done = subprocess.run(["bash", "-c", argv], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_bad_policy_is_status_two_also_where_nobody_can_be_told(closed: str) -> None:
    argv = f"exec {sys.executable} -m fable_exec.server --workspace /no/such/place {closed}"
    done = subprocess.run(["bash", "-c", argv], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("number", range(3, 12))
def test_a_number_that_is_not_open_is_never_one_of_our_own(workspace: Path, number: int) -> None:
    """What the server opens gets the lowest numbers: as the admin's it would be read by two, and closed by two."""
    argv = [
        sys.executable,
        "-m",
        "fable_exec.server",
        "--workspace",
        str(workspace),
        "--allow",
        "true",
        "--admin-fd",
        str(number),
    ]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"invalid setting: --admin-fd: descriptor {number} is not open\n")


def test_requests_never_reach_the_admin_and_the_token_opens_nothing(peer: Callable[..., Peer]) -> None:
    server = peer()
    for members in ({"token": TOKEN}, {"write_token": TOKEN}, {"admin": True}, {"sandbox": False}):
        assert server.ask({"action": "write_file", "path": "a", "content": "x", **members})["code"] == "invalid-request"
    assert server.ask({"action": "unlock_writes", "token": TOKEN})["code"] == "invalid-request"
    assert server.ask(PROBE)["result"]["writes_enabled"] is False
