"""What goes into the audit log: one line for every decision, one for what came of it, linked by the number of the operation.

Names, paths, argument vectors, digests and counts go in; content, input, variables and tokens never do.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from fable_exec.audit import AuditLog
from fable_exec.decision import Decision
from fable_exec.errors import AuditUnavailable, Denied, FableExecError
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol import Result

__all__ = ["Operation", "Recorder", "told_of"]

_TOLD = ("path", "source", "destination", "content_hash", "created", "replaced", "removed", "truncated", "handle", "cancelled")
"""Members of results that an outcome line repeats; none of them is content."""


class Recorder:
    """Writes to the policy's audit log, or nowhere if it names none.

    A decision that cannot be written is AuditUnavailable, and the work is not done, unless the policy says `continue`. What has
    been done already is not withheld for want of a line: the log itself marks the gap, and the next decision is refused.
    """

    def __init__(self, policy: BrokerPolicy) -> None:
        rules = policy.audit
        self._log = None if rules.path is None else AuditLog(rules.path, on_failure=rules.on_failure)
        self._policy_digest = policy.digest[:16] if self._log else ""
        self._numbers = itertools.count(1)

    @property
    def active(self) -> bool:
        """Whether lines are written at all."""
        return self._log is not None

    def begin(self, action: str) -> Operation:
        """A new operation; nothing is written yet."""
        return Operation(self, action, next(self._numbers))

    def write(self, kind: str, **facts: Any) -> None:
        """One line that must be there before work goes on."""
        if self._log is not None:
            self._log.append(kind, policy=self._policy_digest, **facts)

    def note(self, kind: str, **facts: Any) -> None:
        """One line about what has happened; losing it does not lose the result."""
        try:
            self.write(kind, **facts)
        except AuditUnavailable:
            pass

    def close(self) -> None:
        """Sync and close the log. Raises AuditUnavailable if that fails."""
        if self._log is not None:
            self._log.close()


def told_of(result: Result) -> dict[str, Any]:
    """The facts of a result that go into its outcome line."""
    return {name: getattr(result, name) for name in _TOLD if hasattr(result, name)}


class Operation:
    """One request on its way through the broker."""

    __slots__ = ("_action", "_decided", "_number", "_over", "_recorder")

    def __init__(self, recorder: Recorder, action: str, number: int) -> None:
        self._recorder = recorder
        self._action = action
        self._number = number
        self._decided = False
        self._over = False

    @property
    def is_recorded(self) -> bool:
        """Whether lines are written about it, which may take a moment."""
        return self._recorder.active

    def decided(self, decision: Decision, facts: Mapping[str, Any]) -> None:
        """Write the decision down, and raise its refusal if it is one."""
        self._decided = True
        if self._recorder.active:
            self._recorder.write(
                "decision", operation=self._number, action=self._action, allowed=decision.allowed,
                rule=decision.rule.value, code=decision.code, **facts,
            )  # fmt: skip
        if not decision.allowed:
            raise decision.refusal()

    def done(self, facts: Mapping[str, Any]) -> None:
        """Write down what came of it."""
        if self._recorder.active and not self._over:
            self._over = True
            self._recorder.note("outcome", operation=self._number, action=self._action, ok=True, **facts)

    def failed(self, error: BaseException) -> None:
        """Write down that it ended with `error`; a refusal that no decision line tells of yet becomes one."""
        if self._over or not self._recorder.active:
            return
        self._over = True
        code = error.code if isinstance(error, FableExecError) else type(error).__name__
        facts: dict[str, Any] = {"operation": self._number, "action": self._action, "code": code}
        for name in ("reason", "path"):
            if value := getattr(error, name, None):
                facts[name] = value
        if isinstance(error, Denied):
            if not self._decided:
                self._recorder.note("decision", allowed=False, rule=code, **facts)
            return
        self._recorder.note("outcome", ok=False, **facts)
