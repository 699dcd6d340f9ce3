"""From a command request to a checked command for the runner, and from its outcome to the result. It starts nothing.

Both brokers, blocking and asyncio, prepare and report here; between the two they drive the runner in their own way.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from fable_exec.broker.environment import command_environment, reading_environment
from fable_exec.broker.gate import Gate
from fable_exec.broker.paths import DoorPaths
from fable_exec.broker.recording import Operation
from fable_exec.decision import ArgumentFacts, Decision, deadlines_of, decide_input
from fable_exec.errors import Conflict, ExecutableDenied, FableExecError, InvalidRequest, LaunchFailed
from fable_exec.executables import AllowedExecutables, Executable, is_unchanged
from fable_exec.outcome import Outcome
from fable_exec.pathguard import WorkspacePath
from fable_exec.pathguard.facts import fact_of
from fable_exec.pathguard.workspace import ROOT
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import CommandResult, ExecuteCommand, StartCommand
from fable_exec.runner import Command
from fable_exec.runtimes import what_is_missing

__all__ = ["CommandWork", "Decided", "Prepared", "input_closed"]

_LONGEST_STRING = 32 * mmap.PAGESIZE
_POINTER = 8
_AUDITED_DENIALS = 16
_AUDITED_CHARACTERS = 200
_OUT_OF_SIGHT = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR)


@attrs.frozen(kw_only=True)
class Prepared:
    """A command that may be started now, and what its report needs."""

    command: Command
    cwd: str
    requested: tuple[str, ...]
    operation: Operation = attrs.field(repr=False)
    read_only: bool = False
    """Whether it may only run with the workspace read-only for its whole tree."""

    @property
    def executed(self) -> tuple[str, ...]:
        """What is executed, as results name it: the resolved executable, then the arguments."""
        return (self.command.executable.path, *self.command.argv[1:])


@attrs.frozen
class Decided:
    """A decision on a command, and what it was made of."""

    executable: Executable | None
    decision: Decision
    arguments: ArgumentFacts | None

    def told(self) -> dict[str, Any]:
        """What the audit log gets of the argument rules' verdict; nothing when they were not asked."""
        if self.arguments is None:
            return {}
        return {"argument_rule": self.arguments.rule, "arguments_allowed": self.arguments.allowed}


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

    def decide(self, argv: Sequence[str], cwd: WorkspacePath) -> Decided:
        """The executable that `argv` names and whether it may run there. Writes nothing down."""
        executable = self._executables.find(argv[0])
        missing = "" if executable is not None else self._executables.why_missing(argv[0])
        return Decided(executable, *self._gate.command(argv, executable, cwd, missing=missing))

    def decides_quickly(self) -> bool:
        """Whether to decide takes microseconds now, and not the time to start a launcher or to read rules."""
        return self._gate.is_quick() and not self._policy.pin_executable_digest

    def directory(self, cwd: str | None) -> WorkspacePath:
        """The checked working directory. Raises PathDenied."""
        return ROOT if cwd is None else self._paths.existing(cwd)

    def prepare(self, request: ExecuteCommand | StartCommand, operation: Operation) -> Prepared:
        """Everything that can refuse the command before it is started.

        Raises:
            ExecutableDenied, ArgumentDenied, WritesLocked: the policy says no. PathDenied: so do the path rules of cwd.
            PathNotFound: the workspace is gone or was moved.
            InvalidRequest: a deadline is beyond the policy's limits.
        """
        timeout, idle = deadlines_of(self._policy.limits, request.timeout_seconds, request.idle_timeout_seconds)
        self._paths.require_workspace()
        cwd = self.directory(request.cwd)
        decided = self.decide(request.command, cwd)
        executable, decision = decided.executable, decided.decision
        operation.decided(decision, {"command": request.command, "cwd": str(cwd), **decided.told()})
        if executable is None:
            raise ExecutableDenied(decision.message)
        environment = command_environment(self.environment, request.env, self._policy.environment)
        command = Command(
            argv=(executable.registered_path, *request.command[1:]),
            executable=executable,
            cwd=cwd.components,
            environment=reading_environment(environment) if decision.read_only else environment,
            stdin=request.stdin,
            open_stdin=isinstance(request, StartCommand) and request.keep_stdin_open,
            timeout_seconds=timeout,
            idle_timeout_seconds=idle,
            max_output_bytes=self._policy.max_output_bytes,
            on_output_limit=request.on_output_limit or self._policy.on_output_limit,
        )
        return Prepared(
            command=command, cwd=str(cwd), requested=request.command, operation=operation, read_only=decision.read_only
        )

    def admit_input(self, prepared: Prepared) -> None:
        """Whether the running command may be fed: what may not be started now may not be told what to do either.

        Raises:
            WritesLocked: writes were locked after it was started, and it is one that may not run then, or can still write.
        """
        start_now = self.decide(prepared.requested, WorkspacePath(components=prepared.command.cwd)).decision
        decision = decide_input(start_now, prepared.read_only)
        if not decision.allowed:
            raise decision.refusal()

    def report(self, prepared: Prepared, outcome: Outcome) -> CommandResult:
        """The result of a command that ran."""
        if prepared.operation.is_recorded:
            prepared.operation.done(_told(outcome))
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

    def _explained(self, failure: LaunchFailed, prepared: Prepared) -> FableExecError:
        """A bad cwd is about a path, a swapped file about the allow-list, a missing one about what commands may read, and what is
        too long about the request."""
        executable = prepared.command.executable
        if failure.errno == errno.E2BIG:
            return _too_long(prepared.command)
        if failure.stage == "cwd":
            return fact_of(OSError(failure.errno or 0, str(failure)), prepared.cwd)
        if missing := _missing(failure, executable):
            return failure.reworded(f"{executable.path}: cannot be started: {missing}")
        if self._policy.confinement.confines_files and _is_out_of_sight(failure, executable):
            return _unreadable(failure, executable)
        if failure.stage == "executable":
            return ExecutableDenied(f"executable {executable.name!r} is no longer the file that was allow-listed")
        return failure


