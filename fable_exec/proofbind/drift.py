"""Whether a workspace still is what a document says of it: what it changed since the base, and the digest of its tree.

Both are looked at anew and neither is taken from the workspace's own word: git is not run in it. What could not be looked at is
UNCHECKED, never taken for agreement.
"""

from __future__ import annotations

import contextlib
import hmac
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from fable_exec.errors import FableExecError, TreeUnstable
from fable_exec.pathguard import Workspace
from fable_exec.proofbind.axes import Axis, AxisResult, failed, passed, unchecked
from fable_exec.proofbind.canonical import canonical_sha256
from fable_exec.proofbind.changes import DEADLINE_SECONDS, CannotTell, Deadline, diff_stat
from fable_exec.proofbind.documents import ProofDocument, member
from fable_exec.treedigest import Level, Profile, tree_digest
from fable_exec.treedigest.repository import open_repository
from fable_exec.treedigest.values import is_one_name

__all__ = ["Drift", "DriftCheck", "check_drift", "tree_fields", "tree_fields_agree", "unchecked_drift"]

_NUMBERS = ("count", "insertions", "deletions")
_MANIFEST_VERSION = 3
"""Of the profile loki-v3; a document that names another means another digest."""


@attrs.frozen(kw_only=True)
class DriftCheck:
    """How the workspace is looked at."""

    engine_directory: str = attrs.field(default=".loki")
    """A name at the top whose content does not count."""
    profile: Profile = attrs.field(default=Profile.LOKI_V3, converter=Profile)
    """What the digest in the document is of."""
    level: Level = attrs.field(default=Level.STABLE, converter=Level)
    """What the digest has to promise."""
    git: str | None = None
    """The git program, which only ever sees copies; None: the system's."""
    scratch: str | os.PathLike[str] | None = None
    """Where the copies are made, and removed again; None: where temporary files go."""
    deadline_seconds: float = DEADLINE_SECONDS
    """For the comparison with the base."""
    tree_deadline_seconds: float = math.inf
    """For the digest of the tree, which may hold a file without end."""

    @engine_directory.validator
    def _is_one_name(self, _: Any, name: str) -> None:
        if not is_one_name(name):
            raise ValueError(f"engine_directory is a single name of the top, not {name!r}")


@attrs.frozen(kw_only=True)
class Drift:
    """What was found of one workspace, beside what the document says."""

    diff: AxisResult
    tree: AxisResult
    tree_fields: AxisResult
    recorded_diff: Mapping[str, Any] | None = None
    """The document's count, insertions and deletions."""
    current_diff: Mapping[str, Any] | None = None
    """The same of now, with `files`; None where it could not be told."""
    recorded_diff_sha256: str | None = None
    current_diff_sha256: str | None = None
    recorded_tree: str | None = None
    current_tree: str | None = None
    tree_unproven: int = 0
    """Files of it of which the system did not tell whether somebody has them open for writing."""

    @property
    def axes(self) -> tuple[AxisResult, ...]:
        """Its three answers."""
        return self.diff, self.tree, self.tree_fields

    def diff_members(self) -> dict[str, Any]:
        """What the document says of the difference, and what it is, as JSON."""
        return {
            "recorded": self.recorded_diff, "current": self.current_diff, "recorded_diff_sha256": self.recorded_diff_sha256,
            "current_diff_sha256": self.current_diff_sha256,
        }  # fmt: skip

    def tree_members(self) -> dict[str, Any]:
        """The same of the tree."""
        return {"recorded": self.recorded_tree, "current": self.current_tree}


