"""Write the second table of proof vectors into docs/reference/proofs.md: documents against a working tree, and bound to a run.

`python tools/proof_tree_table.py` writes it. The tree is the repository that the vectors are of, made anew. Where the answers
differ, a rule must say why; it is found from what was answered, never from the name of the vector.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fable_exec.proofbind import BindingPolicy, DriftCheck, IntegrityResult, ProofBinding, VerificationResult, bind
from fable_exec.proofbind.drift import check_drift
from fable_exec.proofbind.signatures import SignatureResult, SignedDocument
from tests.proofbind.repositories import RUN_ID, make_fixture
from tools import proof_table
from tools.marked import with_between

VECTORS, PAGE = proof_table.VECTORS, proof_table.PAGE
BEGIN, END = "<!-- vectors in a tree: written by tools/proof_tree_table.py -->", "<!-- end of vectors in a tree -->"
FIELDS = ("exit", "diff_drift", "tree_drift", "outside", "bound")
_FAST = DriftCheck(level="fast")
"""Nobody else is in that repository."""


@attrs.frozen
class Replayed:
    """A verifier that found out before; signatures are checked once, for the first table."""

    result: SignatureResult

    @property
    def scheme(self) -> str:
        return self.result.scheme

    def verify(self, document: SignedDocument) -> SignatureResult:
        return self.result


@attrs.frozen
class Answer:
    """What this library answers of one vector."""

    fields: Mapping[str, Any]
    binding: ProofBinding

    @property
    def reasons(self) -> list[str]:
        """Those that are not of the document alone, and so not in the first table."""
        alone = self.binding.integrity.reasons if self.binding.integrity is not None else ()
        return [reason for reason in self.binding.reasons if reason not in alone]


class Places:
    """The repository with a run in it, a directory without one, and a place for proofs. Close it."""

    def __init__(self) -> None:
        self._top = tempfile.TemporaryDirectory()
        top = Path(self._top.name).resolve()
        self.repository = make_fixture(top / "repository")
        self.outside, self.kept = top / "outside", top / "kept"
        self.outside.mkdir()
        self.kept.mkdir(mode=0o700)
        (self.repository / ".loki/state").mkdir(parents=True)
        (self.repository / ".loki/state/trust-run-id").write_text(RUN_ID)
        self._proof = self.repository / ".loki/proofs" / RUN_ID / "proof.json"
        self._proof.parent.mkdir(parents=True)

    def close(self) -> None:
        self._top.cleanup()

    def answer(self, name: str) -> Answer:
        """Bind the vector; `verify` is what of that does not need the run."""
        self._proof.write_bytes((VECTORS / f"{name}.proof.json").read_bytes())
        verifiers = [Replayed(each) for each in proof_table.ours(name).signatures if each.is_present]
        binding = bind(self.repository, ".loki", self.kept, policy=BindingPolicy(verifiers=verifiers, check=_FAST))
        integrity = binding.integrity
        assert integrity is not None
        verified = VerificationResult(integrity=integrity, drift=binding.drift)
        outside = None if integrity.document is None else check_drift(integrity.document, self.outside, _FAST)
        return Answer(
            {
                "exit": _exit(verified), "diff_drift": verified.diff_drift, "tree_drift": verified.tree_drift,
                "outside": _exit(VerificationResult(integrity=integrity, drift=outside)), "bound": binding.bound,
            },
            binding,
        )  # fmt: skip


def _exit(result: VerificationResult) -> int:
    if result.integrity.document is None:
        return 2
    return 0 if result.ok else 1


def reference(name: str) -> dict[str, Any]:
    """What the reference answered; where it raised, the name of what it raised stands for `bound`."""
    expected = json.loads((VECTORS / f"{name}.expected.json").read_text())
    inside = expected["cli_in_fixture_repo"]
    result, bound = inside.get("result") or {}, expected["supervisor_binding"]
    return {
        "exit": inside["exit"], "diff_drift": result.get("diff_drift"), "tree_drift": result.get("tree_drift"),
        "outside": expected["cli_outside_git"]["exit"], "bound": bound.get("raises", bound.get("bound")),
    }  # fmt: skip


@functools.cache
def answers() -> Mapping[str, Answer]:
    """Every vector."""
    places = Places()
    try:
        return {name: places.answer(name) for name in proof_table.names()}
    finally:
        places.close()


@attrs.frozen
class Rule:
    """Why an answer differs, by the reason that stands against it and the fields that it bears on."""

    name: str
    reasons: tuple[str, ...]
    fields: tuple[str, ...]


_VERDICTS = ("exit", "bound")
RULES = (
    Rule("typed-facts", ("diff-not-recorded",), ("diff_drift", *_VERDICTS)),
    Rule("base-is-an-id", ("diff-base-no-id",), ("diff_drift", *_VERDICTS)),
    Rule("head-is-compared", ("diff-head-moved",), ("diff_drift", *_VERDICTS)),
    Rule("difference-binds", ("diff-drifted",), ("bound",)),
    Rule("one-tree", ("tree-fields-disagree",), _VERDICTS),
    Rule("tree-needed", ("tree-not-recorded",), _VERDICTS),
    Rule("manifest-version", ("tree-manifest-version",), ("tree_drift", *_VERDICTS)),
)
OF_THE_DOCUMENT: Mapping[str, Callable[[str, str, IntegrityResult], bool]] = {
    "strict-json": lambda name, field, ours: ours.document is None,
    "never-raises": lambda name, field, ours: bool(proof_table.reference(name).raised),
    "every-axis": lambda name, field, ours: proof_table.reference(name).stopped_early and field.endswith("_drift"),
}


def differing(name: str) -> list[str]:
    """The fields in which the two differ."""
    theirs, mine = reference(name), answers()[name].fields
    return [field for field in FIELDS if theirs[field] != mine[field]]


def explained(name: str) -> dict[str, list[str]]:
    """For each field that differs the rules that say why; an empty list is a difference that nothing explains."""
    return {field: list(dict.fromkeys(_explanations(name, field))) for field in differing(name)}


def _explanations(name: str, field: str) -> Iterator[str]:
    answer, alone = answers()[name], proof_table.ours(name)
    for rule, explains in OF_THE_DOCUMENT.items():
        if explains(name, field, alone):
            yield rule
    if not field.endswith("_drift"):
        yield from proof_table.explained(name).get("ok", ())
    for each in RULES:
        if field in each.fields and any(reason in each.reasons for reason in answer.reasons):
            yield each.name


def _words(fields: Mapping[str, Any]) -> str:
    return " ".join({"True": "yes", "False": "no", "None": "-"}.get(str(fields[field]), str(fields[field])) for field in FIELDS)


def row(name: str) -> str:
    """One vector as a row of Markdown."""
    rules = dict.fromkeys(rule for rules in explained(name).values() for rule in rules)
    answer = answers()[name]
    words = (f"`{name}`", _words(reference(name)), _words(answer.fields), ", ".join(answer.reasons), ", ".join(rules))
    return f"| {' | '.join(words)} |\n"


def page_with_table(page: str) -> str:
    """The page with the rows between its two marks."""
    head = "| vector | reference | here | reasons here, of the tree and the run | rule |\n|---|---|---|---|---|\n"
    return with_between(page, BEGIN, head + "".join(map(row, proof_table.names())), END)


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
