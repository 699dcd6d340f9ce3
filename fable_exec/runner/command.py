"""What to run: plain values that the broker has already checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from fable_exec.executables import Executable
from fable_exec.outcome import OnOutputLimit

__all__ = ["NO_PINS", "Command", "Executable", "Pins"]


@attrs.frozen
class Pins:
    """What a command must not change although it may write around it.

    Args:
        paths: (path, stamp) of files and directories below the workspace; the stamp changes when it may be another file.
        required: whether the command must not run when the kernel refuses one of them; else the outcome says so.
    """

    paths: tuple[tuple[str, int], ...] = ()
    required: bool = True


NO_PINS = Pins()


@attrs.frozen(kw_only=True)
class Command:
    """One command, checked and complete.

    Args:
        argv: the whole argument vector; item 0 is what the program sees as its name.
        executable: the file to execute.
        cwd: components of the working directory below the workspace.
        environment: everything that is set besides the private HOME and TMPDIR.
        stdin: bytes to feed, or None for /dev/null. `open_stdin` keeps it open for more.
        timeout_seconds, idle_timeout_seconds: the total deadline, and the longest silence on both streams (None: any).
        max_output_bytes: kept per stream.
        canary: run the launcher's own canary with this bait instead of an executable.
        on_output_limit: "kill" ends the command at the first byte over the cap, "truncate" keeps head and tail.
    """

    argv: tuple[str, ...]
    executable: Executable
    cwd: tuple[str, ...] = ()
    environment: Mapping[str, str] = attrs.field(factory=dict)
    stdin: bytes | None = None
    open_stdin: bool = False
    timeout_seconds: float = 120.0
    idle_timeout_seconds: float | None = None
    max_output_bytes: int = 1_000_000
    on_output_limit: OnOutputLimit = "kill"
    canary: Mapping[str, Any] | None = None

    def to_wire(self, *, announce: bool, pins_required: bool) -> dict[str, object]:
        """The request as the launcher reads it, but for the pins that it does not know yet."""
        wanted = self.executable
        return {
            "argv": self.argv,
            "executable": {
                "path": wanted.path,
                "device": wanted.device,
                "inode": wanted.inode,
                "script": wanted.is_script,
                "by_descriptor": wanted.by_descriptor,
            },
            "cwd": "/".join(self.cwd) or ".",
            "environment": dict(self.environment),
            "stdin": self.wants_stdin,
            "timeout": self.timeout_seconds,
            "announce": announce,
            "pins_required": pins_required,
            "canary": None if self.canary is None else dict(self.canary),
        }

    @property
    def wants_stdin(self) -> bool:
        """Whether the command gets a pipe instead of /dev/null."""
        return self.stdin is not None or self.open_stdin
