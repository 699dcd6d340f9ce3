"""A server in a process of its own, and the other ends of its pipes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.doors import DIGEST, PATH, PROGRAMS

__all__ = ["PROBE", "Peer", "command"]

PROBE = {"action": "probe"}


def command(*argv: str, **members: Any) -> dict[str, Any]:
    return {"action": "execute_command", "command": list(argv), **members}


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
