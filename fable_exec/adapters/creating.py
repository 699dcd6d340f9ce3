"""A file that is only made where nothing has its name, also if the name is taken at the same time."""

from __future__ import annotations

import contextlib
import posixpath

from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.errors import FableExecError, PathExists
from fable_exec.pathguard.replacing import temporary_name

__all__ = ["create_file"]


async def create_file(workspace: AgentWorkspace, path: str, data: bytes) -> None:
    """Make `path` with all of `data`; missing parents are made.

    It is written beside its place and moved there, which the kernel refuses where the name is taken.

    Raises:
        PathExists: something has the name.
    """
    if await workspace.exists(path):
        raise PathExists(f"{path!a:.200} is there already; update it", reason="exists", path=path)
    directory, name = posixpath.split(path)
    temporary = temporary_name()
    beside = posixpath.join(directory, temporary)
    try:
        await workspace.write_bytes(beside, data)
    except FableExecError as error:
        raise error.reworded(str(error).replace(temporary, name)) from None
    try:
        await workspace.move(beside, path)
    except BaseException:
        with contextlib.suppress(FableExecError):
            await workspace.remove(beside)
        raise
