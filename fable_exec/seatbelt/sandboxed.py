"""Run one program under a profile with sandbox-exec, bounded in time and output, and end its group. For probes on macOS.

Its profile lies in a private file that goes away with it. What leaves the program's session escapes its end: macOS has nothing
that holds a whole tree (docs/explanation/threat-model.md).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from fable_exec.errors import IdentityLost
from fable_exec.procident import ProcessHandle
from fable_exec.seatbelt.arming import PROFILE_NAME, require_unambiguous, under_profile

__all__ = ["Ran", "run_sandboxed"]

_PIECE_BYTES = 65536
_TICK_SECONDS = 0.02


@attrs.frozen
class Ran:
    """How it ended: its status, negative for a signal, None when its time was over; and what it printed, up to a bound."""

    status: int | None
    stdout: bytes = attrs.field(repr=False)


def run_sandboxed(
    sandbox_exec: Path,
    profile: bytes,
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_seconds: float,
    max_output_bytes: int,
) -> Ran:
    """Run `argv` under `profile`; nothing of its session is alive afterwards.

    Raises:
        BoundaryUnproved: the profile could be read in another way. OSError: it could not be started.
    """
    require_unambiguous(profile)
    with tempfile.TemporaryDirectory(prefix="fable-exec-profile-") as private:
        file = Path(private, PROFILE_NAME)
        file.touch(0o600)
        file.write_bytes(profile)
        with subprocess.Popen(
            under_profile(sandbox_exec, file, argv),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            return _followed(process, time.monotonic() + timeout_seconds, max_output_bytes)


def _followed(process: subprocess.Popen[bytes], deadline: float, max_output_bytes: int) -> Ran:
    """Read until it ends or its time is over; its group is killed before it is reaped, while its number can mean nobody else."""
    output = bytearray()
    ended = False
    try:
        try:
            with ProcessHandle.of(process.pid) as handle:
                while not ended and time.monotonic() < deadline:
                    ended = handle.wait(0 if _read(process, output, max_output_bytes) else _TICK_SECONDS)
        except IdentityLost:
            ended = True  # before it could be looked at: nobody has waited for it, so the number is its own
        while ended and len(output) < max_output_bytes and _read(process, output, max_output_bytes):
            pass  # what was in the pipe at its end; whoever it left behind may write without end
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says EPERM of a group of zombies
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    return Ran(status if ended else None, bytes(output))


def _read(process: subprocess.Popen[bytes], output: bytearray, most: int) -> bool:
    """Take what is there now; False when that is nothing. What is beyond `most` is dropped."""
    stream = process.stdout
    if stream is None or not select.select([stream], [], [], 0)[0]:
        return False
    piece = os.read(stream.fileno(), _PIECE_BYTES)
    output += piece[: most - len(output)]
    return bool(piece)
