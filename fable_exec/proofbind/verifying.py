"""A document against a working tree: what it says of itself, and whether the tree still is as it says."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

import attrs

from fable_exec.pathguard import Workspace
from fable_exec.proofbind.axes import Axis, AxisResult, AxisState, Reasoned, axes_members, in_order, result_of, shortcomings
from fable_exec.proofbind.drift import Drift, DriftCheck, check_drift
from fable_exec.proofbind.integrity import IntegrityResult, verify_integrity
from fable_exec.proofbind.signatures import SignatureVerifier

__all__ = ["VerificationResult", "verify"]

_COMPARED = frozenset({Axis.DIFF, Axis.TREE, Axis.TREE_FIELDS})
_DRIFTED = {AxisState.PASS: False, AxisState.FAIL: True, AxisState.UNCHECKED: None}


@attrs.frozen(kw_only=True)
class VerificationResult(Reasoned):
    """Whether a document can be believed, and the working tree is the one that it tells of."""

    integrity: IntegrityResult
    """What the document alone came to."""
    drift: Drift | None
    """What the tree came to beside it; None where the document cannot be read."""

    @property
    def axes(self) -> tuple[AxisResult, ...]:
        """All answers; only DOCUMENT where the document cannot be read."""
        return in_order(self.integrity.axes + (() if self.drift is None else self.drift.axes))

    @property
    def shortcomings(self) -> tuple[AxisResult, ...]:
        """The answers that stand against `ok`."""
        return in_order(self.integrity.shortcomings + (() if self.drift is None else shortcomings(self.drift.axes, _COMPARED)))

    @property
    def ok(self) -> bool:
        """Whether everything that has to be checked was, and holds."""
        return not self.shortcomings

    @property
    def hash_ok(self) -> bool:
        """As of `integrity`; so are the next four."""
        return self.integrity.hash_ok

    @property
    def gpg_ok(self) -> bool | Literal["n/a"]:
        return self.integrity.gpg_ok

    @property
    def generator_trusted(self) -> bool:
        return self.integrity.generator_trusted

    @property
    def headline_consistent(self) -> bool | None:
        return self.integrity.headline_consistent

    @property
    def cost_coherent(self) -> bool | None:
        return self.integrity.cost_coherent

    @property
    def schema_supported(self) -> bool:
        """Whether the document's version is one that is known here."""
        return result_of(self.axes, Axis.SCHEMA).is_pass

    @property
    def diff_drift(self) -> bool | None:
        """Whether the tree differs from the base in another way than the document says; None where that is not known."""
        return _DRIFTED[result_of(self.axes, Axis.DIFF).state]

    @property
    def tree_drift(self) -> bool | None:
        """Whether the tree is another than the document names; None where that is not known."""
        return _DRIFTED[result_of(self.axes, Axis.TREE).state]

    def members(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        document = self.integrity.document
        return {
            **self.integrity.members(), "ok": self.ok, "reason": self.reason, "reasons": list(self.reasons),
            "diff_drift": self.diff_drift, "diff_recheck": None if self.drift is None else self.drift.diff_members(),
            "tree_drift": self.tree_drift, "tree_recheck": None if self.drift is None else self.drift.tree_members(),
            "document_schema_version": None if document is None else document.members.get("schema_version"),
            "schema_supported": self.schema_supported, "axes": axes_members(self.axes),
        }  # fmt: skip


def verify(
    document: bytes | Mapping[str, Any],
    repo: Workspace | str | os.PathLike[str],
    verifiers: Iterable[SignatureVerifier] = (),
    *,
    required: Collection[Axis] = (),
    check: DriftCheck | None = None,
) -> VerificationResult:
    """Judge a document by itself and by a working tree. Nothing in the tree is changed, and git is not run in it.

    Args:
        document: as for `verify_integrity`.
        repo: the top of the working tree, or a Workspace, which stays open.
        verifiers: with the keys whose signatures count.
        required: axes that must pass beside those of `verify_integrity`, DIFF, TREE and TREE_FIELDS.
        check: how the tree is looked at.

    Returns:
        the answers. Nothing is raised, whatever stands in the document or in the tree.
    """
    integrity = verify_integrity(document, verifiers, required=required)
    drift = None if integrity.document is None else check_drift(integrity.document, repo, check)
    return VerificationResult(integrity=integrity, drift=drift)
