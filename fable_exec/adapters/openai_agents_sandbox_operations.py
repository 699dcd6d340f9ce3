"""What a sandbox session of OpenAI's Agents SDK asks for, over a broker of its own. It does not load the SDK.

Commands that are waited for, files, and the whole workspace as a tar; `openai_agents_sandbox_background` has the other commands.
`openai_agents_sandbox` and its `_session` add the SDK's classes, `openai_agents_sandbox_errors` its errors.
"""

from __future__ import annotations

import asyncio
import posixpath
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import IO, Any, TypeVar

import attrs

from fable_exec.adapters import archives
from fable_exec.adapters.creating import create_file
from fable_exec.adapters.following import done_first
from fable_exec.adapters.listing import every_entry
from fable_exec.adapters.openai_agents_sandbox_background import BackgroundCommands
from fable_exec.adapters.owned import overlaid, unlocked_broker
from fable_exec.adapters.shelltext import shell_command
from fable_exec.adapters.statuses import Completed
from fable_exec.adapters.values import RunRequest
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.broker import AsyncExecutionBroker
from fable_exec.errors import Denied, InvalidRequest, PathDenied, PathNotFound
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath
from fable_exec.pathguard.directories import HeldDirectory
from fable_exec.pathguard.facts import translated

__all__ = ["DEFAULT_DOCUMENT", "Listed", "SandboxOperations", "pack", "session_document", "unpack"]

DEFAULT_DOCUMENT: Mapping[str, Any] = {
    # A shell runs whatever the kernel lets it see. The others are what the SDK itself calls by name, and what makes terminals.
    "allowed_executables": ["bash", "sh", "python3", "git", "script", "chmod", "cp", "mkdir", "mv", "rm", "ls", "cat", "test"],
    "max_output_bytes": 10 * 1024**2,
    "paths": {"backslash": "literal"},
}
"""What holds where the policy document of a client says nothing."""
_IN_ITS_OWN_DIRECTORY: Mapping[str, Any] = {
    "confinement": {"protections": {"later_files": "off"}},
    "paths": {"file_trust": "regular"},
}
"""Nobody runs anything in a directory that goes with its session, and no other user gets into it."""
_T = TypeVar("_T")


def session_document(given: Mapping[str, Any], *, own_directory: bool, variables: Iterable[str] = ()) -> dict[str, Any]:
    """The document of a session: what was given, and the defaults.

    Args:
        variables: that its manifest sets, for which requests may be made unless the document says for which.
    """
    defaults = overlaid(DEFAULT_DOCUMENT, {"environment": {"request_names": sorted(variables)}})
    return overlaid(overlaid(defaults, _IN_ITS_OWN_DIRECTORY) if own_directory else defaults, given)


@attrs.frozen(kw_only=True)
class Listed:
    """One entry of a directory; a link is described itself."""

    path: str
    kind: str
    size_bytes: int
    mode: int


