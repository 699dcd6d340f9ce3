"""May it, now? Puts the request's facts, the lock's state and the policy before `decide`, and has the answer written down."""

from __future__ import annotations

from typing import Any

from fable_exec.broker.recording import Operation
from fable_exec.broker.write_lock import WriteLock
from fable_exec.decision import CommandFacts, Decision, ObserveFacts, WriteFacts, decide
from fable_exec.executables import Executable, is_unchanged
from fable_exec.pathguard import WorkspacePath
from fable_exec.policy import BrokerPolicy

__all__ = ["Gate"]

_KERNEL_HOLDS_READ_ONLY = False
"""Whether commands can be held to reading by the kernel; no plan of this release does."""


class Gate:
    """Every request passes here before anything is done."""

    def __init__(self, policy: BrokerPolicy, lock: WriteLock) -> None:
        self._policy = policy
        self._lock = lock

    def observe(self, operation: Operation, action: str, **facts: Any) -> None:
        """Let a request through that changes nothing."""
        operation.decided(decide(self._policy, False, _KERNEL_HOLDS_READ_ONLY, ObserveFacts(action=action)), facts)

    def write(self, operation: Operation, *paths: WorkspacePath) -> None:
        """Let a write to all of `paths` through. Raises WritesLocked."""
        unlocked = self._lock.unlocked()
        facts = WriteFacts(
            targets=tuple(path.components for path in paths), unlock_scope=None if unlocked is None else unlocked.scope
        )
        decision = decide(self._policy, unlocked is not None, _KERNEL_HOLDS_READ_ONLY, facts)
        operation.decided(decision, {"paths": [str(path) for path in paths]})

    def command(self, requested: str, executable: Executable | None, cwd: WorkspacePath) -> Decision:
        """Whether the command may be started, or fed. Writes nothing and raises nothing."""
        unlocked = self._lock.unlocked()
        facts = CommandFacts(
            name=requested if executable is None else executable.name,
            resolved_name="" if executable is None else executable.resolved_name,
            listed=executable is not None,
            unchanged=executable is not None and is_unchanged(executable),
            cwd=cwd.components,
            unlock_scope=None if unlocked is None else unlocked.scope,
        )
        return decide(self._policy, unlocked is not None, _KERNEL_HOLDS_READ_ONLY, facts)
