"""What a keeper is asked to keep, and what it answers at once: values, and their form on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import attrs

from fable_exec.keeper.bounds import Bounds
from fable_exec.outcome import Applied

__all__ = ["Answer", "Answered", "KeepRequest", "LaterFiles", "other_request", "plan_of_job"]


class Answer(Enum):
    """What became of a request to keep."""

    KEPT = "kept"
    """It runs, or has ended already: the state says which."""
    EXISTING = "existing"
    """The same was asked for before."""
    CONFLICT = "conflict"
    FAILED = "failed"
    """Nothing was accepted."""


@attrs.frozen(kw_only=True)
class Answered:
    """The answer. `reason` is a stable word, `text` for people, `errno` of the system where it has one."""

    answer: Answer
    reason: str = ""
    text: str = ""
    errno: int = 0

    def to_wire(self) -> dict[str, Any]:
        return {**attrs.asdict(self), "answer": self.answer.value}

    @classmethod
    def from_wire(cls, message: Mapping[str, Any]) -> Answered:
        return cls(**{**message, "answer": Answer(message["answer"])})


def other_request(execution_id: str) -> Answered:
    """The answer where that id was used for something else."""
    text = f"execution {execution_id} was asked for with another request before; repeat that one, or use another id"
    return Answered(answer=Answer.CONFLICT, reason="other-request", text=text)


@attrs.frozen(kw_only=True)
class LaterFiles:
    """What the policy says of files that run later.

    Args:
        quarantine: where those go that a job planted, outside the workspace.
        neutralise: make them harmless, else only tell of them. fails: a job that planted one has not done its work.
        required: the job must not run where one that is there already cannot be pinned.
    """

    quarantine: str
    neutralise: bool
    fails: bool
    required: bool


@attrs.frozen(kw_only=True)
class KeepRequest:
    """One execution, decided by the host and complete; the keeper only carries it out.

    Args:
        root: the directory of all executions, absolute; `execution_id` is canonical.
        workspace: its path with device and inode, as the launcher takes them.
        defined: members of the state that never change: what the execution is defined by.
        user, group: whom the job runs as.
        spec_text: what is kept as the specification.
        plan: as `confine.Plan.to_wire` writes it; None where `launch_error` says why there is none.
        applied: what the plan gives.
        command: as `runner.Command.to_wire` writes it.
        later_files: None where nobody looks after them.
        proof: ProofTerms on the wire; None where no proof is asked for.
        launch_error, launch_errno: what failed before there could be a process.
    """

    root: str
    execution_id: str
    workspace: Mapping[str, Any]
    defined: Mapping[str, Any]
    user: int
    group: int
    spec_text: str | None
    policy_failure_codes: Sequence[int]
    restarts: int
    restart_delay_seconds: float
    bounds: Bounds
    stop_grace_seconds: float
    descendant_grace_seconds: float
    log_bytes: int
    plan: Mapping[str, Any] | None = None
    applied: tuple[Applied, ...] = ()
    command: Mapping[str, Any] = attrs.field(factory=dict)
    later_files: LaterFiles | None = None
    proof: Mapping[str, Any] | None = None
    launch_error: str | None = None
    launch_errno: int | None = None

    @property
    def fingerprint(self) -> str:
        """Of what was asked for."""
        found: str = self.defined["request_fingerprint"]
        return found

    @property
    def runtime(self) -> Path:
        """The directory of the job's own, absolute: below the execution's, or where its user can enter it."""
        return Path(self.defined["runtime_directory"])

    @property
    def engine_directory(self) -> str:
        """The job's own, as a name in the workspace."""
        return Path(self.defined["engine_dir"]).name

    @property
    def in_namespaces(self) -> bool:
        """Whether the job has namespaces of its own."""
        return self.plan is not None and bool(self.plan["namespaces"])

    def to_wire(self) -> dict[str, Any]:
        members = attrs.asdict(self, recurse=False)  # most of it is of the wire's form already
        members["bounds"] = attrs.asdict(self.bounds)
        members["applied"] = [attrs.asdict(each) for each in self.applied]
        members["later_files"] = None if self.later_files is None else attrs.asdict(self.later_files)
        return members

    @classmethod
    def from_wire(cls, message: Mapping[str, Any]) -> KeepRequest:
        later = message["later_files"]
        applied = tuple(Applied(**each) for each in message["applied"])
        return cls(
            **{
                **message,
                "bounds": Bounds(**message["bounds"]),
                "applied": applied,
                "later_files": None if later is None else LaterFiles(**later),
            }
        )


def plan_of_job(plan: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """`plan` as an init takes it: with user, group and workspace of `job`, such as a KeepRequest on the wire."""
    return {**plan, **{name: job[name] for name in ("user", "group", "workspace")}}
