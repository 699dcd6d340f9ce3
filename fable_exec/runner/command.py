"""What to run: plain values that the broker has already checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Executable:
    """One file that may be executed, as it was seen when it was allowed.

    Args:
        name: its basename on the allow-list.
        registered_path: the absolute path before links were resolved; it becomes argv[0], because virtual environments and
            multi-call programs find themselves by it.
        path: the resolved path.
        device, inode: of the file itself; the launcher refuses another.
        is_script: whether it begins with `#!`.
        by_descriptor: execute the checked descriptor instead of the path, because the file could be swapped in between. The price
            is a process named after the descriptor's number, and a script that sees such a path in `$0`.
        digest: SHA-256 of its content, where the policy pins it.
    """

    name: str
    registered_path: str
    path: str
    device: int
    inode: int
    is_script: bool = False
    by_descriptor: bool = False
    digest: str | None = None


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
    on_output_limit: Literal["kill", "truncate"] = "kill"

    def to_wire(self, *, announce: bool) -> dict[str, object]:
        """The request as the launcher reads it."""
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
        }

    @property
    def wants_stdin(self) -> bool:
        """Whether the command gets a pipe instead of /dev/null."""
        return self.stdin is not None or self.open_stdin