class SandboxOperations:
    """One session: a broker over its directory, writes unlocked, and what runs there. Opened by `open`, for one loop."""

    def __init__(self, broker: AsyncExecutionBroker, shell: str) -> None:
        self._broker = broker
        self._shell = shell
        self.workspace = AgentWorkspace(broker)
        self.background = BackgroundCommands(broker)
        self.is_locked = False

    @classmethod
    async def open(cls, document: Mapping[str, Any], root: str) -> SandboxOperations:
        """Begin.

        Raises:
            PolicyError: the document is faulty. ExecutableDenied: it lists no shell.
            ShellDenied: the kernel does not hold here what a shell could do; all that sessions run is shell text.
        """
        broker = await unlocked_broker(document, root)
        try:
            shell, *_ = shell_command(":", await broker.probe())
        except BaseException:
            await broker.close()
            raise
        return cls(broker, shell)

    def check_env(self, names: Iterable[str]) -> None:
        """Raise Denied unless the policy lets requests set every one of these variables."""
        refused = [name for name in names if not self.workspace.policy.environment.admits_request(name)]
        if refused:
            raise Denied(
                f"the policy does not let a session set {', '.join(map(ascii, refused))}: list it in environment.request_names"
            )

    async def lock(self) -> None:
        """From now on nobody writes in the workspace."""
        await self._broker.lock_writes()
        self.is_locked = True

    async def close(self) -> None:
        """End all that runs, prove it, and release everything. Idempotent."""
        await self._broker.close()

    # Commands

    def shell_words(self, text: str) -> list[str]:
        """A shell that reads `text`, no login shell: what the host's profiles set is the host's."""
        return [self._shell, "-c", text]

    async def execute(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Completed:
        """Run a command to its end. What the policy refuses is a result too: the status of a shell, and why on standard error.

        Args:
            timeout: in seconds; None is the longest that the policy allows.
        """
        seconds = self.workspace.policy.limits.max_timeout_seconds if timeout is None else timeout
        return await self.workspace.complete(RunRequest(tuple(command), env=env or {}, timeout_seconds=seconds))

    # Files. Paths are absolute and below the workspace.

    async def read(self, path: str) -> bytes:
        """All of a file. Raises PathError (EFBIG) for more than one read gives."""
        return await self.workspace.read_bytes(path)

    async def read_first(self, path: str, max_bytes: int) -> bytes:
        """The first `max_bytes` of a file, or all of a shorter one; never less, which would read as its end."""
        found = await self.workspace.inspect(path, max_bytes)
        if found.truncated and len(found.data) < max_bytes:
            return await self.read(path)  # which says that it is too large
        return found.data

    async def write(self, path: str, data: bytes) -> None:
        """Give a file exactly `data`; missing parents are made."""
        await self.workspace.write_bytes(path, data)

    async def create(self, path: str, data: bytes) -> None:
        """Make a file. Raises PathExists where something has the name, also if it came meanwhile."""
        await create_file(self.workspace, path, data)

    async def list(self, path: str) -> list[Listed]:
        """Every entry of a directory. Raises PathError (EFBIG) for more than one answer has."""
        entries = []
        for each in await every_entry(self.workspace, path):
            at = f"{path.rstrip('/')}/{each.name}"
            try:
                found = await self.workspace.stat(at)
            except PathNotFound:
                continue  # gone since
            except (PathDenied, InvalidRequest):  # a name that no request may have: not UTF-8, or protected
                entries.append(Listed(path=at, kind=each.kind, size_bytes=each.size_bytes or 0, mode=0))
            else:
                entries.append(Listed(path=at, kind=found.kind, size_bytes=found.size_bytes, mode=found.mode))
        return entries

    async def make_dir(self, path: str, *, parents: bool) -> None:
        """Make a directory; one that is there already is no error."""
        if not parents:
            await self.workspace.stat(posixpath.dirname(path))
        await self.workspace.make_dir(path)

    async def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file, a link itself, or an empty directory; with `recursive` a directory with all below it."""
        await self.workspace.remove(path, recursive=recursive)

    async def move(self, source: str, destination: str) -> None:
        """Rename a file or a link itself; a file in the new place is replaced.

        Raises:
            InvalidRequest: the source is neither. PathIsDirectory: a directory has the new name.
        """
        if (await self.workspace.stat(source)).kind not in ("file", "symlink"):
            raise InvalidRequest(f"{source!a:.200} is no file and no link")
        await self.workspace.move(source, destination, replace=True)

    async def is_same_file(self, left: str, right: str) -> bool:
        """Whether two names stand for one file, which is no link."""
        first, second = await asyncio.to_thread(lambda: (self._identity(left), self._identity(right)))
        return first is not None and first == second

    def _identity(self, path: str) -> tuple[int, int] | None:
        place = _place(path, self.workspace.root)
        with Workspace.open(self.workspace.root) as tree, translated(path):
            parent = HeldDirectory(tree.open_directory(place.parent))
            try:
                found = parent.look(place.name)
            except FileNotFoundError:
                return None
            finally:
                parent.close()
        return None if stat.S_ISLNK(found.st_mode) else (found.st_dev, found.st_ino)


async def pack(root: str, left_out: Iterable[PurePath] = ()) -> IO[bytes]:
    """All of the workspace at `root` as a tar, see `archives.pack`. It is the embedder's to ask for, so no broker is asked."""
    packing = _in_thread(lambda tree: archives.pack(tree, {path.parts for path in left_out}), root)
    try:
        return await done_first(packing)
    except asyncio.CancelledError:
        if packing.exception() is None:
            packing.result().close()
        raise


async def unpack(root: str, data: IO[bytes], *, instead: bool = False) -> None:
    """Make what a tar holds in the workspace at `root`, see `archives.unpack`."""
    await done_first(_in_thread(lambda tree: archives.unpack(tree, data, instead=instead), root))


def _in_thread(work: Callable[[Workspace], _T], root: str) -> asyncio.Future[_T]:
    """A thread cannot be stopped: it is to be waited for, so that nobody works in the directory after a cancellation."""

    def act() -> _T:
        with Workspace.open(root) as tree:
            return work(tree)

    return asyncio.ensure_future(asyncio.to_thread(act))


def _place(path: str, root: str) -> WorkspacePath:
    return WorkspacePath.parse(posixpath.relpath(path, root), PathProfile.host())