def check_drift(document: ProofDocument, workspace: Workspace | str | os.PathLike[str], check: DriftCheck | None = None) -> Drift:
    """Look at the workspace. It raises nothing for whatever stands in the document or in the workspace.

    Args:
        workspace: the directory, or a Workspace, which stays open.
    """
    check = check or DriftCheck()
    try:
        with _opened(workspace) as held:
            return _compared_tree(document, held, check, _compared_diff(document, held, check))
    except FableExecError as error:
        return unchecked_drift(document, "no-workspace", f"the workspace cannot be opened: {error}")
    except Exception as error:  # a door: what was not foreseen is no agreement, and no way to end the host
        return unchecked_drift(document, "defect", f"a defect of fable_exec kept it from being looked at: {error!r}")


def unchecked_drift(document: ProofDocument, why: str, detail: str) -> Drift:
    """What the document says, with nothing to compare it with."""
    return Drift(
        diff=unchecked(Axis.DIFF, why, detail), tree=unchecked(Axis.TREE, why, detail), tree_fields=tree_fields_agree(document),
        recorded_diff=_numbers(document), recorded_diff_sha256=_text(_git(document).get("diff_sha256")),
        recorded_tree=_recorded_tree(document),
    )  # fmt: skip


@contextlib.contextmanager
def _opened(workspace: Workspace | str | os.PathLike[str]) -> Iterator[Workspace]:
    if isinstance(workspace, Workspace):
        yield workspace
        return
    with Workspace.open(workspace) as held:
        yield held


def _git(document: ProofDocument) -> Mapping[str, Any]:
    return member(member(document.members, "facts"), "git")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# The difference from the base


def _numbers(document: ProofDocument) -> dict[str, int] | None:
    """What the document says, None where it is not three numbers."""
    recorded = member(_git(document), "diff")
    numbers = {name: value for name in _NUMBERS if type(value := recorded.get(name)) is int and value >= 0}  # True is no number
    return numbers if len(numbers) == len(_NUMBERS) else None


def _compared_diff(document: ProofDocument, workspace: Workspace, check: DriftCheck) -> Drift:
    """With the axis TREE still to come."""
    facts = _git(document)
    found = unchecked_drift(document, "not-asked", "nobody looked at it")
    base, digest = facts.get("base_sha"), facts.get("diff_sha256")
    if found.recorded_diff is None:
        return attrs.evolve(found, diff=unchecked(Axis.DIFF, "not-recorded", "the document does not say what was changed"))
    if _text(base) is None:
        return attrs.evolve(found, diff=unchecked(Axis.DIFF, "no-base", "the document names no base"))
    try:
        stat = diff_stat(
            workspace, str(base), engine_directory=check.engine_directory, git=check.git, scratch=check.scratch,
            deadline_seconds=check.deadline_seconds,
        ).members()  # fmt: skip
        head = _head_of(workspace)
    except CannotTell as reason:
        return attrs.evolve(found, diff=unchecked(Axis.DIFF, reason.why, reason.detail))
    current = canonical_sha256(stat)
    found = attrs.evolve(found, current_diff=stat, current_diff_sha256=current)
    return attrs.evolve(found, diff=_judged(found, digest, member(facts, "diff").get("files"), facts.get("head_sha"), head))


def _judged(found: Drift, digest: Any, files: Any, recorded_head: Any, head: str) -> AxisResult:
    recorded, current = found.recorded_diff or {}, found.current_diff or {}
    for name in _NUMBERS:
        if recorded[name] != current[name]:
            return failed(
                Axis.DIFF, "drifted", f"the document says that {name} is {recorded[name]}, and it is {current[name]} now"
            )  # fmt: skip
    if digest is not None:
        if not isinstance(digest, str) or not hmac.compare_digest(digest.encode(), str(found.current_diff_sha256).encode()):
            return failed(Axis.DIFF, "drifted", "other files are changed, or in another way, than the document says")
    # A list of files may have been redacted, after its digest was taken; so it counts only where there is no digest.
    elif files is None:
        return unchecked(Axis.DIFF, "numbers-only", "the document gives numbers without the files that they are of")
    elif files != current["files"]:
        return failed(Axis.DIFF, "drifted", "other files are changed, or in another way, than the document lists")
    if recorded_head is not None and recorded_head != head:
        return failed(Axis.DIFF, "head-moved", f"HEAD is {head or 'no commit'} now, which is not what the document says")
    return passed(Axis.DIFF)


