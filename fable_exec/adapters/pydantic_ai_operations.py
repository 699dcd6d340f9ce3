"""What pydantic-ai's workspace protocols ask for, over our workspace. It does not load pydantic-ai.

The protocols are nearly our own: bytes, absolute paths, builtin errors. Here is what differs: which arguments are an error of the
caller, that paths lead through links, and what is a result where we raise. `fable_exec.adapters.pydantic_ai` adds its classes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
from collections.abc import Mapping, Sequence

import attrs

from fable_exec.adapters.links import resolved
from fable_exec.adapters.listing import every_entry
from fable_exec.adapters.modes import check_writable
from fable_exec.adapters.statuses import Completed, completed, refused
from fable_exec.adapters.values import RunRequest
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.errors import Denied, FableExecError, InvalidRequest, LaunchFailed, PathDenied, PathNotDirectory

__all__ = ["Entry", "PydanticAiOperations"]


@attrs.frozen(kw_only=True)
class Entry:
    """What the protocols want to know of a path; a link is what it leads to."""

    name: str
    path: str
    is_dir: bool
    size: int | None


@attrs.frozen
class PydanticAiOperations:
    """Commands and files, with pydantic-ai's rules for arguments.

    Raises everywhere, beside the errors of the facade: ValueError for a path that is not absolute.
    """

    workspace: AgentWorkspace = attrs.field()

    @workspace.validator
    def _check_view(self, _: object, workspace: AgentWorkspace) -> None:
        if workspace.root != str(workspace.policy.workspace):
            raise InvalidRequest('pydantic-ai gives paths to commands, which see the host\'s: the workspace needs view="host"')

    async def working_dir(self) -> str:
        """Where commands start. Raises BrokerGone or PathNotFound where there is nothing to work with any more."""
        root = self.workspace.root
        await self.workspace.stat(root)
        return root

    async def run(
        self,
        command: str | Sequence[str],
        *,
        is_text: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run a command to its end. A refused or missing program is a result, of status 126 and 127.

        Raises:
            TypeError: `is_text`, their `shell`, does not fit the form of `command`.
            PathError, PathDenied: `cwd` is not there, or elsewhere.
            BrokerGone, PathNotFound: the broker or the workspace is gone, or was gone before the command ended, however it did.
        """
        if isinstance(command, str) != is_text:
            raise TypeError("a text needs shell=True, and a sequence of words shell=False")
        place = None if cwd is None else await self._resolved(cwd)
        words = command if isinstance(command, str) else tuple(command)
        try:
            done = completed(await self.workspace.run(RunRequest(words, cwd=place, env=env or {}, timeout_seconds=timeout)))
        except FableExecError as error:
            if not _is_result(error):
                raise
            done = refused(error)
        await self.working_dir()  # a shell's text is refused where there is no workspace, for what cannot be set up over nothing
        return done

    async def read_bytes(self, path: str) -> bytes:
        """All of a file."""
        return await self.workspace.read_bytes(await self._resolved(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Give a file, or what a link leads to, exactly `data`; missing parents are made.

        Raises:
            PathPermission: nobody may write to it, by its mode.
        """
        real = await self._resolved(path)
        await check_writable(self.workspace, real)
        await self.workspace.write_bytes(real, data)

    async def stat(self, path: str) -> Entry:
        """What a path is, or what it leads to."""
        found = await self.workspace.stat(await self._resolved(path))
        is_dir = found.kind == "directory"
        return Entry(
            name=posixpath.basename(path.rstrip("/")), path=path, is_dir=is_dir, size=None if is_dir else found.size_bytes
        )

    async def list_dir(self, path: str) -> list[Entry]:
        """Every entry of a directory. A link that leads nowhere, in a circle, or out of the workspace is one without a size.

        Raises:
            PathError: also for more entries than one answer has (EFBIG); a part is never taken for the whole.
        """
        entries = []
        for each in await every_entry(self.workspace, await self._resolved(path)):
            at = f"{path.rstrip('/')}/{each.name}"
            if each.kind == "symlink":
                entries.append(await self._led_to(each.name, at))
            else:
                entries.append(Entry(name=each.name, path=at, is_dir=each.kind == "directory", size=each.size_bytes))
        return entries

    async def make_dir(self, path: str) -> None:
        """Make a directory and its parents; FileExistsError where something else has the name."""
        real = await self._resolved(path)
        try:
            await self.workspace.make_dir(real)
        except PathNotDirectory:
            if await self.workspace.exists(real):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
            raise

    async def remove(self, path: str) -> None:
        """Remove a file, a link itself, or a directory with all below it.

        Raises:
            InvalidRequest: that is the workspace, or a directory that holds it.
        """
        real = await self._resolved(path, last=False)
        if f"{self.workspace.root}/".startswith(f"{real.rstrip('/')}/"):
            raise InvalidRequest(f"{path!a:.200} is the workspace, or a directory that holds it: remove what is in the workspace")
        await self.workspace.remove(real, recursive=True)

    async def exists(self, path: str) -> bool:
        """Whether something is there; a link that leads nowhere is nothing."""
        try:
            return await self.workspace.exists(await self._resolved(path))
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise

    async def realpath(self, path: str) -> str:
        """The path without links; what is missing stays as it is written."""
        await self.working_dir()
        return await self._resolved(path)

    async def _resolved(self, path: str, *, last: bool = True) -> str:
        if not path.startswith("/"):
            raise ValueError(f"path must be absolute, not {path!a:.200}")
        return await asyncio.to_thread(resolved, path, self.workspace.root, last=last)

    async def _led_to(self, name: str, path: str) -> Entry:
        try:
            return attrs.evolve(await self.stat(path), name=name)
        except (OSError, InvalidRequest):  # also of a name that no request could give, which is not UTF-8
            return Entry(name=name, path=path, is_dir=False, size=None)


def _is_result(error: FableExecError) -> bool:
    """Whether a shell would have told it by an exit status: a program that may not run, or is not there."""
    if isinstance(error, LaunchFailed):
        return error.stage == "exec"
    return isinstance(error, Denied) and not isinstance(error, PathDenied)
