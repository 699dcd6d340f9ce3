"""What inspect-ai asks of a sandbox environment: a directory of its own for each sample, and its rules for errors.

It does not load inspect-ai; `fable_exec.adapters.inspect_ai` adds its classes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from fable_exec.adapters.modes import check_writable
from fable_exec.adapters.statuses import Completed, completed, refused
from fable_exec.adapters.values import RunRequest
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.broker import AsyncExecutionBroker
from fable_exec.calls.building import as_bytes
from fable_exec.errors import LaunchFailed, PolicyError
from fable_exec.policy import BrokerPolicy, read_document

__all__ = ["DEFAULT_DOCUMENT", "InspectOperations"]

DEFAULT_DOCUMENT: Mapping[str, Any] = {
    "allowed_executables": ["bash", "sh", "python3"],
    "max_output_bytes": 10 * 1024**2,  # inspect-ai's own limit for a command
}
"""What holds where the policy document of a task says nothing."""


class InspectOperations:
    """One sample's environment: an empty directory, a broker over it with writes unlocked, and both gone after `close`.

    Opened by `open`. The directory is made for the sample and removed with it, so whoever opens it is its administrator.
    """

    def __init__(self, directory: tempfile.TemporaryDirectory[str], broker: AsyncExecutionBroker) -> None:
        self._directory = directory
        self._broker = broker
        self.workspace = AgentWorkspace(broker)

    @classmethod
    async def open(cls, document_path: str | None = None) -> InspectOperations:
        """Make the environment.

        Args:
            document_path: a policy in TOML or JSON without `workspace` and `write_token_digest`, which are the sample's own.

        Raises:
            PolicyError: it is none, or names one of the two.
        """
        given = {} if document_path is None else read_document(document_path)
        own = [name for name in ("workspace", "write_token_digest") if name in given]
        if own:
            raise PolicyError.of([(name, "each sample has its own; leave it out") for name in own])
        token = secrets.token_hex(16)
        directory = tempfile.TemporaryDirectory(prefix="fable-exec-inspect-", ignore_cleanup_errors=True)
        try:
            digest = hashlib.sha256(token.encode()).hexdigest()
            document = {**DEFAULT_DOCUMENT, **given, "workspace": os.path.realpath(directory.name), "write_token_digest": digest}
            broker = AsyncExecutionBroker(BrokerPolicy.from_mapping(document))
        except BaseException:
            directory.cleanup()
            raise
        operations = cls(directory, broker)
        try:
            await broker.unlock_writes(token)
        except BaseException:
            await operations.close()
            raise
        return operations

    async def close(self) -> None:
        """End what runs, then remove the directory. Idempotent."""
        try:
            await self._broker.close()
        finally:
            self._directory.cleanup()

    async def execute(
        self,
        command: Sequence[str],
        *,
        stdin: str | bytes | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run a command to its end. A missing program is a result, of status 127.

        Raises:
            Denied: the policy refuses it. PermissionError: it is not executable, or another `user` is asked for.
        """
        if user is not None:
            raise PermissionError(errno.EPERM, f"commands run as the user of this environment, not as {user!a:.100}")
        given = None if stdin is None else as_bytes(stdin, "input")
        request = RunRequest(tuple(command), cwd=cwd, env=env or {}, stdin=given, timeout_seconds=timeout)
        try:
            return completed(await self.workspace.run(request))
        except LaunchFailed as error:
            if error.stage == "exec" and error.errno == errno.ENOENT:
                return refused(error)
            if error.stage == "exec":
                raise PermissionError(error.errno or errno.EACCES, str(error), command[0]) from error
            raise

    async def read(self, path: str) -> bytes:
        """All of a file, by a path that is absolute in the environment's directory or relative to it."""
        return await self.workspace.read_bytes(path)

    async def write(self, path: str, contents: str | bytes) -> None:
        """Give a file exactly `contents`; missing parents are made. PermissionError for one that nobody may write to."""
        await check_writable(self.workspace, path)
        await self.workspace.write_bytes(path, as_bytes(contents, "contents"))
