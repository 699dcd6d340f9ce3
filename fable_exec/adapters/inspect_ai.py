"""inspect-ai: the sandbox "fable", a confined directory for each sample. Needs the extra `inspect-ai`; found by entry point."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Literal, overload

from fable_exec.adapters.inspect_ai_directories import SampleDirectory
from fable_exec.adapters.inspect_ai_operations import InspectOperations, Kept, TooMuchOutput, is_own_user
from fable_exec.adapters.inspect_ai_policy import CONFIG_FILES
from fable_exec.adapters.statuses import Completed
from fable_exec.errors import BrokerGone, ConfinementUnavailable, ExtraMissing, InvalidRequest, LaunchFailed

try:
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxEnvironment,
        SandboxEnvironmentLimits,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
        concurrency,
        sandboxenv,
    )
except ImportError as error:
    raise ExtraMissing.of("inspect-ai", error.name or "inspect_ai") from error

if sys.platform != "win32":
    import resource

__all__ = ["FableSandboxEnvironment"]

_DESCRIPTORS_OF_A_SAMPLE = 16
_TOOLS = "inspect-sandbox-tools"
_POLLING_SECONDS = 0.2


@sandboxenv(name="fable")
class FableSandboxEnvironment(SandboxEnvironment):
    """``Task(sandbox="fable")``, or ``sandbox=("fable", "policy.toml")`` for a policy of one's own.

    Commands see the sample's directory, private places such as /tmp, and the host's programs; another user than that of the
    evaluation cannot be asked for.
    """

    def __init__(self, operations: InspectOperations) -> None:
        super().__init__()
        self._operations = operations

    # Life

    @classmethod
    def config_files(cls) -> list[str]:
        return list(CONFIG_FILES)

    @classmethod
    def default_concurrency(cls) -> int | None:
        """As many samples as this process has descriptors for, half of which are left to the rest of the evaluation."""
        if sys.platform == "win32":
            return None
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else max(1, soft // 2 // _DESCRIPTORS_OF_A_SAMPLE)

    def default_polling_interval(self) -> float:
        return _POLLING_SECONDS

    @classmethod
    async def task_init(cls, task_name: str, config: Any) -> None:
        """Say before the first sample what no sample could do without."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidRequest("the sandbox fable needs asyncio; leave INSPECT_ASYNC_BACKEND unset") from None
        await InspectOperations.check(_document_path(config))

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: Mapping[str, str]) -> dict[str, SandboxEnvironment]:
        return {"default": cls(await InspectOperations.open(_document_path(config)))}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: Mapping[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        """Everything goes at once, also after an interruption: it takes some milliseconds."""
        for environment in environments.values():
            if isinstance(environment, cls):
                await environment._operations.close()

    @classmethod
    async def task_cleanup(cls, task_name: str, config: Any, cleanup: bool) -> None:
        """Say where everything is if it is to stay; otherwise it went with its samples."""
        if not cleanup:
            _tell(f"The samples' directories stay: {SampleDirectory.pattern()}. `inspect sandbox cleanup fable` removes them.")

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Remove the directories that evaluations left which were killed, or told not to clean up; `id` is the name of one."""
        for directory in SampleDirectory.left(id):
            directory.remove()
            _tell(f"removed {directory.path}")

    # Commands

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
        """Nothing is tried a second time, whatever `timeout_retry` says: a command that ran out of time may have done half."""
        if user is not None and not is_own_user(user):
            raise SandboxUserUnsupportedError(
                f"the sandbox fable runs everything as the user of the evaluation, not as {user!a:.100}"
            )
        with _unavailable():
            if _is_of_tools(cmd):
                kept = await self._operations.keep([cmd[0], "start-server"])
                if kept.status != 0 or cmd[1] == "start-server":
                    return _result(kept)
            async with _turn(concurrency):
                return await self._ended(cmd, input, cwd, env, timeout)

    async def _ended(
        self, cmd: list[str], input: str | bytes | None, cwd: str | None, env: dict[str, str] | None, timeout: int | None
    ) -> ExecResult[str]:
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            done = await self._operations.execute(cmd, stdin=input, cwd=cwd, env=env, timeout=timeout, max_output_bytes=most)
        except TooMuchOutput as error:
            output = (error.stdout + error.stderr).decode("utf-8", "replace")
            limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR if error.limit == most else _shown(error.limit)
            raise OutputLimitExceededError(limit, output) from error
        if done.timed_out:
            raise _OutOfTime(done)
        if done.reason == "broker_lost":
            raise SandboxUnavailableError("the sandbox was closed while the command ran")
        return _result(done)

    # Files

    async def write_file(self, file: str, contents: str | bytes) -> None:
        with _unavailable():
            await self._operations.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        most = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            with _unavailable():
                data = await self._operations.read(file, most)
        except OSError as error:
            if error.errno == errno.EFBIG:
                own = self._operations.workspace.policy.max_output_bytes
                limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR if most <= own else _shown(own)
                raise OutputLimitExceededError(limit, None) from error
            raise
        return data.decode() if text else data


class _OutOfTime(TimeoutError):
    """With the partial output where inspect-ai looks for it."""

    def __init__(self, done: Completed) -> None:
        super().__init__(f"the command ran out of time ({done.reason}); all of it was ended")
        self.truncated_output = (done.stdout + done.stderr).decode("utf-8", "replace") or None


def _tell(line: str) -> None:
    print(line)  # noqa: T201  # to who types inspect-ai's commands


def _document_path(config: Any) -> str | None:
    if config is not None and not isinstance(config, str):
        raise InvalidRequest("the configuration of the sandbox fable is the path of a policy document")
    return config


def _is_of_tools(cmd: list[str]) -> bool:
    """Whether the program is inspect-ai's own, whose server keeps sessions from one call to the next: it is started apart from
    the call, which would end it."""
    return len(cmd) == 2 and os.path.basename(cmd[0]) == _TOOLS and cmd[1] in ("start-server", "exec")


@contextlib.asynccontextmanager
async def _turn(is_bounded: bool) -> AsyncIterator[None]:
    """Wait until one more process may run beside those of the evaluation."""
    if not is_bounded:
        yield
        return
    async with concurrency("subprocesses", _most_at_once(), resizable=True):
        yield


def _most_at_once() -> int:
    """What `max_subprocesses` of the evaluation says. The name is not public; without it, what inspect-ai says by default."""
    try:
        from inspect_ai.util._subprocess import max_subprocesses_context_var
    except ImportError:
        return os.cpu_count() or 1
    return int(max_subprocesses_context_var.get())


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    """inspect-ai's word for what is no fault of the command's."""
    try:
        yield
    except (BrokerGone, ConfinementUnavailable, LaunchFailed) as error:
        raise SandboxUnavailableError(str(error)) from error


def _result(done: Completed | Kept) -> ExecResult[str]:
    """As text in which bytes that are none are replaced: output that is half binary is still of use to a model."""
    return ExecResult(
        success=done.status == 0,
        returncode=int(done.status),
        stdout=done.stdout.decode("utf-8", "replace"),
        stderr=done.stderr.decode("utf-8", "replace"),
    )


def _shown(size: int) -> str:
    return f"{size / 1024**2:g} MiB" if size % 1024 == 0 else f"{size} bytes"
