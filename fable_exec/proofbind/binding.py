"""`bind`: whether the proof that a run left in its workspace is of this very run and of the tree that it left.

Called when nothing of the run is left that could still write. The proof is read once and kept outside the workspace first; what
is judged are the bytes that were kept. Then the tree is looked at, and last whether the proof is still the file that was read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs

from fable_exec.errors import FableExecError, PathNotDirectory, PathNotFound, ProofNotBound, StateUnreadable
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.proofbind.axes import (
    MAX_LISTED,
    Axis,
    AxisResult,
    Reasoned,
    axes_members,
    failed,
    in_order,
    not_passed,
    passed,
    shortcomings,
    unchecked,
)
from fable_exec.proofbind.documents import ProofDocument, member
from fable_exec.proofbind.drift import Drift, DriftCheck, check_drift, tree_fields, tree_fields_agree
from fable_exec.proofbind.facts import Facts
from fable_exec.proofbind.headline import recorded_headline
from fable_exec.proofbind.integrity import IntegrityResult, verify_integrity
from fable_exec.proofbind.runids import is_run_id, read_run_id
from fable_exec.proofbind.signatures import SignatureVerifier
from fable_exec.proofbind.snapshots import SNAPSHOT_NAME, keep_snapshot
from fable_exec.strictjson import MAX_DOCUMENT_BYTES
from fable_exec.treedigest.watching import Stamp, stamp_of

__all__ = ["BindingPolicy", "ProofBinding", "bind", "no_workspace"]

_PROOF_NAME = "proof.json"

_COMPARED = frozenset({Axis.DIFF, Axis.TREE, Axis.TREE_FIELDS, Axis.RUN_ID, Axis.FRESHNESS})
_ALWAYS = _COMPARED - {Axis.DIFF}
_TOLD_OF_EXECUTION = (
    "terminated", "status", "reason", "signal", "exit_code", "outcome", "run_status", "blocking_gate", "blocking_gate_failures",
    "blocking_gate_threshold",
)  # fmt: skip
_MAX_TEXT = 300
_CLOCK_SKEW_SECONDS = 300
"""By how much the clock of whoever signs may be behind ours."""


def _with_what_is_always_required(required: Collection[Axis]) -> frozenset[Axis]:
    return _ALWAYS | frozenset(required)


def _verifiers(given: Iterable[SignatureVerifier]) -> tuple[SignatureVerifier, ...]:
    return tuple(given)


@attrs.frozen(kw_only=True)
class BindingPolicy:
    """What a proof needs to be bound."""

    required: frozenset[Axis] = attrs.field(default=frozenset({Axis.DIFF}), converter=_with_what_is_always_required)
    """Axes that must pass. Beside those given always those of `verify_integrity`, TREE, TREE_FIELDS, RUN_ID and FRESHNESS; give
    SIGNATURE where an unsigned proof is none, and leave DIFF out where the workspace is no git working tree."""
    verifiers: tuple[SignatureVerifier, ...] = attrs.field(default=(), converter=_verifiers)
    """With the keys whose signatures count."""
    check: DriftCheck = attrs.field(factory=DriftCheck)
    """How the workspace is looked at; its `engine_directory` is that of `bind`."""


@attrs.frozen(kw_only=True)
class ProofBinding(Reasoned):
    """What the proof of a run came to. Every field is always there, whatever there was to find."""

    present: bool
    """There was a file where the proof of the run belongs."""
    run_id: str
    """Of the run, by its state file; "" where that names none."""
    headline: str
    tree_sha256: str
    """The tree that the proof names, at its top or else among its facts."""
    document_sha256: str
    """Of the bytes that were read; of an unreadable document too."""
    proof_path: str
    """Of the snapshot; "" where there is none."""
    snapshotted: bool
    snapshot_error: str
    tree_fields_agree: bool
    execution: Mapping[str, Any] = attrs.field(factory=dict)
    """What the proof says of how the run ended."""
    failed_quality_gates: tuple[str, ...] = ()
    integrity: IntegrityResult | None = None
    """None where nothing was read."""
    drift: Drift | None = None
    """None where there was no document to compare with."""
    axes: tuple[AxisResult, ...] = ()
    shortcomings: tuple[AxisResult, ...] = ()
    """The answers that stand against `bound`."""

    @property
    def bound(self) -> bool:
        """Whether the proof is of this run and of this tree, unedited and consistent."""
        return self.present and self.snapshotted and not self.shortcomings

    def require_bound(self) -> ProofBinding:
        """This one, if it is bound.

        Raises:
            ProofNotBound: it is not; with all reasons.
        """
        if self.bound:
            return self
        told = "; ".join(f"{each.reason}: {each.detail}" for each in self.shortcomings)
        raise ProofNotBound(f"the proof of the run {self.run_id!a:.80} is not bound: {told}", reasons=self.reasons)

    def members(self) -> dict[str, Any]:
        """All of it as one JSON object, for a record."""
        return {
            "present": self.present, "run_id": self.run_id, "headline": self.headline, "tree_sha256": self.tree_sha256,
            "document_sha256": self.document_sha256, "proof_path": self.proof_path, "snapshotted": self.snapshotted,
            "snapshot_error": self.snapshot_error, "tree_fields_agree": self.tree_fields_agree, "execution": dict(self.execution),
            "failed_quality_gates": list(self.failed_quality_gates),
            "integrity": None if self.integrity is None else self.integrity.members(),
            "bound": self.bound, "reason": self.reason, "reasons": list(self.reasons), "axes": axes_members(self.axes),
        }  # fmt: skip


def bind(
    workspace: Workspace | str | os.PathLike[str],
    engine_directory: str,
    snapshot_directory: str | os.PathLike[str],
    *,
    baseline_run_id: str = "",
    run_id: str = "",
    started_at: float | None = None,
    policy: BindingPolicy | None = None,
) -> ProofBinding:
    """Judge the proof `ENGINE_DIRECTORY/proofs/RUN_ID/proof.json` of a run that has ended, all processes of it.

    Args:
        workspace: the directory, or a Workspace, which stays open.
        engine_directory: the name of the run's own directory at the top of the workspace.
        snapshot_directory: where the proof is kept: private to this user, outside the workspace. See `read_proof`.
        baseline_run_id: what `read_run_id` said before the run was started: the proof of that run is of no use.
        run_id: the run, where it is known already: the first new one that `read_run_id` said; "" for what it says now.
        started_at: when the run was started, in seconds since 1970: what was signed more than five minutes before is the proof of
            an older one, put back. None asks no signature for its time.
        policy: what the proof needs.

    Returns:
        the answers. Nothing is raised, whatever stands in the workspace.

    Raises:
        ValueError: `engine_directory` is no single name.
    """
    policy = policy or BindingPolicy()
    policy = attrs.evolve(policy, check=attrs.evolve(policy.check, engine_directory=engine_directory))
    try:
        with contextlib.ExitStack() as stack:
            held = workspace if isinstance(workspace, Workspace) else stack.enter_context(Workspace.open(workspace))
            run_id = run_id or read_run_id(held, engine_directory)
            return _Binding(held, snapshot_directory, run_id, baseline_run_id.strip(), started_at, policy).binding()
    except FableExecError as error:
        return no_workspace(run_id, error)


def no_workspace(run_id: str, error: FableExecError) -> ProofBinding:
    """What `bind` answers where `error` keeps it from the workspace."""
    return _without_document(run_id, unchecked(Axis.DOCUMENT, "no-workspace", f"the workspace cannot be read: {error}"))


@attrs.frozen
class _Binding:
    """One call of `bind`."""

    workspace: Workspace
    snapshot_directory: str | os.PathLike[str]
    run_id: str
    baseline_run_id: str
    started_at: float | None
    policy: BindingPolicy

    def binding(self) -> ProofBinding:
        if not is_run_id(self.run_id):
            return _without_document("", failed(Axis.RUN_ID, "none", "the workspace does not name a run that could have a proof"))
        try:
            data, stamp = self._read()
        except _NoProof as reason:
            return _without_document(self.run_id, reason.answer, *self._staleness(), present=reason.is_present)
        known = {"present": True, "document_sha256": hashlib.sha256(data).hexdigest()}
        try:
            kept = self._kept(data)
        except (OSError, FableExecError) as error:
            answer = unchecked(Axis.DOCUMENT, "no-snapshot", f"the proof could not be kept: {error}")
            return _without_document(self.run_id, answer, self._judged_freshness(stamp), snapshot_error=answer.detail, **known)
        known |= {"proof_path": os.path.join(self.snapshot_directory, SNAPSHOT_NAME), "snapshotted": True}
        integrity = verify_integrity(kept, self.policy.verifiers, required=self.policy.required - _COMPARED)
        known["integrity"] = integrity
        if integrity.document is None:
            return _without_document(self.run_id, *integrity.axes, self._judged_freshness(stamp), **known)
        drift = check_drift(integrity.document, self.workspace, self.policy.check)
        freshness = self._judged_time(integrity) or self._judged_freshness(stamp)
        compared = (*drift.axes, self._judged_run(integrity.document), freshness)
        against = shortcomings(compared, self.policy.required & _COMPARED, _COMPARED)
        return _with_document(
            self.run_id, integrity.document, axes=in_order(integrity.axes + compared), drift=drift,
            shortcomings=in_order(integrity.shortcomings + against), **known,
        )  # fmt: skip

    @property
    def _path(self) -> WorkspacePath:
        return WorkspacePath(components=(self.policy.check.engine_directory, "proofs", self.run_id, _PROOF_NAME))

    def _read(self) -> tuple[bytes, Stamp]:
        """The bytes of the proof, by one read of one open file, and what tells that file from another or from a later one."""
        try:
            fd = self.workspace.open_file(self._path)
        except (PathNotFound, PathNotDirectory) as error:
            raise _NoProof(failed(Axis.DOCUMENT, "absent", "the run left no proof"), is_present=False) from error
        except FableExecError as error:
            raise _NoProof(unchecked(Axis.DOCUMENT, "unreadable", f"the proof cannot be read: {error}")) from error
        with os.fdopen(fd, "rb", buffering=0) as file:
            status = os.fstat(fd)
            if status.st_size > MAX_DOCUMENT_BYTES:
                raise _NoProof(failed(Axis.DOCUMENT, "too-long", f"the proof is longer than {MAX_DOCUMENT_BYTES} bytes"))
            data = file.read(MAX_DOCUMENT_BYTES + 1) or b""
            if len(data) != status.st_size or stamp_of(os.fstat(fd)) != stamp_of(status):
                raise _NoProof(unchecked(Axis.DOCUMENT, "unstable", "the proof was changed while it was read"))
        return data, stamp_of(status)

    def _kept(self, data: bytes) -> bytes:
        place = os.path.realpath(self.snapshot_directory)
        if os.path.commonpath([place, self.workspace.path]) == self.workspace.path:
            raise StateUnreadable(f"{place!a:.400} lies in the workspace", reason="not-private", path=place)
        return keep_snapshot(data, place)

    def _judged_run(self, document: ProofDocument) -> AxisResult:
        if not hmac.compare_digest(document.run_id.encode(), self.run_id.encode()):
            return failed(Axis.RUN_ID, "other", f"the proof is of the run {document.run_id!a:.80}, and this is {self.run_id}")
        return passed(Axis.RUN_ID)

    def _staleness(self) -> tuple[AxisResult, ...]:
        """What stands against a run that is not new."""
        if self.run_id != self.baseline_run_id:
            return ()
        return (failed(Axis.FRESHNESS, "stale", f"the run {self.run_id} was there before this one was started"),)

    def _judged_time(self, integrity: IntegrityResult) -> AxisResult | None:
        """What stands against a document that was signed before this run; None where nothing does."""
        for each in integrity.signatures:
            signed_at = each.signed_at if each.is_valid else None
            if self.started_at is not None and signed_at is not None and signed_at + _CLOCK_SKEW_SECONDS < self.started_at:
                seconds = round(self.started_at - signed_at)
                return failed(Axis.FRESHNESS, "signed-before", f"it was signed {seconds} s before the run was started")
        return None

    def _judged_freshness(self, stamp: Stamp) -> AxisResult:
        """Whether the run is a new one, and its proof still the file that was read; asked last."""
        for answer in self._staleness():
            return answer
        if self._stamp_now() != stamp:
            return failed(Axis.FRESHNESS, "replaced", "the proof was changed after it was read")
        return passed(Axis.FRESHNESS)

    def _stamp_now(self) -> Stamp | None:
        try:
            fd = self.workspace.open_file(self._path)
        except FableExecError:
            return None
        try:
            return stamp_of(os.fstat(fd))
        finally:
            os.close(fd)


class _NoProof(Exception):
    """There are no bytes to keep."""

    def __init__(self, answer: AxisResult, *, is_present: bool = True) -> None:
        super().__init__(answer)
        self.answer = answer
        self.is_present = is_present


def _without_document(run_id: str, *axes: AxisResult, **known: Any) -> ProofBinding:
    """Where there is nothing to compare; what was answered stands against it."""
    answers = in_order(axes)
    fields = {"present": False, "document_sha256": "", "proof_path": "", "snapshotted": False, "snapshot_error": "", **known}
    return ProofBinding(
        run_id=run_id, headline="", tree_sha256="", tree_fields_agree=True, axes=answers, shortcomings=not_passed(answers),
        **fields,
    )  # fmt: skip


def _with_document(run_id: str, document: ProofDocument, **known: Any) -> ProofBinding:
    at_top, in_facts = tree_fields(document)
    named = at_top if isinstance(at_top, str) else in_facts
    facts = document.facts_for(Axis.GATES)
    failures = [gate.name for gate in facts.gates if gate.status == "failed"] if isinstance(facts, Facts) else []
    return ProofBinding(
        run_id=run_id, headline=recorded_headline(document)[:_MAX_TEXT],
        tree_sha256=named[:_MAX_TEXT] if isinstance(named, str) else "",
        tree_fields_agree=tree_fields_agree(document).is_pass, execution=_execution(document),
        failed_quality_gates=tuple(name[:_MAX_TEXT] for name in failures[:MAX_LISTED]), snapshot_error="", **known,
    )  # fmt: skip


def _execution(document: ProofDocument) -> dict[str, Any]:
    """The members that documents have there, as far as they are bounded values."""
    told = member(member(document.members, "facts"), "execution")
    values = {name: told[name] for name in _TOLD_OF_EXECUTION if name in told}
    return {
        name: value[:_MAX_TEXT] if isinstance(value, str) else value
        for name, value in values.items()
        if value is None or isinstance(value, str | int | float)
    }