def input_closed(*, kept_open: bool, ended: bool = False) -> Conflict:
    """Why a command cannot be fed: `kept_open` is whether it was started to be fed, `ended` whether it is over."""
    if not kept_open:
        why = "it was started without keep_stdin_open; start it with keep_stdin_open to feed it"
    else:
        why = "it has ended" if ended else "its input was closed, by it or by you"
    return Conflict(f"the command takes no more input: {why}", reason="input-closed")


def _told(outcome: Outcome) -> dict[str, Any]:
    """What the audit log gets of how a command ended."""
    return {
        "outcome": outcome.ended_by.value,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "duration_seconds": round(outcome.duration_seconds, 6),
        "stdout_bytes": outcome.stdout.total_bytes,
        "stderr_bytes": outcome.stderr.total_bytes,
        "survivors": len(outcome.survivors),
        **_refused(outcome),
    }


def _refused(outcome: Outcome) -> dict[str, Any]:
    """What was refused, in few words: a line of the log has little room."""
    if not outcome.denials:
        return {}
    told = outcome.denials[:_AUDITED_DENIALS]
    return {
        "denials": [f"{each.operation} {each.path or each.address} ({each.protection})"[:_AUDITED_CHARACTERS] for each in told],
        "denials_omitted": outcome.denials_omitted + len(outcome.denials) - len(told),
    }


def _too_long(command: Command) -> InvalidRequest:
    """What execve(2) says of arguments and environment that are too long, one string or all together."""
    arguments = [len(os.fsencode(each)) + 1 for each in command.argv]
    variables = [len(os.fsencode(name)) + len(os.fsencode(value)) + 2 for name, value in command.environment.items()]
    return InvalidRequest(
        f"the command line is too long: {sum(arguments)} bytes in {len(arguments)} arguments, the longest of {max(arguments)},"
        f" and {sum(variables)} bytes of environment; this system takes {_LONGEST_STRING} in one and {os.sysconf('SC_ARG_MAX')}"
        f" in all, with {_POINTER} for each; pass the data by stdin or in a file"
    )


def _missing(failure: LaunchFailed, executable: Executable) -> str:
    """What the allow-listed file itself lacks to be started, in words; "" when that is nothing, or not what failed."""
    return what_is_missing(executable.path) if failure.stage in ("executable", "exec") and is_unchanged(executable) else ""


def _is_out_of_sight(failure: LaunchFailed, executable: Executable) -> bool:
    """Whether the file is there for us, and was not for the launcher; exec(2) says the same of a `#!` interpreter."""
    return failure.stage in ("executable", "exec") and failure.errno in _OUT_OF_SIGHT and is_unchanged(executable)


def _unreadable(failure: LaunchFailed, executable: Executable) -> LaunchFailed:
    number = failure.errno or 0
    text = (
        f"could not start the command: under confinement {executable.path}, or the interpreter it names, cannot be read "
        f"({errno.errorcode.get(number, str(number))}); add the directory it needs to confinement.runtime_read_paths, "
        "and see that the workspace's owner may read it"
    )
    return LaunchFailed(text, stage=failure.stage, errno=number)
