"""What a broker says of itself: what it offers now, and what it would do with a command. Nothing is run or written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fable_exec.broker.absent import absent_here
from fable_exec.broker.arguments import ArgumentJudge
from fable_exec.broker.commands import CommandWork
from fable_exec.broker.confined import ConfinedCommands
from fable_exec.broker.explain import Explanation, Foreseen
from fable_exec.decision import INTERPRETERS
from fable_exec.errors import ConfinementUnavailable, PolicyError
from fable_exec.executables import AllowedExecutables
from fable_exec.pathguard import WorkspacePath
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import ExecuteCommand, LimitsReport, ProbeResult

__all__ = ["SelfDescription"]


class SelfDescription:
    """One broker's, of the parts that it works with; `writes_enabled` is what its lock says at the moment of the question."""

    def __init__(
        self,
        policy: BrokerPolicy,
        executables: AllowedExecutables,
        arguments: ArgumentJudge,
        commands: CommandWork,
        confined: ConfinedCommands,
    ) -> None:
        self._policy = policy
        self._executables = executables
        self._arguments = arguments
        self._commands = commands
        self._confined = confined
        self._probes: dict[bool, ProbeResult] = {}

    def probe(self, *, writes_enabled: bool) -> ProbeResult:
        """The same value as long as nothing changes, so that a door may keep its encoded form."""
        found = self._probes.get(writes_enabled)
        if found is None:
            found = self._probes[writes_enabled] = self._probed(writes_enabled)
        return found

    def _probed(self, writes_enabled: bool) -> ProbeResult:
        from fable_exec.broker.surroundings import notes_on_git  # reads git's files as the sentry does, which loads late

        limits, policy = self._policy.limits, self._policy
        absent = [f"{place}: {text}" for place, text in absent_here(policy, self._arguments)]
        confinement = self._confined.reported(read_only=not writes_enabled)
        return ProbeResult(
            available_executables=self._executables.names,
            unresolved_executables=self._executables.unresolved,
            writes_enabled=writes_enabled,
            read_locked_interpreters=tuple(sorted(INTERPRETERS)),
            workspace=str(policy.workspace),
            policy_digest=policy.digest,
            confinement=confinement,
            notes=(*notes_on_git(policy, confinement), *absent),
            limits=LimitsReport(
                timeout_seconds=limits.timeout_seconds,
                max_timeout_seconds=limits.max_timeout_seconds,
                idle_timeout_seconds=limits.idle_timeout_seconds,
                max_output_bytes=policy.max_output_bytes,
                max_frame_bytes=limits.max_frame_bytes,
                max_answer_bytes=limits.max_answer_bytes,
                max_in_flight=limits.max_in_flight,
            ),
        )

    def explain(self, command: Iterable[str], cwd: str | None, *, writes_enabled: bool) -> Explanation:
        """What would happen to `command` now.

        Raises:
            InvalidRequest, PathError: the command, or its directory, is not one that a request can have.
        """
        request = ExecuteCommand(command=command, cwd=cwd)
        directory = self._commands.directory(request.cwd)
        executable = self._executables.find(request.command[0])
        foreseen = self._foreseen(request.command, directory, is_locked=not writes_enabled)
        return Explanation(
            allowed=foreseen.allowed,
            rule=foreseen.rule,
            code=foreseen.code,
            message=foreseen.message,
            executable=None if executable is None else executable.path,
            argv0=None if executable is None else executable.registered_path,
            by_descriptor=executable is not None and executable.by_descriptor,
            cwd=str(directory),
            environment=self._commands.environment,
            timeout_seconds=self._policy.limits.timeout_seconds,
            argument_rule="" if foreseen.arguments is None else foreseen.arguments.rule,
            argument_reason="" if foreseen.arguments is None else foreseen.arguments.reason,
            applied=self._confined.reported(read_only=foreseen.read_only),
            plan=self._confined.plan_in_words(read_only=foreseen.read_only),
        )

    def _foreseen(self, command: Sequence[str], directory: WorkspacePath, *, is_locked: bool) -> Foreseen:
        """The decision of now, and whether the launcher that it asks for could be had."""
        try:
            decided = self._commands.decide(command, directory)
            if decided.decision.allowed:
                self._confined.insist(read_only=decided.decision.read_only)
        except ConfinementUnavailable as error:
            return Foreseen.refused("confinement", error, read_only=is_locked)
        except PolicyError as error:
            return Foreseen.refused("assurance", error, read_only=is_locked)
        return Foreseen.of(decided.decision, decided.arguments, is_locked=is_locked)
