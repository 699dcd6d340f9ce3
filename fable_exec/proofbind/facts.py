"""The facts of a document as typed values, or a fault that says which of them cannot be understood. Pure.

Only what a rule of this package reads is here. A member that is absent or null says nothing; one of another type is a fault, not
a value that happens to be true or false, as `"false"`, `True` for a number and 0.0 for an exit status do.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import attrs

__all__ = ["Facts", "Gate", "MalformedFacts", "read_facts", "read_gates"]

FAILED_RUN_STATUSES = frozenset(
    "failed force_stopped inconclusive_spec_contradiction interrupted max_iterations_reached max_retries_exceeded paused "
    "policy_blocked provider_deadline_partial_mutation".split()
)
GOOD_OUTCOMES = frozenset({"complete", "completed", "success"})
ADVISORY_GATES = frozenset(
    "test_coverage unit_tests test_suite semantic_tests tests code_review devils_advocate devil_advocate magic_debate council "
    "anti_sycophancy".split()
)
"""Gates in which a model judges its own work. Every other name is of a gate outside of it, unknown ones too."""

_GATE_STATUSES = frozenset({"passed", "failed", "inconclusive", "not_run"})
_DECISIVE_STATUSES = frozenset({"verified", "failed", "passed"})
_GATE_SUFFIX = re.compile(r"_(?:paused|escalated|not_run|blocked)\Z")


_T = TypeVar("_T", str, int, bool, dict[str, Any])


class MalformedFacts(ValueError):
    """Facts that no rule can be applied to; as text it is a sentence."""


@attrs.frozen
class Gate:
    """One quality gate."""

    name: str
    status: str
    """passed, failed, inconclusive or not_run."""
    provenance: str
    """As the document says."""

    @property
    def is_advisory(self) -> bool:
        """Whether it is opinion. The document's word alone does not make it so."""
        return self.provenance == "advisory" and self._bare_name in ADVISORY_GATES

    @property
    def is_relabelled(self) -> bool:
        """Whether the document calls it opinion though it is none."""
        return self.provenance == "advisory" and not self.is_advisory

    @property
    def _bare_name(self) -> str:
        return _GATE_SUFFIX.sub("", self.name.lower().replace("-", "_"))


@attrs.frozen(kw_only=True)
class Facts:
    """What happened, as the document tells it. "" and None stand for what it does not tell."""

    terminated: bool
    exit_code: int | None
    run_status: str
    """In lower case, as the next."""
    outcome: str
    tests_status: str
    tests_command: str
    tests_exit_code: int | None
    build_status: str
    gates: tuple[Gate, ...]
    security_ran: bool
    security_high_active: int
    functional_ran: bool
    functional_status: str
    functionality_gaps: tuple[str, ...]
    """Parts of the functionality that were looked at and are not there."""
    diff_count: int | None
    """How many files differ from the base."""

    @property
    def execution_failed(self) -> bool:
        """Whether the run did not end well."""
        return (
            self.terminated
            or self.exit_code not in (None, 0)
            or self.run_status in FAILED_RUN_STATUSES
            or bool(self.outcome and self.outcome not in GOOD_OUTCOMES)
        )

    @property
    def has_high_findings(self) -> bool:
        """Whether a scan found something grave that nobody waived."""
        return self.security_ran and self.security_high_active > 0


def read_facts(raw: Any) -> Facts | None:
    """The facts in the member `facts` of a document; None where that is no object.

    Raises:
        MalformedFacts: a member that a rule reads is of another type than it has.
    """
    if not isinstance(raw, dict):
        return None
    facts = _Block(raw, "")
    execution, tests = facts.block("execution"), facts.block("tests")
    security, functional = facts.block("security"), facts.block("functional")
    return Facts(
        terminated=execution.flag("terminated"),
        exit_code=execution.integer("exit_code"),
        run_status=execution.text("run_status").strip().lower(),
        outcome=execution.text("outcome").lower(),
        tests_status=tests.status("status"),
        tests_command=tests.text("command"),
        tests_exit_code=tests.integer("exit_code"),
        build_status=facts.block("build").status("status"),
        gates=read_gates(raw.get("quality_gates")),
        security_ran=security.flag("ran"),
        security_high_active=security.count("high_active") or 0,
        functional_ran=functional.flag("ran"),
        functional_status=functional.status("functional_status"),
        functionality_gaps=_functionality_gaps(facts.block("functionality")),
        diff_count=facts.block("git").block("diff").count("count"),
    )


def read_gates(raw: Any) -> tuple[Gate, ...]:
    """The gates in a list of them; null is an empty one.

    Raises:
        MalformedFacts: it is no list, or holds something else than gates.
    """
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise MalformedFacts(f"quality_gates is a {type(raw).__name__}, not an array")
    return tuple(_gate(_Block(each, "a quality gate")) for each in raw)


def _gate(block: _Block) -> Gate:
    gate = Gate(block.text("name"), block.text("status"), block.text("provenance"))
    if gate.status not in _GATE_STATUSES:
        raise MalformedFacts(f"the quality gate {gate.name!a:.60} has the status {gate.status!a:.40}, which gates do not have")
    return gate


def _functionality_gaps(block: _Block) -> tuple[str, ...]:
    return tuple(name for name in block.members if block.block(name).text("state") == "gap")


class _Block:
    """An object among the facts: what it says, in the type that it has to be of."""

    def __init__(self, members: Any, path: str) -> None:
        self._path = path
        self.members: dict[str, Any] = self._of_type(dict, members, path)

    def block(self, name: str) -> _Block:
        value = self.members.get(name)
        return _Block({} if value is None else value, f"{self._path}.{name}"[:80].lstrip("."))

    def flag(self, name: str) -> bool:
        return bool(self._value(bool, name))

    def text(self, name: str) -> str:
        return self._value(str, name) or ""

    def integer(self, name: str) -> int | None:
        return self._value(int, name)

    def count(self, name: str) -> int | None:
        value = self.integer(name)
        if value is not None and value < 0:
            raise MalformedFacts(f"{self._path}.{name} is less than nothing")
        return value

    def status(self, name: str) -> str:
        """A text that is free but for the words that decide: those stand in it exactly or not at all."""
        status = self.text(name)
        word = status.strip().lower()
        if word in _DECISIVE_STATUSES and word != status:
            raise MalformedFacts(f"{self._path}.{name} is {status!a:.40}, nearly {word}")
        return status

    def _value(self, kind: type[_T], name: str) -> _T | None:
        value = self.members.get(name)
        return None if value is None else self._of_type(kind, value, f"{self._path}.{name}")

    @staticmethod
    def _of_type(kind: type[_T], value: Any, path: str) -> _T:
        if type(value) is not kind:  # not isinstance: True is an int
            raise MalformedFacts(f"{path} is a {type(value).__name__}, not a {kind.__name__}")
        return value
