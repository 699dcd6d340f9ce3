"""Proof documents: whole ones of runs of any kind, and ones that somebody touched."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import strategies as st

from fable_exec.proofbind import FABLE_1, derive, facts_gaps, read_facts
from fable_exec.proofbind.canonical import canonical_sha256

__all__ = ["damaged_proofs", "proof_documents", "sealed"]

_NAMES = st.sampled_from(["unit_tests", "lint", "types", "code_review", "security", "é", "build-docs"])
_GATES = st.lists(
    st.fixed_dictionaries(
        {
            "name": _NAMES,
            "status": st.sampled_from(["passed", "failed", "inconclusive", "not_run"]),
            "provenance": st.sampled_from(["exogenous", "advisory"]),
        }
    ),
    max_size=3,
    unique_by=lambda gate: gate["name"],
)
_FACTS = st.fixed_dictionaries(
    {
        "execution": st.fixed_dictionaries(
            {
                "exit_code": st.sampled_from([0, 0, 1, 255]),
                "outcome": st.sampled_from(["complete", "failed", ""]),
                "run_status": st.sampled_from(["deterministic_gates_passed", "interrupted", ""]),
                "terminated": st.booleans(),
            }
        ),
        "tests": st.fixed_dictionaries(
            {
                "command": st.sampled_from(["", "make test"]),
                "exit_code": st.sampled_from([0, 1, None]),
                "status": st.sampled_from(["verified", "failed", "not_run"]),
            }
        ),
        "git": st.fixed_dictionaries(
            {"diff": st.fixed_dictionaries({name: st.integers(0, 10**6) for name in ("count", "insertions", "deletions")})}
        ),
    },
    optional={"quality_gates": _GATES},
)
_RUN_IDS = st.integers(0, 10**9).map(lambda number: f"run-{number}")


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """`document` with the seal that belongs to it, instead of any that it has."""
    body = {name: value for name, value in document.items() if name != "verification"}
    return {**body, "verification": {"hash": canonical_sha256(body), "algo": "sha256", "scope": "integrity"}}


def proof_documents() -> st.SearchStrategy[dict[str, Any]]:
    """Honest documents of runs that went well or did not: `proofbind.verify_integrity` finds each whole (`ok`).

    They are unsigned, and of no working tree: nothing is promised of `verify` and `bind`.
    """
    return st.builds(_honest, _RUN_IDS, _FACTS)


@st.composite
def damaged_proofs(draw: st.DrawFn) -> bytes:
    """The bytes of such a document with one thing changed in it that is not white space: none of them is `ok`."""
    document = draw(proof_documents())
    raw = json.dumps(document).encode()
    damaged: bytes = draw(st.sampled_from(_WAYS))(document, raw, draw(st.randoms()))
    return damaged


def _honest(run_id: str, facts: dict[str, Any]) -> dict[str, Any]:
    read = read_facts(facts)
    assert read is not None
    gaps = facts_gaps(read)
    honesty = {
        "headline": derive(read, bool(gaps), FABLE_1).value,
        "degraded": [{"item": gap} for gap in gaps],
        "headline_rules": FABLE_1.name,
    }
    return sealed({"schema_version": "1.1", "run_id": run_id, "facts": facts, "honesty": honesty})


# Ways to damage one. Each gets the document, its bytes, and what decides.


def _better_headline(document: dict[str, Any], _raw: bytes, random: Random) -> bytes:
    """A headline that does not follow, sealed as if nothing were."""
    changed = copy.deepcopy(document)
    words = {"VERIFIED", "VERIFIED WITH GAPS", "NOT VERIFIED"} - {document["honesty"]["headline"]}
    changed["honesty"]["headline"] = random.choice(sorted(words))
    return json.dumps(sealed(changed)).encode()


def _other_facts(document: dict[str, Any], _raw: bytes, _random: Random) -> bytes:
    """Facts of another run, with the seal of the first."""
    changed = copy.deepcopy(document)
    changed["facts"]["git"]["diff"]["count"] += 1
    return json.dumps(changed).encode()


def _other_run(document: dict[str, Any], _raw: bytes, _random: Random) -> bytes:
    return json.dumps({**document, "run_id": document["run_id"] + "0"}).encode()


def _unsealed(document: dict[str, Any], _raw: bytes, random: Random) -> bytes:
    changed = copy.deepcopy(document)
    del changed["verification"]["hash" if random.random() < 0.5 else "algo"]
    changed["verification"]["note"] = "as it were"
    return json.dumps(changed).encode()


def _cut_short(_document: dict[str, Any], raw: bytes, random: Random) -> bytes:
    return raw[: random.randrange(len(raw))]


def _twice(_document: dict[str, Any], raw: bytes, _random: Random) -> bytes:
    """A member that two readers take for two things."""
    return raw[:-1] + b', "run_id": "run-other"}'


_WAYS: tuple[Callable[[dict[str, Any], bytes, Random], bytes], ...] = (
    _better_headline,
    _other_facts,
    _other_run,
    _unsealed,
    _cut_short,
    _twice,
)
