"""inspect-ai: the sandbox "fable", a confined directory for each sample. Needs the extra `inspect-ai`; found by entry point."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, Literal, overload

from fable_exec.adapters.inspect_ai_operations import InspectOperations
from fable_exec.adapters.statuses import Completed
from fable_exec.errors import ExtraMissing, InvalidRequest, PathError

try:
    from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, sandboxenv
except ImportError as error:
    raise ExtraMissing.of("inspect-ai", error.name or "inspect_ai") from error

__all__ = ["FableSandboxEnvironment"]


@sandboxenv(name="fable")
class FableSandboxEnvironment(SandboxEnvironment):
    """``Task(sandbox="fable")``, or ``sandbox=("fable", "policy.toml")`` for a policy of one's own.

    Commands and paths stay in the sample's directory; another user than that of the evaluation cannot be asked for.
    """

    def __init__(self, operations: InspectOperations) -> None:
        super().__init__()
        self._operations = operations

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: Mapping[str, str]) -> dict[str, SandboxEnvironment]:
        if config is not None and not isinstance(config, str):
            raise InvalidRequest("the configuration of the sandbox fable is the path of a policy document")
        return {"default": cls(await InspectOperations.open(config))}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: Mapping[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        for environment in environments.values():
            if isinstance(environment, cls):
                await environment._operations.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Nothing is tried a second time, whatever `timeout_retry` says, and `concurrency` is the policy's."""
        done = await self._operations.execute(cmd, stdin=input, cwd=cwd, env=env, user=user, timeout=timeout)
        if done.timed_out:
            raise TimeoutError(f"the command ran out of time ({done.reason}); all of it was ended")
        self._check_whole(done)
        return ExecResult(
            success=done.status == 0, returncode=int(done.status), stdout=done.stdout.decode(), stderr=done.stderr.decode()
        )

    async def write_file(self, file: str, contents: str | bytes) -> None:
        await self._operations.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        try:
            data = await self._operations.read(file)
        except PathError as error:
            if error.errno == errno.EFBIG:
                raise OutputLimitExceededError(self._limit(), None) from error
            raise
        return data.decode() if text else data

    def _check_whole(self, done: Completed) -> None:
        if done.truncated:
            raise OutputLimitExceededError(self._limit(), (done.stdout or done.stderr).decode("utf-8", "replace"))

    def _limit(self) -> str:
        return f"{self._operations.workspace.policy.max_output_bytes / 1024**2:g} MiB"
