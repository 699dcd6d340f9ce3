"""Run single programs under a boundary, for probes and checks: one room, opened once, on either platform.

Nothing that a program prints is kept or told anywhere but in what `run` returns.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import attrs

from fable_exec.bounded.compiled import policy_of
from fable_exec.bounded.environment import child_environment
from fable_exec.canary import judge, run_canary
from fable_exec.confine import FileView, Plan, Support, compile_plan, refuse_unmet
from fable_exec.errors import LaunchFailed, PolicyError
from fable_exec.executables import resolve_executables
from fable_exec.keeper.surroundings import make_runtime
from fable_exec.outcome import EndedBy
from fable_exec.policy import BrokerPolicy, Confinement
from fable_exec.runner import Command, Launchers, Runner, WorkspaceIdentity
from fable_exec.runtimes import system_links, system_secrets
from fable_exec.seatbelt import HostBoundary, render
from fable_exec.seatbelt.arming import SANDBOX_EXEC, require_sandbox_exec
from fable_exec.seatbelt.sandboxed import Ran, run_sandboxed
from fable_exec.seatbelt.scratch import temporary_directory

__all__ = ["LinuxRoom", "ProgramMissing", "Ran", "Room", "opened"]

_MAX_OUTPUT_BYTES = 64 * 1024
_NOT_EXECUTED = ("exec", "executable")


class ProgramMissing(Exception):
    """The program is not in the boundary's PATH, or cannot be executed within the boundary."""


class Room(Protocol):
    """One workspace within a boundary, in which programs run one after the other."""

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Ran:
        """Run `argv`; nothing of it is alive afterwards. Raises ProgramMissing."""


@contextmanager
def opened(
    boundary: HostBoundary,
    workspace: Path,
    *,
    host: Mapping[str, str] | None = None,
    platform: str = sys.platform,
    sandbox_exec: Path = SANDBOX_EXEC,
) -> Iterator[Room]:
    """The room of `workspace`, with the child environment and private directories that go away with it.

    Args:
        host: the variables that the child environment is taken from; this process's by default.

    Raises:
        BoundaryUnproved, ConfinementUnavailable: the boundary cannot be held here. PolicyError: the workspace breaks a rule.
    """
    host = os.environ if host is None else host
    workspace = boundary.workspace(workspace)
    with ExitStack() as stack:
        private = stack.enter_context(temporary_directory("fable-exec-room-")).resolve()
        private.chmod(0o711)  # started as root, programs are the workspace owner's
        runtime = private / "runtime"
        environment = child_environment(boundary, runtime, host)
        if platform == "linux":
            owner = WorkspaceIdentity.at(str(workspace)).command_owner()
            make_runtime(runtime, *owner)
            yield stack.enter_context(linux_room(boundary, workspace, environment, writable=(str(runtime),)))
        else:
            require_sandbox_exec(platform, sandbox_exec)
            make_runtime(runtime, os.geteuid(), os.getegid())
            spec = private / "spec.md"
            spec.touch()
            more = attrs.evolve(boundary, runtime_write_paths=(*boundary.runtime_write_paths, runtime))
            yield _MacRoom(boundary, workspace, environment, render(more, workspace, spec), sandbox_exec)


@attrs.frozen
class LinuxRoom:
    """A launcher under the boundary's plan, proved by a canary."""

    _boundary: HostBoundary
    _workspace: Path
    _environment: Mapping[str, str]
    _runner: Runner

    @property
    def plan(self) -> Plan:
        """What the launcher performs."""
        return self._runner.plan

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Ran:
        """See `Room.run`."""
        try:
            policy = _policy(self._boundary, self._workspace, argv[0])
            executables = resolve_executables(policy, self._environment)
        except PolicyError:
            raise ProgramMissing from None
        try:
            executable = executables.find(argv[0])
            if executable is None:
                raise ProgramMissing
            command = Command(
                argv=(executable.registered_path, *argv[1:]),
                executable=executable,
                environment=self._environment,
                timeout_seconds=timeout_seconds,
                max_output_bytes=_MAX_OUTPUT_BYTES,
                on_output_limit="truncate",
            )
            outcome = self._runner.run(command)
        except LaunchFailed as failure:
            if failure.stage in _NOT_EXECUTED:
                raise ProgramMissing from None
            raise
        finally:
            executables.close()
        if outcome.ended_by is EndedBy.TIMED_OUT:
            return Ran(None, b"")
        code = outcome.exit_code
        return Ran(-(outcome.signal or 0) if code is None else code, outcome.stdout.raw)


@contextmanager
def linux_room(
    boundary: HostBoundary,
    workspace: Path,
    environment: Mapping[str, str],
    *,
    confinement: Confinement | None = None,
    writable: tuple[str, ...] = (),
) -> Iterator[LinuxRoom]:
    """A room on Linux.

    Args:
        confinement: that of the boundary by default.
        writable: directories besides the boundary's that programs may change.
    """
    policy = _policy(boundary, workspace)
    wanted = attrs.evolve(policy.confinement if confinement is None else confinement, observe="off")

    def plan_for(support: Support) -> Plan:
        readable, changed = (*system_links(), *wanted.runtime_read_paths), (*writable, *wanted.runtime_write_paths)
        view = FileView(
            workspace=str(workspace),
            writable=True,
            runtime_paths=readable,
            writable_paths=changed,
            hidden=system_secrets((*readable, *changed, str(workspace))),
        )
        return compile_plan(policy.launch, support, wanted, view, policy.limits, insist=False)

    launchers = Launchers(WorkspaceIdentity.at(str(workspace)))
    try:
        runner = Runner(launchers, plan_for)
        report = run_canary(runner, reserved_ports=wanted.reserved_ports)
        runner.report(judge(runner.plan.applied, report, writable=True, network=wanted.network))
        refuse_unmet(runner.applied, launchers.support(), policy.launch)
        yield LinuxRoom(boundary, workspace, environment, runner)
    finally:
        launchers.close()


@attrs.frozen
class _MacRoom:
    _boundary: HostBoundary
    _workspace: Path
    _environment: Mapping[str, str]
    _profile: bytes
    _sandbox_exec: Path

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Ran:
        """See `Room.run`."""
        program = shutil.which(argv[0], path=self._environment["PATH"])
        if program is None:
            raise ProgramMissing
        return run_sandboxed(
            self._sandbox_exec,
            self._profile,
            (program, *argv[1:]),
            cwd=self._workspace,
            environment=self._environment,
            timeout_seconds=timeout_seconds,
            max_output_bytes=_MAX_OUTPUT_BYTES,
        )


def _policy(boundary: HostBoundary, workspace: Path, program: str = "sh") -> BrokerPolicy:
    return policy_of(boundary, workspace, allowed_executables=(program,))
