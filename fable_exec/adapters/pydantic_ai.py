"""pydantic-ai: a workspace backend under a policy, and the capability that gives it to runs. Needs the extra `pydantic-ai`."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import attrs

from fable_exec.adapters.pydantic_ai_operations import Entry, PydanticAiOperations
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.errors import BrokerGone, ExtraMissing, PathNotFound, WritesLocked

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.workspaces import (
        CommandResult,
        FileEntry,
        SupportsCommands,
        SupportsFilesystem,
        SupportsRealpath,
        Workspace,
        WorkspaceBackend,
        WorkspaceOutputLimitError,
        WorkspaceReadOnlyError,
        WorkspaceRef,
        WorkspaceTimeoutError,
        WorkspaceUnavailableError,
    )
except ImportError as error:
    raise ExtraMissing.of("pydantic-ai", error.name or "pydantic_ai") from error

__all__ = ["FableCapability", "FableWorkspace"]

_T = TypeVar("_T")
_PROVIDER = "fable_exec"
_GONE = ("workspace-gone", "workspace-moved")


class FableWorkspace(WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
    """A workspace of pydantic-ai over ours, of the view "host". It stays with the loop that the broker belongs to.

    Commands start in the workspace or below it, `timeout=None` is the policy's own deadline, and nothing of a command is alive
    when `run` returns, raises or is cancelled.
    """

    def __init__(self, workspace: AgentWorkspace) -> None:
        self._operations = PydanticAiOperations(workspace)
        self._ref = WorkspaceRef(provider=_PROVIDER, id=str(workspace.policy.workspace))

    @property
    def ref(self) -> WorkspaceRef:
        """The directory is the environment, and there from the start."""
        return self._ref

    async def working_dir(self) -> str:
        return await _told(self._operations.working_dir())

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command in the workspace; see `run_in`."""
        return await self.run_in(None, command, is_text=shell, env=env, timeout=timeout)

    async def run_in(
        self,
        cwd: str | None,
        command: str | Sequence[str],
        *,
        is_text: bool,
        env: Mapping[str, str] | None,
        timeout: float | None,
    ) -> CommandResult:
        """Run a command in the directory `cwd`, an absolute path; None for the workspace itself.

        Raises:
            WorkspaceTimeoutError, WorkspaceOutputLimitError: each with what the command had printed.
            WorkspaceUnavailableError: broker or directory were gone before the command ended.
        """
        done = await _told(self._operations.run(command, is_text=is_text, cwd=cwd, env=env, timeout=timeout))
        out, err = done.stdout_text, done.stderr_text
        if done.timed_out:
            raise WorkspaceTimeoutError(
                f"the command ran out of time ({done.reason}); all of it was ended", stdout=out, stderr=err
            )
        if done.truncated:
            limit = self._operations.workspace.policy.max_output_bytes
            raise WorkspaceOutputLimitError(f"the command wrote more than {limit} bytes", limit=limit, stdout=out, stderr=err)
        return CommandResult(exit_code=int(done.status), stdout=out, stderr=err)

    async def read_bytes(self, path: str) -> bytes:
        return await _told(self._operations.read_bytes(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        await _told(self._operations.write_bytes(path, data))

    async def stat(self, path: str) -> FileEntry:
        return _entry(await _told(self._operations.stat(path)))

    async def list_dir(self, path: str) -> list[FileEntry]:
        return [_entry(each) for each in await _told(self._operations.list_dir(path))]

    async def make_dir(self, path: str) -> None:
        await _told(self._operations.make_dir(path))

    async def remove(self, path: str) -> None:
        await _told(self._operations.remove(path))

    async def exists(self, path: str) -> bool:
        return await _told(self._operations.exists(path))

    async def realpath(self, path: str) -> str:
        return await _told(self._operations.realpath(path))


class _RunWorkspace(Workspace):
    """What tools get as `ctx.workspace`: pydantic-ai's, with the command of another `cwd` started there by the broker.

    Pydantic-ai's own has /bin/sh change into the directory. The policy would have to list that shell, and would judge it in the
    place of the command.
    """

    def __init__(self, backend: FableWorkspace) -> None:
        super().__init__(backend)
        self._fable = backend

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        place = None if cwd is None else await self.resolve(cwd)
        return await self._fable.run_in(place, command, is_text=shell, env=env, timeout=timeout)


@dataclass
class FableCapability(AbstractCapability[Any]):
    """Gives runs the workspace: ``Agent(model, capabilities=[FableCapability(workspace)])``.

    It continues in a reference of its own directory, and declines every other.
    """

    workspace: AgentWorkspace

    def get_workspace(self, ctx: Any, *, ref: WorkspaceRef | None) -> Workspace | None:
        backend = FableWorkspace(self.workspace)
        return None if ref is not None and ref != backend.ref else _RunWorkspace(backend)


def _entry(entry: Entry) -> FileEntry:
    return FileEntry(**attrs.asdict(entry))


async def _told(work: Awaitable[_T]) -> _T:
    """What of ours has an error of pydantic-ai's; the others inherit the builtins that it wants."""
    try:
        return await work
    except BrokerGone as gone:
        raise WorkspaceUnavailableError(str(gone)) from gone
    except PathNotFound as missing:
        if missing.reason not in _GONE:
            raise
        raise WorkspaceUnavailableError(str(missing)) from missing
    except WritesLocked as locked:
        raise WorkspaceReadOnlyError(str(locked)) from locked
