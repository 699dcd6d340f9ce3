"""Write the table of proof vectors into docs/reference/proofs.md: what the reference answers, what we answer, why they differ.

`python tools/proof_table.py` writes it. The documents of tests/data/proofs are judged with the keys that the reference had. Where
the answers differ, a rule of `RULES` must say why; it is found from what was answered, never from the name of the vector.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fable_exec.proofbind import IntegrityResult, verify_integrity
from fable_exec.proofbind.signatures import GpgVerifier, JwtVerifier, PinnedKey, SignatureVerifier
from tools.marked import with_between

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "tests" / "data" / "proofs"
PAGE = ROOT / "docs" / "reference" / "proofs.md"
BEGIN, END = "<!-- vectors: written by tools/proof_table.py -->", "<!-- end of vectors -->"

FIELDS = ("ok", "hash_ok", "gpg_ok", "headline_consistent", "cost_coherent")
AFTER_SIGNING = 1_796_000_000
"""A time after all signatures of the vectors were made, so that a machine's clock does not matter."""
KEYS = {"gpg_valid_unknown_key": "other", "gpg_expired_key": "expired", "gpg_revoked_key": "revoked"}
"""What the reference had in its keyring, where that was not the signer's key."""


@attrs.frozen
class Answers:
    """The fields of `FIELDS` as one side answered them; None for unknown, and for all of them where it raised."""

    fields: Mapping[str, Any]
    raised: str = ""
    stopped_early: bool = False
    environment: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Rule:
    """Why an answer differs. `explains(field, reference, ours)` says whether it does for that field."""

    name: str
    explains: Callable[[str, Answers, IntegrityResult], bool]


def _by_reason(name: str, *reasons: str, field: str = "") -> Rule:
    """A rule for what stands against the document here by one of these reasons, which are beginnings, and for one axis' field."""

    def explains(which: str, _reference: Answers, ours: IntegrityResult) -> bool:
        return which in ("ok", field) and any(each.startswith(reasons) for each in ours.reasons)

    return Rule(name, explains)


RULES = (
    Rule("strict-json", lambda field, reference, ours: ours.document is None),
    Rule("never-raises", lambda field, reference, ours: bool(reference.raised) and ours.document is not None),
    Rule(
        "every-axis", lambda field, reference, ours: reference.stopped_early and field in ("headline_consistent", "cost_coherent")
    ),
    Rule(
        "environment",
        lambda field, reference, ours: "LOKI_FV_GATE" in reference.environment and field in ("ok", "headline_consistent"),
    ),
    _by_reason("signatures-count-by-key", "signature-", field="gpg_ok"),
    _by_reason("seal", "hash-algorithm", "hash-scope", "hash-uncovered", field="hash_ok"),
    _by_reason("schema", "schema-"),
    _by_reason("rule-sets-disagree", "headline-rules-disagree", field="headline_consistent"),
    _by_reason("headline-needed", "headline-not-recorded", "headline-no-facts"),
    _by_reason("typed-facts", "headline-facts-malformed", field="headline_consistent"),
    _by_reason("gaps-derived", "degraded-"),
    _by_reason("told-twice", "headline-two", "cost-disagrees", field="cost_coherent"),
)


def names() -> list[str]:
    """The vectors, in the order of the index."""
    return [line.partition("\t")[0] for line in (VECTORS / "INDEX.tsv").read_text().splitlines()[1:]]


def reference(name: str) -> Answers:
    """What the reference answered."""
    expected = json.loads((VECTORS / f"{name}.expected.json").read_text())
    result = expected.get("verify_integrity", {"raises": expected["parses_with_stdlib_json"]})
    return Answers(
        fields={field: result.get(field) for field in FIELDS},
        raised=result.get("raises", ""),
        stopped_early="hash_missing" in result.get("reason_kinds", ()),
        environment=expected.get("environment", {}),
    )


@functools.cache
def ours(name: str) -> IntegrityResult:
    """What this library answers, with the keys that the reference had."""
    return verify_integrity((VECTORS / f"{name}.proof.json").read_bytes(), list(_verifiers(name)))


def _verifiers(name: str) -> Iterator[SignatureVerifier]:
    if name.startswith("gpg"):
        key = (VECTORS / "gpg" / f"{KEYS.get(name, 'signer')}.pub.asc").read_bytes()
        program = "/nonexistent/gpg" if "PATH" in reference(name).environment else "gpg"
        yield GpgVerifier(keys=[PinnedKey(public_key=key)], at=AFTER_SIGNING, program=program)
    if name.startswith("jwt"):
        yield JwtVerifier.from_jwks((VECTORS / "jwt" / "jwks.json").read_bytes())


def differing(name: str) -> list[str]:
    """The fields in which the two differ."""
    theirs, mine = reference(name), ours(name)
    return [field for field in FIELDS if theirs.raised or theirs.fields[field] != getattr(mine, field)]


def explained(name: str) -> dict[str, list[str]]:
    """For each field that differs the rules that say why; an empty list is a difference that nothing explains."""
    theirs, mine = reference(name), ours(name)
    return {field: [rule.name for rule in RULES if rule.explains(field, theirs, mine)] for field in differing(name)}


def _words(fields: Mapping[str, Any]) -> str:
    return " ".join({True: "yes", False: "no", None: "-"}.get(value, value) for value in fields.values())


def row(name: str) -> str:
    """One vector as a row of Markdown."""
    theirs, mine = reference(name), ours(name)
    there = f"raises {theirs.raised}" if theirs.raised else _words(theirs.fields)
    here = _words({field: getattr(mine, field) for field in FIELDS})
    rules = dict.fromkeys(rule for rules in explained(name).values() for rule in rules)
    return f"| `{name}` | {there} | {here} | {', '.join(mine.reasons)} | {', '.join(rules)} |\n"


def table() -> str:
    """Every vector."""
    head = "| vector | reference | here | reasons here | rule |\n|---|---|---|---|---|\n"
    return head + "".join(row(name) for name in names())


def page_with_table(page: str) -> str:
    """The page with the rows between its two marks."""
    return with_between(page, BEGIN, table(), END)


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
