"""Children that answer a line with a line, driven with bare reads and writes so that the driver costs next to nothing."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "DIGEST",
    "OUR_SERVER",
    "PROJECT",
    "TOKEN",
    "Lines",
    "echo_child",
    "environment",
    "served_broker",
    "server_command",
    "started",
]

PROJECT = Path(__file__).resolve().parent.parent
TOKEN = "benchmark"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
OUR_SERVER = "fable_exec.server"
_ECHO = """
import sys, json
out = sys.stdout.buffer
for line in sys.stdin.buffer:
    out.write(json.dumps(json.loads(line)).encode() + b"\\n")
    out.flush()
"""
_WRITER = """
import sys, json
from benchmarks.raw import durable_write
out = sys.stdout.buffer
for line in sys.stdin.buffer:
    request = json.loads(line)
    durable_write(sys.argv[1], request["content"].encode())
    out.write(json.dumps({"ok": True}).encode() + b"\\n")
    out.flush()
"""
_UNLOCK_SECONDS = 10.0


class Lines:
    """One child and its two pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self._requests, self._answers = process.stdin.fileno(), process.stdout.fileno()

    def ask(self, line: bytes) -> bytes:
        """Send a line with its newline, return the line that comes back."""
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._requests, rest) :]
        pieces = [self._read()]
        while not pieces[-1].endswith(b"\n"):
            pieces.append(self._read())
        return b"".join(pieces)

    def _read(self) -> bytes:
        data = os.read(self._answers, 1 << 16)
        if not data:
            raise EOFError(f"the child ended with status {self.process.wait()}")
        return data

    def close(self) -> None:
        """End of input; then wait for the child's end."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, with a way to find this very package and the benchmarks, and Python as it is when nobody has set it up otherwise.

    PYTHONDONTWRITEBYTECODE above all would have every child compile the package anew, but not what pip compiled already.
    """
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
    return {**plain, "PYTHONPATH": path, **(more or {})}


@contextmanager
def started(argv: Sequence[str], more: Mapping[str, str] | None = None, keep: Sequence[int] = ()) -> Iterator[Lines]:
    """`argv` as such a child; what it complains of goes nowhere."""
    child = Lines(
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(more),
            pass_fds=keep,
        )
    )
    try:
        yield child
    finally:
        child.close()


@contextmanager
def echo_child(python: str = sys.executable) -> Iterator[Lines]:
    """Parses each line as JSON and sends it back."""
    with started([python, "-c", _ECHO]) as child:
        yield child


@contextmanager
def writing_child(path: str) -> Iterator[Lines]:
    """Parses each line as JSON, writes its content durably to `path`, and answers shortly."""
    with started([sys.executable, "-c", _WRITER, path]) as child:
        yield child


def server_command(python: str, module: str, workspace: Path) -> list[str]:
    """The command line of a broker's server; ours without confinement, as fable-engine's is."""
    argv = [python, "-m", module, "--workspace", str(workspace), "--allow-executable", "true"]
    return [*argv, "--confinement", "off"] if module == OUR_SERVER else argv


@contextmanager
def served_broker(python: str, module: str, workspace: Path) -> Iterator[Lines]:
    """A spawned broker of the one protocol, ours or fable-engine's, with its writes unlocked."""
    ours, its = socket.socketpair()
    with ours:
        argv = [*server_command(python, module, workspace), "--admin-fd", str(its.fileno())]
        with its, started(argv, {"FABLE_BROKER_WRITE_TOKEN_DIGEST": DIGEST}, [its.fileno()]) as child:
            ours.sendall(json.dumps({"action": "unlock_writes", "token": TOKEN}).encode() + b"\n")
            _wait_until_unlocked(child)
            yield child
            ours.shutdown(socket.SHUT_RDWR)


def _wait_until_unlocked(child: Lines) -> None:
    give_up_at = time.monotonic() + _UNLOCK_SECONDS
    while not result_of(child.ask(b'{"action": "probe"}\n'))["writes_enabled"]:
        if time.monotonic() > give_up_at:
            raise TimeoutError("the broker did not unlock its writes")


def result_of(line: bytes) -> dict[str, Any]:
    """The result in an answer; an error answer is an error here."""
    answer = json.loads(line)
    if answer.get("ok") is not True:
        raise RuntimeError(f"refused: {line[:500]!r}")
    result: dict[str, Any] = answer["result"]
    return result
