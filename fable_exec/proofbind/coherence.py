"""Whether a document contradicts itself: its version, its cost, its gates, its run. Pure, an axis each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from fable_exec.proofbind.axes import Axis, AxisResult, failed, passed, unchecked
from fable_exec.proofbind.documents import ProofDocument, member
from fable_exec.proofbind.facts import MalformedFacts, read_gates

__all__ = ["COMPLETED_RUN_STATUSES", "check_cost", "check_execution", "check_gates", "check_schema"]

_VERSION = re.compile(r"(0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))*")
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")

COMPLETED_RUN_STATUSES = frozenset(
    "deterministic_gates_passed council_approved council_force_approved completion_promise_fulfilled "
    "reuse_already_satisfied".split()
)
"""With which a run says that it is done; any other leaves it open."""


def check_schema(document: ProofDocument) -> AxisResult:
    """Whether it is of major version 1, written as documents write it: text, in plain digits."""
    version = document.members.get("schema_version")
    if version is None:
        return failed(Axis.SCHEMA, "missing", "the document has no schema_version")
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        return failed(Axis.SCHEMA, "unreadable", f"schema_version is {version!a:.60}, not text like 1.1")
    if match[1] != "1":
        return failed(Axis.SCHEMA, "unsupported", f"schema_version is {version:.60}, and only version 1 is known here")
    return passed(Axis.SCHEMA)


def check_cost(document: ProofDocument) -> AxisResult:
    """Whether what it says of its cost is possible, and the same wherever it says it."""
    cost = document.members.get("cost")
    if not isinstance(cost, dict):
        return unchecked(Axis.COST, "not-an-object", "the document has no object that tells its cost")
    fault = _cost_fault(cost)
    if fault:
        return failed(Axis.COST, "incoherent", fault)
    again = member(document.members, "facts").get("cost")
    if isinstance(again, dict) and again != cost:
        return failed(Axis.COST, "disagrees", "cost and facts.cost are not the same")
    return passed(Axis.COST)


def _cost_fault(cost: Mapping[str, Any]) -> str:
    """What is wrong with it; "" where nothing is."""
    has_tokens, has_money = any(_is_positive(cost.get(name)) for name in _TOKENS), _is_positive(cost.get("usd"))
    available = cost.get("available")
    if available is True and not (has_tokens or has_money):
        return "the cost is said to be available, and nothing was measured"
    if available is False and (has_tokens or has_money):
        return "the cost is said to be unavailable, and there are numbers"
    return "there is money without a token" if has_money and not has_tokens else ""


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0  # True counts: generators have written it


def check_gates(document: ProofDocument) -> AxisResult:
    """Whether no gate failed, and the document says of each what it is."""
    facts = document.facts_for(Axis.GATES)
    if isinstance(facts, AxisResult):
        return facts
    for gate in facts.gates:
        if gate.is_relabelled:
            return failed(Axis.GATES, "relabelled", f"the gate {gate.name!a:.100} is called advisory, which it is not")
        if gate.status == "failed":
            return failed(Axis.GATES, "failed", f"the gate {gate.name!a:.100} failed")
    try:
        listed = read_gates(member(document.members, "quality_gates").get("gates"))
    except MalformedFacts as fault:
        return unchecked(Axis.GATES, "facts-malformed", f"the list of gates cannot be understood: {fault}")
    if "quality_gates" in document.members and Counter(listed) != Counter(facts.gates):
        return failed(Axis.GATES, "disagree", "quality_gates.gates and facts.quality_gates are not the same")
    return passed(Axis.GATES)


def check_execution(document: ProofDocument) -> AxisResult:
    """Whether the run that it tells of ended, and well."""
    facts = document.facts_for(Axis.EXECUTION)
    if isinstance(facts, AxisResult):
        return facts
    told = f"run_status {facts.run_status!a:.60}, outcome {facts.outcome!a:.60}, exit_code {facts.exit_code}"
    if facts.execution_failed:
        return failed(Axis.EXECUTION, "failed", f"the run was ended or failed: {told}")
    if facts.exit_code != 0 or facts.run_status not in COMPLETED_RUN_STATUSES:
        return unchecked(Axis.EXECUTION, "unfinished", f"nothing says that the run is done: {told}")
    return passed(Axis.EXECUTION)
