"""Lines in and lines out of a server in a process of its own: what they hold, what is refused, and what they may cost."""

from __future__ import annotations

import hashlib
import json
import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fable_exec.protocol.requests import ACTIONS
from tests.doors import TOKEN
from tests.server.peers import PROBE, Peer, command


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One for all that is refused, on a workspace with a file and a directory: what is refused changes nothing."""
    workspace = tmp_path_factory.mktemp("refusing").resolve()
    (workspace / "directory").mkdir()
    (workspace / "file").touch(0o600)
    server = Peer(workspace)
    yield server
    server.close()


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


@pytest.mark.requires_ability("confinement")
def test_an_answer_is_cut_to_its_bound_and_says_so(peer: Callable[..., Peer], tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"limits": {"max_answer_bytes": 65536}}')
    server = peer("--policy", str(tmp_path / "policy.json"))
    server.send(command("cat", stdin="\u0001" * 100_000))
    line = server.line()
    result = json.loads(line)["result"]
    assert len(line) <= 65536
    assert (result["answer_limited"], result["output_limited"], result["stdout_total_bytes"]) == (True, True, 100_000)


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


def test_requests_never_reach_the_admin_and_the_token_opens_nothing(peer: Callable[..., Peer]) -> None:
    server = peer()
    for members in ({"token": TOKEN}, {"write_token": TOKEN}, {"admin": True}, {"sandbox": False}):
        assert server.ask({"action": "write_file", "path": "a", "content": "x", **members})["code"] == "invalid-request"
    assert server.ask({"action": "unlock_writes", "token": TOKEN})["code"] == "invalid-request"
    assert server.ask(PROBE)["result"]["writes_enabled"] is False
