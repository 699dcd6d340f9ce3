"""What a file's own permission bits say, for frameworks that count on them.

The broker replaces files whole, for which the system asks no permission on what is replaced, and root's broker may read all. It
is a look before the act, and protects nothing: whoever may write to the directory may change the bits.
"""

from __future__ import annotations

import errno

from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.errors import PathNotDirectory, PathNotFound, PathPermission

__all__ = ["check_readable", "check_writable"]

_READABLE = 0o444
_WRITABLE = 0o222


async def check_readable(workspace: AgentWorkspace, path: str) -> None:
    """Let pass what is no file, or one that somebody may read.

    Raises:
        PathPermission: nobody may, by its bits; root neither.
    """
    await _check(workspace, path, _READABLE, "readable")


async def check_writable(workspace: AgentWorkspace, path: str) -> None:
    """The same of one that somebody may write to."""
    await _check(workspace, path, _WRITABLE, "writable")


async def _check(workspace: AgentWorkspace, path: str, bits: int, word: str) -> None:
    try:
        found = await workspace.stat(path)
    except (PathNotFound, PathNotDirectory):
        return
    if found.kind == "file" and not found.mode & bits:
        raise PathPermission(
            f"{path!a:.200} is not {word} (mode {found.mode:03o})", reason="permission", path=path, errno=errno.EACCES
        )
