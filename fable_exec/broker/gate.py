"""May it, now? Puts the request's facts, the lock's state and the policy before `decide`, and has the answer written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fable_exec.broker.arguments import ArgumentJudge
from fable_exec.broker.confined import ConfinedCommands
from fable_exec.broker.recording import Operation
from fable_exec.decision import (
    ArgumentFacts,
    CommandFacts,
    Decision,
    ObserveFacts,
    WriteFacts,
    asks_for_arguments,
    decide,
    is_interpreter,
)
from fable_exec.errors import InternalError
from fable_exec.executables import Executable, is_unchanged
from fable_exec.pathguard import WorkspacePath
from fable_exec.policy import BrokerPolicy
from fable_exec.writelock import Unlocked, WriteLock

__all__ = ["Gate"]


class Gate:
    """Every request passes here before anything is done.

    Args:
        confined: says whether commands can be held to reading by the kernel, where that matters, and whether what is let through
            was checked. It raises ConfinementUnavailable where less holds than the policy insists on.
        arguments: judges command lines; asked only when it matters.
    """

    def __init__(self, policy: BrokerPolicy, lock: WriteLock, confined: ConfinedCommands, arguments: ArgumentJudge) -> None:
        self._policy = policy
        self._lock = lock
        self._confined = confined
        self._arguments = arguments
        self._decided_unlocked: set[bool] = set()

    def observe(self, operation: Operation, action: str, **facts: Any) -> None:
        """Let a request through that changes nothing."""
        operation.decided(decide(self._policy, False, False, ObserveFacts(action=action)), facts)

    def write(self, operation: Operation, *paths: WorkspacePath) -> None:
        """Let a write to all of `paths` through. Raises WritesLocked."""
        unlocked = self._lock.unlocked()
        facts = WriteFacts(
            targets=tuple(path.components for path in paths), unlock_scope=None if unlocked is None else unlocked.scope
        )
        decision = decide(self._policy, unlocked is not None, False, facts)
        operation.decided(decision, {"paths": [str(path) for path in paths]})

    def command(
        self, argv: Sequence[str], executable: Executable | None, cwd: WorkspacePath, *, missing: str = ""
    ) -> tuple[Decision, ArgumentFacts | None]:
        """Whether the command may be started, or fed; and what argument rules say, if they were asked. Writes nothing down.

        Args:
            missing: why a listed name means no executable here, in words; "" for one that is not listed.

        Raises:
            ConfinementUnavailable: it is listed, and a strict protection does not hold.
            PolicyError: it would be let through, and the policy does not keep what it promises.
        """
        unlocked = self._lock.unlocked()
        whole = unlocked is not None and unlocked.scope is None
        held = executable is not None and not whole and self._confined.holds_read_only()
        arguments = None
        if executable is not None and asks_for_arguments(self._policy, whole, held):
            arguments = self._arguments.judge(argv, executable, cwd.components)
        facts = CommandFacts(
            name=argv[0] if executable is None else executable.name,
            resolved_name="" if executable is None else executable.resolved_name,
            listed=executable is not None or bool(missing),
            missing=missing,
            unchanged=executable is not None and is_unchanged(executable),
            cwd=cwd.components,
            unlock_scope=None if unlocked is None else unlocked.scope,
            arguments=arguments,
        )
        decision = decide(self._policy, unlocked is not None, held, facts)
        if decision.allowed:
            self._require_checked(unlocked, decision, facts)
        if executable is not None:
            self._decided_unlocked.add(whole)
        return decision, arguments

    def _require_checked(self, unlocked: Unlocked | None, decision: Decision, facts: CommandFacts) -> None:
        """What is let through is a world that the assurance has gone through; anything else is a defect, and runs nothing."""
        interprets = is_interpreter(facts.name) or is_interpreter(facts.resolved_name)
        if not self._confined.covers(unlocked, read_only=decision.read_only, interprets=interprets):
            raise InternalError("a command was let through in a way that no check has covered")

    def is_quick(self) -> bool:
        """Whether `command` takes microseconds now; the first in each state of the lock may prove a launcher and build rules."""
        return self._is_unlocked() in self._decided_unlocked

    def _is_unlocked(self) -> bool:
        """Whether commands may write: an unlock for some paths binds no command, so it does not count."""
        unlocked = self._lock.unlocked()
        return unlocked is not None and unlocked.scope is None
