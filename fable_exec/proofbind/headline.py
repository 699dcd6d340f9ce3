"""The headline that follows from facts, by a rule set that has a name. Pure: the environment is never asked.

Generators and verifiers of receipts have rule sets that differ. Both are here as they are, beside our own, so that a document
which nobody touched is not called forged because two programs disagree (ADR 0182).
"""

from __future__ import annotations

from enum import Enum

import attrs

from fable_exec.proofbind.axes import Axis, AxisResult, failed, passed, unchecked
from fable_exec.proofbind.documents import ProofDocument
from fable_exec.proofbind.facts import Facts
from fable_exec.proofbind.gaps import counted_entries, facts_gaps

__all__ = [
    "FABLE_1",
    "LOKI_GENERATOR",
    "LOKI_VERIFIER",
    "Headline",
    "HeadlineRules",
    "check_headline",
    "derive",
    "derived_headlines",
    "recorded_headline",
]


class Headline(Enum):
    """What a document says of its run in one line."""

    VERIFIED = "VERIFIED"
    WITH_GAPS = "VERIFIED WITH GAPS"
    NOT_VERIFIED = "NOT VERIFIED"


@attrs.frozen
class HeadlineRules:
    """What a rule set has of its own; everything else is the same in all of them."""

    name: str
    advisory_gates_fail: bool
    """A failed gate counts though it is an opinion."""
    advisory_gates_prove: bool
    """A passed gate is evidence though it is an opinion."""
    functional_fails: bool = False
    """A failed functional check counts."""


LOKI_GENERATOR = HeadlineRules("loki-1.1/generator", advisory_gates_fail=False, advisory_gates_prove=False)
LOKI_VERIFIER = HeadlineRules("loki-1.1/verifier-380f799", advisory_gates_fail=True, advisory_gates_prove=True)
FABLE_1 = HeadlineRules("fable-1", advisory_gates_fail=True, advisory_gates_prove=False, functional_fails=True)
"""Our own: never better than one of the others. A document names it in `honesty.headline_rules`."""


def derive(facts: Facts, degraded: bool, rules: HeadlineRules) -> Headline:
    """The headline of a run of which these are the facts.

    Args:
        degraded: whether anything was left unproven.
    """
    if _has_failed(facts, rules):
        return Headline.NOT_VERIFIED
    tests_passed = facts.tests_status == "verified" and facts.tests_command != "" and facts.tests_exit_code == 0
    if tests_passed and not degraded and facts.diff_count:
        return Headline.VERIFIED
    return Headline.WITH_GAPS if degraded and _has_evidence(facts, rules) else Headline.NOT_VERIFIED


def _has_failed(facts: Facts, rules: HeadlineRules) -> bool:
    return (
        facts.execution_failed
        or "failed" in (facts.tests_status, facts.build_status)
        or any(gate.status == "failed" and (rules.advisory_gates_fail or not gate.is_advisory) for gate in facts.gates)
        or facts.has_high_findings
        or (rules.functional_fails and facts.functional_ran and facts.functional_status == "failed")
    )


def _has_evidence(facts: Facts, rules: HeadlineRules) -> bool:
    return "verified" in (facts.tests_status, facts.build_status) or any(
        gate.status == "passed" and (rules.advisory_gates_prove or not gate.is_advisory) for gate in facts.gates
    )


def recorded_headline(document: ProofDocument) -> str:
    """The headline that the document has, "" where it has none or two."""
    said = {_trimmed(place.get("headline")) for place in (document.members, document.honesty)} - {""}
    return said.pop() if len(said) == 1 else ""


def derived_headlines(document: ProofDocument) -> dict[str, Headline]:
    """The headline that follows from its facts, by the name of each rule set that it can be under; none where nothing follows."""
    facts = document.facts_for(Axis.HEADLINE)
    if isinstance(facts, AxisResult):
        return {}
    return {rules.name: derive(facts, _is_degraded(document, facts, rules), rules) for rules in _rules_of(document)}


def _is_degraded(document: ProofDocument, facts: Facts, rules: HeadlineRules) -> bool:
    # The others ask the document alone; what it hides is then a matter of the axis DEGRADED.
    return bool(counted_entries(document)) or (rules is FABLE_1 and bool(facts_gaps(facts)))


def _rules_of(document: ProofDocument) -> tuple[HeadlineRules, ...]:
    """A document cannot choose a rule set in which it would fare better: our own is the strictest."""
    named = document.honesty.get("headline_rules")
    if named is None:
        return LOKI_GENERATOR, LOKI_VERIFIER
    return (FABLE_1,) if named == FABLE_1.name else ()


def check_headline(document: ProofDocument) -> AxisResult:
    """Whether the headline is the one that follows from the facts."""
    said = [_trimmed(place.get("headline")) for place in (document.members, document.honesty)]
    if all(said) and said[0] != said[1]:
        return failed(Axis.HEADLINE, "two", f"the document has two headlines, {said[0]!a:.60} and {said[1]!a:.60}")
    recorded = recorded_headline(document)
    if not recorded:
        return unchecked(Axis.HEADLINE, "not-recorded", "the document has no headline")
    facts = document.facts_for(Axis.HEADLINE)
    if isinstance(facts, AxisResult):
        return facts
    return _judged(recorded, derived_headlines(document))


def _judged(recorded: str, derived: dict[str, Headline]) -> AxisResult:
    answers = {headline.value for headline in derived.values()}
    if not derived:
        return unchecked(Axis.HEADLINE, "rules-unknown", "the document names rules for its headline that are not known here")
    if recorded not in answers:
        follows = " or ".join(sorted(answers))
        return failed(Axis.HEADLINE, "inconsistent", f"the headline is {recorded!a:.60}, and {follows} follows from the facts")
    if len(answers) > 1:
        each = ", ".join(f"{headline.value} by {name}" for name, headline in derived.items())
        return unchecked(Axis.HEADLINE, "rules-disagree", f"the headline depends on whose rules are asked: {each}")
    return passed(Axis.HEADLINE)


def _trimmed(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
