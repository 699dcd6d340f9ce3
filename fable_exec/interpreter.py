"""What starts programs of this library, and these programs, must agree on: which Python they run in, their settings, a status."""

from __future__ import annotations

import errno
import sys

from fable_exec.errors import LaunchFailed

__all__ = ["EXIT_BAD_POLICY", "SETTING_PREFIXES", "interpreter"]

SETTING_PREFIXES = ("FABLE_EXEC_", "FABLE_BROKER_")
"""What the names of the variables begin with that are settings of such a program; the first wins."""
EXIT_BAD_POLICY = 2
"""The exit status of a server whose policy or settings are not valid."""


def interpreter() -> str:
    """The path of the interpreter they run in, which is that of this process; "" where it has none.

    Raises:
        LaunchFailed: this is a frozen application (PyInstaller, cx_Freeze), whose `sys.executable` is the application: it would
            start itself, and that one itself again.
    """
    if getattr(sys, "frozen", False):
        raise LaunchFailed(
            f"could not start the command: this application is frozen, and {sys.executable} is no Python interpreter to run the "
            "launcher program with; use a BrokerClient with the path of one as python=",
            stage="interpreter",
            errno=errno.ENOEXEC,
        )
    return sys.executable or ""
