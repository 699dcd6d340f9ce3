"""What a file's own permission bits say, for frameworks that count on them.

The broker replaces files whole, for which the system asks no permission on what is replaced. It is a look before the act, and
protects nothing: whoever may write to the directory may change the bits.
"""

from __future__ import annotations

import errno

from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.errors import PathNotDirectory, PathNotFound, PathPermission

__all__ = ["check_writable"]

_WRITABLE = 0o222


async def check_writable(workspace: AgentWorkspace, path: str) -> None:
    """Let pass what is no file, or one that somebody may write to.

    Raises:
        PathPermission: nobody may, by its bits; root neither.
    """
    try:
        found = await workspace.stat(path)
    except (PathNotFound, PathNotDirectory):
        return
    if found.kind == "file" and not found.mode & _WRITABLE:
        raise PathPermission(
            f"{path!a:.200} is not writable (mode {found.mode:03o})", reason="permission", path=path, errno=errno.EACCES
        )
