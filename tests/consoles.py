"""A shell at a terminal, typed into as a person does, and pages whose transcripts are typed again."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import attrs

_PROMPT = "@@ready@@"
_SHELL = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
_COLUMNS = 150


class Terminal:
    """bash at a pseudo-terminal of its own. Leaving the `with` closes the terminal: whatever is at it gets SIGHUP."""

    def __init__(self, cwd: Path, environment: Mapping[str, str], patience_seconds: float = 60) -> None:
        self._patience_seconds = patience_seconds
        self._shell, self._terminal = pty.fork()
        if self._shell == 0:
            os.chdir(cwd)
            os.execvpe(_SHELL[0], _SHELL, {**environment, "PS1": _PROMPT, "PS2": "", "TERM": "dumb"})
        termios.tcsetwinsize(self._terminal, (50, _COLUMNS))
        form = termios.tcgetattr(self._terminal)
        form[3] &= ~termios.ECHO
        termios.tcsetattr(self._terminal, termios.TCSANOW, form)
        self._until_prompt()

    def enter(self, line: str) -> str:
        """Type a line, and return what is shown until the shell asks for the next one."""
        os.write(self._terminal, f"{line}\n".encode())
        return self._until_prompt()

    def _until_prompt(self) -> str:
        shown = b""
        give_up_at = time.monotonic() + self._patience_seconds
        while not shown.endswith(_PROMPT.encode()):
            if not select.select([self._terminal], [], [], max(give_up_at - time.monotonic(), 0))[0]:
                raise TimeoutError(f"no prompt after {shown.decode(errors='replace')!r}")
            shown += os.read(self._terminal, 65536)
        return shown.decode(errors="replace").replace("\r\n", "\n").removesuffix(_PROMPT)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._terminal)
        if error is not None:
            os.kill(self._shell, signal.SIGKILL)  # it may be waiting for something that never comes
        os.waitpid(self._shell, 0)


@attrs.frozen
class Typed:
    """One line of a transcript, as it is typed, and what was shown then."""

    line: str
    shown: str


def transcripts(page: str) -> Iterator[list[Typed]]:
    """The blocks of a page that are transcripts: fenced as `console`, what is typed behind "$ ", one terminal for each."""
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
        yield [Typed(*_line_and_rest(part)) for part in parts]


def _line_and_rest(part: str) -> tuple[str, str]:
    """A typed line goes on where it ends with a backslash."""
    lines = part.splitlines(keepends=True)
    last = next(number for number, line in enumerate(lines) if not line.endswith("\\\n"))
    return "".join(lines[: last + 1]).rstrip("\n"), "".join(lines[last + 1 :])
