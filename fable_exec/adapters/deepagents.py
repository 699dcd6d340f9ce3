"""deepagents: a sandbox backend under a policy, with file operations of our own. Needs the extra `deepagents`.

Commands are shell text, and run only where the kernel confines them. Files are read and written through the broker and not by
programs within the sandbox.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

from fable_exec.adapters.blocking import BlockingAgentWorkspace
from fable_exec.adapters.deepagents_operations import DeepAgentsOperations
from fable_exec.errors import ExtraMissing

try:
    from deepagents.backends import protocol
except ImportError as error:
    raise ExtraMissing.of("deepagents", error.name or "deepagents") from error

__all__ = ["FableBackend"]

_A = TypeVar("_A")


class FableBackend(protocol.SandboxBackendProtocol):
    """For ``create_deep_agent(backend=...)``. Its asynchronous operations may be awaited in any event loop.

    Args:
        workspace: whose policy holds; with ``view="root"`` the agent calls it "/". It stays the caller's.
    """

    def __init__(self, workspace: BlockingAgentWorkspace) -> None:
        self._operations = DeepAgentsOperations(workspace)
        self._id = f"fable-{uuid.uuid4().hex[:12]}"

    @property
    def id(self) -> str:
        return self._id

    def execute(self, command: str, *, timeout: int | None = None) -> protocol.ExecuteResponse:
        return _as(protocol.ExecuteResponse, self._operations.execute(command, timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> protocol.ExecuteResponse:
        """Cancelling it ends the command's whole tree, and only then goes on."""
        return _as(protocol.ExecuteResponse, await self._operations.execute_cancellably(command, timeout))

    def ls(self, path: str) -> protocol.LsResult:
        return _as(protocol.LsResult, self._operations.ls(path))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> protocol.ReadResult:
        return _as(protocol.ReadResult, self._operations.read(file_path, offset, limit))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> protocol.GrepResult:
        return _as(protocol.GrepResult, self._operations.grep(pattern, path, glob, max_count))

    def glob(self, pattern: str, path: str | None = None) -> protocol.GlobResult:
        return _as(protocol.GlobResult, self._operations.glob(pattern, path))

    def write(self, file_path: str, content: str) -> protocol.WriteResult:
        return _as(protocol.WriteResult, self._operations.write(file_path, content))

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> protocol.EditResult:
        return _as(protocol.EditResult, self._operations.edit(file_path, old_string, new_string, replace_all))

    def delete(self, file_path: str) -> protocol.DeleteResult:
        return _as(protocol.DeleteResult, self._operations.delete(file_path))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[protocol.FileUploadResponse]:
        return [_as(protocol.FileUploadResponse, answer) for answer in self._operations.upload(files)]

    def download_files(self, paths: list[str]) -> list[protocol.FileDownloadResponse]:
        return [_as(protocol.FileDownloadResponse, answer) for answer in self._operations.download(paths)]


def _as(kind: type[_A], answer: Mapping[str, Any]) -> _A:
    """One of deepagents' answers. A member that its version does not have yet, such as where a window ends, is left out."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # they are dataclasses
    return kind(**{name: value for name, value in answer.items() if name in names})
