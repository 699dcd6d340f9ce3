"""What was left unproven: the gaps that a document owns up to, and those that follow from its facts. Pure.

An entry that says it was added after the headline does not count for the headline. That is honest of a check that was switched
off, and a way to hide a gap otherwise, so the gaps are derived again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fable_exec.proofbind.axes import MAX_DETAIL, MAX_LISTED, Axis, AxisResult, failed, passed, unchecked
from fable_exec.proofbind.documents import ProofDocument
from fable_exec.proofbind.facts import Facts

__all__ = ["check_degraded", "counted_entries", "facts_gaps", "gap_texts"]

_UNPROVEN = frozenset({"not_run", "inconclusive", "skipped", "failed"})


def facts_gaps(facts: Facts) -> tuple[str, ...]:
    """The gaps that follow from the facts, by the names under which documents list them."""
    gaps = [
        ("execution", facts.execution_failed),
        ("tests", facts.tests_status in _UNPROVEN),
        ("build", facts.build_status in _UNPROVEN),
        *((f"quality_gate:{gate.name}", gate.status in _UNPROVEN) for gate in facts.gates if not gate.is_advisory),
        ("security", facts.has_high_findings),
        ("git.diff", facts.diff_count == 0),
        *((f"functionality:{name}", True) for name in facts.functionality_gaps),
    ]
    return tuple(name for name, is_gap in gaps if is_gap)


def counted_entries(document: ProofDocument) -> tuple[Any, ...]:
    """The entries of `honesty.degraded` that count for the headline; what is no list has none."""
    recorded = document.honesty.get("degraded")
    return tuple(entry for entry in recorded if not _is_after_the_headline(entry)) if isinstance(recorded, list) else ()


def _is_after_the_headline(entry: Any) -> bool:
    # Documents before 1.1 know no flag; there "disabled" is what a check that was switched off has.
    return isinstance(entry, dict) and (entry.get("post_headline") is True or entry.get("status") == "disabled")


def gap_texts(document: ProofDocument) -> tuple[str, ...]:
    """The entries that count, the first so many, each as a bounded text."""
    return tuple(_text_of(entry) for entry in counted_entries(document)[:MAX_LISTED])


def _text_of(entry: Any) -> str:
    if isinstance(entry, dict) and isinstance(entry.get("item"), str):
        entry = ": ".join(str(entry[name]) for name in ("item", "status", "reason") if isinstance(entry.get(name), str))
    return (entry if isinstance(entry, str) else json.dumps(entry))[:MAX_DETAIL]


def check_degraded(document: ProofDocument) -> AxisResult:
    """Whether the entries that count are the gaps that follow from the facts."""
    recorded = document.honesty.get("degraded")
    if recorded is not None and not isinstance(recorded, list):
        return failed(Axis.DEGRADED, "not-a-list", f"honesty.degraded is a {type(recorded).__name__}, which lists no gap")
    facts = document.facts_for(Axis.DEGRADED)
    if isinstance(facts, AxisResult):
        return facts
    entries = counted_entries(document)
    named = [entry.get("item") if isinstance(entry, dict) else entry for entry in entries]
    gaps, owned = facts_gaps(facts), {name for name in named if isinstance(name, str)}
    hidden = next((gap for gap in gaps if gap not in owned), None)
    if hidden is None:
        return _founded(named, frozenset(gaps))
    if any(isinstance(entry, str) for entry in entries):
        return unchecked(Axis.DEGRADED, "only-text", f"an entry of free text may or may not mean the gap {hidden!a:.100}")
    return failed(
        Axis.DEGRADED, "hidden", f"the gap {hidden!a:.100} follows from the facts, and the document does not own up to it"
    )


def _founded(named: Sequence[Any], gaps: frozenset[str]) -> AxisResult:
    unfounded = [name for name in named if not (isinstance(name, str) and name in gaps)]
    if not unfounded:
        return passed(Axis.DEGRADED)
    return unchecked(Axis.DEGRADED, "unfounded", f"nothing among the facts shows the gap {unfounded[0]!a:.100}")
