"""What would happen to a command, as a value to read: nothing is run and nothing written down."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fable_exec.decision import ArgumentFacts, Decision
from fable_exec.errors import FableExecError
from fable_exec.outcome import Applied

__all__ = ["Explanation", "Foreseen"]


@attrs.frozen(kw_only=True)
class Foreseen:
    """What would be answered to a command: a decision, or that less holds here than the policy insists on."""

    allowed: bool
    rule: str
    code: str
    message: str
    read_only: bool
    arguments: ArgumentFacts | None = None

    @classmethod
    def of(cls, decision: Decision, arguments: ArgumentFacts | None, *, is_locked: bool) -> Foreseen:
        """`decision`, with what the argument rules said. A command that is refused would have the workspace as it is now."""
        return cls(
            allowed=decision.allowed,
            rule=decision.rule.value,
            code=decision.code,
            message=decision.message,
            read_only=decision.read_only if decision.allowed else is_locked,
            arguments=arguments,
        )

    @classmethod
    def refused(cls, rule: str, error: FableExecError, *, read_only: bool) -> Foreseen:
        """The refusal of everything that would be run."""
        return cls(allowed=False, rule=rule, code=error.code, message=str(error), read_only=read_only)


@attrs.frozen(kw_only=True)
class Explanation:
    """Args:
    allowed, rule, code, message: the decision of now, which changes with the write lock; or the rule "confinement" and
        its refusal where less holds than the policy insists on, or "assurance" where the policy does not keep what it promises.
    executable, argv0: the file that would be executed, and what it would see as its name; None when none is listed.
    argument_rule, argument_reason: which argument rule judged the command line, and why not; empty when none was asked, or fine.
    cwd: the working directory below the workspace.
    environment: the variables, besides the private HOME and TMPDIR. Values may be secrets of the policy and are not in the repr.
    applied: what the plan gives, protection by protection. plan: the launch plan in words.
    """

    allowed: bool
    rule: str
    code: str
    message: str
    executable: str | None
    argv0: str | None
    by_descriptor: bool
    argument_rule: str
    argument_reason: str
    cwd: str
    environment: Mapping[str, str] = attrs.field(repr=lambda names: ", ".join(sorted(names)))
    timeout_seconds: float
    applied: tuple[Applied, ...]
    plan: str
