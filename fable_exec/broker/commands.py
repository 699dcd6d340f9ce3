"""From a command request to a checked command for the runner, and from its outcome to the result. It starts nothing.

Both brokers, blocking and asyncio, prepare and report here; between the two they drive the runner in their own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs

from fable_exec.broker.environment import command_environment
from fable_exec.broker.gate import Gate
from fable_exec.broker.paths import DoorPaths
from fable_exec.broker.recording import Operation
from fable_exec.decision import Decision
from fable_exec.errors import ExecutableDenied, FableExecError, InvalidRequest, LaunchFailed
from fable_exec.executables import AllowedExecutables, Executable
from fable_exec.outcome import Outcome
from fable_exec.pathguard import WorkspacePath
from fable_exec.pathguard.facts import fact_of
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import CommandResult, ExecuteCommand, StartCommand
from fable_exec.runner import Command

__all__ = ["CommandWork", "Prepared"]

_ROOT = WorkspacePath(components=())


@attrs.frozen(kw_only=True)
class Prepared:
    """A command that may be started now, and what its report needs."""

    command: Command
    cwd: str
    requested: str
    operation: Operation = attrs.field(repr=False)
    read_only: bool = False
    """Whether it may only run with the workspace read-only for its whole tree."""

    @property
    def executed(self) -> tuple[str, ...]:
        """What is executed, as results name it: the resolved executable, then the arguments."""
        return (self.command.executable.path, *self.command.argv[1:])


class CommandWork:
    """Prepares and reports commands for one broker. Thread-safe."""

    def __init__(
        self,
        policy: BrokerPolicy,
        executables: AllowedExecutables,
        environment: Mapping[str, str],
        paths: DoorPaths,
        gate: Gate,
    ) -> None:
        self._policy = policy
        self._executables = executables
        self.environment = environment
        self._paths = paths
        self._gate = gate

    def decide(self, requested: str, cwd: WorkspacePath) -> tuple[Executable | None, Decision]:
        """The executable that `requested` means and whether it may run there. Writes nothing down."""
        executable = self._executables.find(requested)
        return executable, self._gate.command(requested, executable, cwd)

    def directory(self, cwd: str | None) -> WorkspacePath:
        """The checked working directory. Raises PathDenied."""
        return _ROOT if cwd is None else self._paths.existing(cwd)

    def prepare(self, request: ExecuteCommand | StartCommand, operation: Operation) -> Prepared:
        """Everything that can refuse the command before it is started.

        Raises:
            ExecutableDenied, WritesLocked, Denied: the policy says no. PathDenied: so do the path rules of cwd.
            InvalidRequest: a deadline is beyond the policy's limits.
        """
        timeout, idle = self._deadlines(request)
        cwd = self.directory(request.cwd)
        executable, decision = self.decide(request.command[0], cwd)
        operation.decided(decision, {"command": request.command, "cwd": str(cwd)})
        if executable is None:
            raise ExecutableDenied(decision.message)
        command = Command(
            argv=(executable.registered_path, *request.command[1:]),
            executable=executable,
            cwd=cwd.components,
            environment=command_environment(self.environment, request.env, self._policy.environment),
            stdin=request.stdin,
            open_stdin=isinstance(request, StartCommand) and request.keep_stdin_open,
            timeout_seconds=timeout,
            idle_timeout_seconds=idle,
            max_output_bytes=self._policy.max_output_bytes,
            on_output_limit=request.on_output_limit or self._policy.on_output_limit,
        )
        return Prepared(
            command=command, cwd=str(cwd), requested=request.command[0], operation=operation, read_only=decision.read_only
        )

    def admit_input(self, prepared: Prepared) -> None:
        """Whether the running command may be fed: what may not be started now may not be told what to do either.

        Raises:
            WritesLocked: writes were locked after it was started.
        """
        _, decision = self.decide(prepared.requested, WorkspacePath(components=prepared.command.cwd))
        if not decision.allowed:
            raise decision.refusal()

    def report(self, prepared: Prepared, outcome: Outcome) -> CommandResult:
        """The result of a command that ran."""
        prepared.operation.done(
            {
                "outcome": outcome.ended_by.value,
                "exit_code": outcome.exit_code,
                "signal": outcome.signal,
                "duration_seconds": round(outcome.duration_seconds, 6),
                "stdout_bytes": outcome.stdout.total_bytes,
                "stderr_bytes": outcome.stderr.total_bytes,
                "survivors": len(outcome.survivors),
            }
        )
        return CommandResult.of(outcome, command=prepared.executed, cwd=prepared.cwd, policy_digest=self._policy.digest)

    @contextmanager
    def launching(self, prepared: Prepared) -> Iterator[None]:
        """Around whatever waits for the launcher: its failure comes out in the words of this door, and is written down."""
        try:
            yield
        except LaunchFailed as failure:
            error = self._explained(failure, prepared)
            prepared.operation.failed(error)
            raise error from failure

    @staticmethod
    def _explained(failure: LaunchFailed, prepared: Prepared) -> FableExecError:
        """A bad cwd is about a path, a swapped file about the allow-list."""
        if failure.stage == "cwd":
            return fact_of(OSError(failure.errno or 0, str(failure)), prepared.cwd)
        if failure.stage == "executable":
            name = prepared.command.executable.name
            return ExecutableDenied(f"executable {name!r} is no longer the file that was allow-listed")
        return failure

    def _deadlines(self, request: ExecuteCommand | StartCommand) -> tuple[float, float | None]:
        limits = self._policy.limits
        for name in ("timeout_seconds", "idle_timeout_seconds"):
            seconds = getattr(request, name)
            if seconds is not None and seconds > limits.max_timeout_seconds:
                raise InvalidRequest(f"{name} must be at most {limits.max_timeout_seconds:g} under this policy")
        idle = request.idle_timeout_seconds
        return request.timeout_seconds or limits.timeout_seconds, limits.idle_timeout_seconds if idle is None else idle
