"""What an attestation tells: the run, the tree that it left, and the proof that was bound to both. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

import attrs

from fable_exec.errors import InvalidRequest
from fable_exec.outcome import Applied
from fable_exec.proofbind.axes import Axis, AxisResult, AxisState
from fable_exec.sha256text import is_sha256
from fable_exec.treedigest.forms import name_json
from fable_exec.treedigest.values import Level, Profile

__all__ = ["BoundProof", "ExecutionFacts", "RecordedProof", "TreeFacts"]


def _strings(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


def _require_digest(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not is_sha256(value):
        raise InvalidRequest(f"{field.name} is no SHA-256 of 64 lower-case hexadecimal digits: {value!a:.80}")


def _applied(value: Iterable[Applied]) -> tuple[Applied, ...]:
    return tuple(value)


@attrs.frozen(kw_only=True)
class ExecutionFacts:
    """What ran, under what, and how it ended. What is not known is None.

    Args:
        argv: the program and its arguments.
        policy_digest: `BrokerPolicy.digest` of the policy that held.
        confinement: what was applied, protection by protection; empty when nothing was.
        execution_id: of a supervised execution.
        materials_sha256: the digest of the tree before the run.
        termination_reason: why it ended.
        exit_code, signal: of its leader.
        started_at, finished_at: ISO 8601, UTC.

    Raises:
        InvalidRequest: a digest is none.
    """

    argv: tuple[str, ...] = attrs.field(converter=_strings)
    policy_digest: str = attrs.field(validator=_require_digest)
    confinement: tuple[Applied, ...] = attrs.field(default=(), converter=_applied)
    execution_id: str | None = None
    materials_sha256: str | None = attrs.field(default=None, validator=_require_digest)
    termination_reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: str | None = None
    finished_at: str | None = None

    @classmethod
    def of_state(cls, document: Mapping[str, Any], *, materials_sha256: str | None = None) -> Self:
        """Those of a supervised execution.

        Args:
            document: the members of its state, as `Execution.document`.

        Raises:
            InvalidRequest: it has not ended, or never ran: there is nothing to attest.
        """
        if document.get("state") != "exited" or document.get("started_at") is None:
            raise InvalidRequest("only an execution that has run and has ended can be attested")
        return cls(
            argv=document["argv"],
            policy_digest=document["policy_digest"],
            confinement=[Applied(**each) for each in document["confinement"] or ()],
            execution_id=document["execution_id"],
            materials_sha256=materials_sha256,
            termination_reason=document["termination_reason"],
            exit_code=document["exit_code"],
            signal=document["signal"],
            started_at=document["started_at"],
            finished_at=document["finished_at"],
        )

    def to_members(self) -> dict[str, Any]:
        """As they stand in the predicate, every member always there."""
        return {
            "argv": [_text(each) for each in self.argv],
            "confinement": [attrs.asdict(each) for each in self.confinement],
            "exitCode": self.exit_code,
            "finishedAt": self.finished_at,
            "id": self.execution_id,
            "materialsSha256": self.materials_sha256,
            "policySha256": self.policy_digest,
            "signal": self.signal,
            "startedAt": self.started_at,
            "terminationReason": self.termination_reason,
        }


def _text(argument: str) -> Any:
    """An argument, or {"b": base64url} of bytes that are no UTF-8, as names in manifests are written."""
    return json.loads(name_json(argument))


@attrs.frozen(kw_only=True)
class TreeFacts:
    """The digest of a tree, and how it was taken.

    Args:
        sha256: 64 hexadecimal digits.
        profile, level: of `tree_digest`.
        engine_directory: whose content does not count.
        unproven: files of which the system did not tell whether somebody has them open for writing.
        read_at: when, ISO 8601, UTC; None when the tree was read at the end of the run.
    """

    sha256: str
    profile: Profile = attrs.field(default=Profile.TREE, converter=Profile)
    level: Level = attrs.field(default=Level.STABLE, converter=Level)
    engine_directory: str | None = None
    unproven: int = 0
    read_at: str | None = None

    @classmethod
    def of_state(cls, document: Mapping[str, Any]) -> Self:
        """Of the tree that the bound proof of a supervised execution was held against, as its record tells."""
        proof = document["proof"]
        return cls(
            sha256=document["final_tree_sha256"],
            profile=proof["tree_profile"],
            level=proof["tree_level"],
            unproven=proof["tree_unproven"],
            engine_directory=document["engine_dir"].rpartition("/")[2],
        )

    def to_members(self) -> dict[str, Any]:
        """As they stand in the predicate."""
        return {
            "engineDirectory": self.engine_directory,
            "level": self.level.value,
            "profile": self.profile.value,
            "readAt": self.read_at,
            "sha256": self.sha256,
            "unproven": self.unproven,
        }


@attrs.frozen(kw_only=True)
class RecordedProof:
    """The bound proof of a supervised execution, as its record tells; a BoundProof."""

    run_id: str
    headline: str
    tree_sha256: str
    document_sha256: str
    axes: tuple[AxisResult, ...]
    bound: bool = True

    @classmethod
    def of_state(cls, document: Mapping[str, Any]) -> Self | None:
        """None where no proof was bound.

        Args:
            document: the members of its state, as `Execution.document`.
        """
        proof = document.get("proof") or {}
        if proof.get("bound") is not True:
            return None
        axes = tuple(AxisResult(Axis(name), AxisState(each["state"])) for name, each in proof["axes"].items())
        names = ("run_id", "headline", "tree_sha256", "document_sha256")
        return cls(axes=axes, **{name: proof[name] for name in names})


class _Answer(Protocol):
    """One axis of a binding and its answer."""

    @property
    def axis(self) -> Any: ...
    @property
    def state(self) -> Any: ...


class BoundProof(Protocol):
    """A proof document that was bound, as `fable_exec.proofbind.bind` returns it."""

    @property
    def bound(self) -> bool: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def headline(self) -> str | None: ...
    @property
    def tree_sha256(self) -> str | None: ...
    @property
    def document_sha256(self) -> str | None: ...
    @property
    def axes(self) -> Sequence[_Answer]: ...
