"""Which Python the programs of this library run in: that of this process."""

from __future__ import annotations

import errno
import sys

from fable_exec.errors import LaunchFailed

__all__ = ["interpreter"]


def interpreter() -> str:
    """The path of this process's interpreter; "" where it has none.

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
