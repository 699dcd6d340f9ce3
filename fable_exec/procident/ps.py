"""What ps(1) says of a birth, where nothing better does. It never authorises a signal."""

from __future__ import annotations

import contextlib
import subprocess

from fable_exec.errors import IdentityLost
from fable_exec.procident.tokens import BirthToken, TokenKind

__all__ = ["birth_by_ps", "read_answer"]

_SECONDS = 10.0
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC0", "PATH": "/bin:/usr/bin"}  # the same words wherever and by whomever it is asked


def birth_by_ps(pid: int) -> BirthToken | None:
    """The token of a living process, None where ps does not tell it. Takes 10 seconds at most.

    Raises:
        IdentityLost: ps says that the process is a zombie.
    """
    argv = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
    try:
        answer = subprocess.run(argv, env=_ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return read_answer(pid, answer.stdout.decode("ascii", "replace"))


def read_answer(pid: int, text: str) -> BirthToken | None:
    """What `ps -o stat= -o lstart=` wrote: one line, the state and the start. None for anything else."""
    lines = text.strip().splitlines()
    if len(lines) != 1:
        return None
    state, _, start = lines[0].strip().partition(" ")
    if state.startswith("Z"):
        raise IdentityLost(f"process {pid} is a zombie", gone=True)
    with contextlib.suppress(ValueError):
        return BirthToken(TokenKind.PS, start.strip())
    return None