def _head_of(workspace: Workspace) -> str:
    try:
        with open_repository(workspace, ()) as repository:
            return "" if repository is None else repository.head_oid()
    except FableExecError as error:
        raise CannotTell("repository-unreadable", str(error)) from error


# The digest of the tree


def tree_fields(document: ProofDocument) -> tuple[Any, Any]:
    """What the document names as its tree: at its top, and among its facts. None where it names none."""
    at_top, in_facts = document.members.get("tree_sha256"), _git(document).get("tree_sha256")
    return None if at_top == "" else at_top, None if in_facts == "" else in_facts


def tree_fields_agree(document: ProofDocument) -> AxisResult:
    """Whether it names one tree. Where it names one in one place only, or none, nothing disagrees."""
    named = [value for value in tree_fields(document) if value is not None]
    if not all(isinstance(value, str) for value in named):
        return failed(Axis.TREE_FIELDS, "malformed", "what the document names as its tree is no text")
    if len(set(named)) > 1:
        return failed(Axis.TREE_FIELDS, "disagree", f"it names the tree {named[0]} at its top, and {named[1]} among its facts")
    return passed(Axis.TREE_FIELDS)


def _recorded_tree(document: ProofDocument) -> str | None:
    at_top, in_facts = tree_fields(document)
    return _text(in_facts) or _text(at_top)


def _compared_tree(document: ProofDocument, workspace: Workspace, check: DriftCheck, found: Drift) -> Drift:
    if found.recorded_tree is None:
        return attrs.evolve(found, tree=unchecked(Axis.TREE, "not-recorded", "the document names no tree"))
    if (version := _other_version(document, check.profile)) is not None:
        detail = (
            f"the tree was digested by version {version!a:.40} of the manifest, and version {_MANIFEST_VERSION} is known here"
        )
        return attrs.evolve(found, tree=unchecked(Axis.TREE, "manifest-version", detail))
    deadline = Deadline(check.tree_deadline_seconds)

    def in_time(_: object) -> None:
        deadline.left()

    try:
        digest = tree_digest(
            workspace, check.profile, check.level, engine_directory=check.engine_directory,
            on_progress=in_time,
        )  # fmt: skip
    except CannotTell as reason:
        return attrs.evolve(found, tree=unchecked(Axis.TREE, "deadline", reason.detail))
    except TreeUnstable as error:
        return attrs.evolve(found, tree=unchecked(Axis.TREE, f"unstable-{error.reason}", str(error)))
    except FableExecError as error:
        return attrs.evolve(found, tree=unchecked(Axis.TREE, "unreadable", str(error)))
    found = attrs.evolve(found, current_tree=digest.sha256, tree_unproven=digest.unproven)
    return attrs.evolve(found, tree=_judged_tree(str(found.recorded_tree), digest.sha256))


def _judged_tree(recorded: str, current: str) -> AxisResult:
    if not current:
        return unchecked(Axis.TREE, "no-repository", "no git working tree has its top in the workspace, so it has no such digest")
    if not hmac.compare_digest(recorded.encode("utf-8", "surrogatepass"), current.encode()):
        return failed(Axis.TREE, "drifted", f"the document is of the tree {recorded:.70}, and this is {current}")
    return passed(Axis.TREE)


def _other_version(document: ProofDocument, profile: Profile) -> Any:
    """A version that the document names and that the profile loki-v3 is not; None where there is none."""
    if profile is not Profile.LOKI_V3:
        return None
    named = (document.members.get("tree_manifest_version"), _git(document).get("tree_manifest_version"))
    return next((each for each in named if each is not None and (type(each) is not int or each != _MANIFEST_VERSION)), None)
