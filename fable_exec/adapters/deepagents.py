"""deepagents: a sandbox backend under a policy, with file operations of our own. Needs the extra `deepagents`.

Commands are shell text, and run only where the kernel confines them. Files are read and written through the broker and not by
programs within the sandbox.
"""

from __future__ import annotations

import uuid

from fable_exec.adapters.blocking import BlockingAgentWorkspace
from fable_exec.adapters.deepagents_operations import DeepAgentsOperations
from fable_exec.errors import ExtraMissing

try:
    from deepagents.backends import protocol
except ImportError as error:
    raise ExtraMissing.of("deepagents", error.name or "deepagents") from error

__all__ = ["FableBackend"]


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
        return protocol.ExecuteResponse(**self._operations.execute(command, timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> protocol.ExecuteResponse:
        """Cancelling it ends the command's whole tree, and only then goes on."""
        return protocol.ExecuteResponse(**await self._operations.execute_cancellably(command, timeout))

    def ls(self, path: str) -> protocol.LsResult:
        return protocol.LsResult(**self._operations.ls(path))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> protocol.ReadResult:
        return protocol.ReadResult(**self._operations.read(file_path, offset, limit))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> protocol.GrepResult:
        return protocol.GrepResult(**self._operations.grep(pattern, path, glob, max_count))

    def glob(self, pattern: str, path: str | None = None) -> protocol.GlobResult:
        return protocol.GlobResult(**self._operations.glob(pattern, path))

    def write(self, file_path: str, content: str) -> protocol.WriteResult:
        return protocol.WriteResult(**self._operations.write(file_path, content))

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> protocol.EditResult:
        return protocol.EditResult(**self._operations.edit(file_path, old_string, new_string, replace_all))

    def delete(self, file_path: str) -> protocol.DeleteResult:
        return protocol.DeleteResult(**self._operations.delete(file_path))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[protocol.FileUploadResponse]:
        return [protocol.FileUploadResponse(**answer) for answer in self._operations.upload(files)]

    def download_files(self, paths: list[str]) -> list[protocol.FileDownloadResponse]:
        return [protocol.FileDownloadResponse(**answer) for answer in self._operations.download(paths)]
