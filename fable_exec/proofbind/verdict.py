"""Whether a bound proof says that the work was done: the verdict over a supervised execution that brings one.

That a proof is bound says whose it is, and of which tree; it may be bound and tell of a failure.
"""

from __future__ import annotations

from typing import Any

from fable_exec.proofbind.axes import Axis, AxisResult, failed, in_order, not_passed, result_of
from fable_exec.proofbind.binding import ProofBinding
from fable_exec.proofbind.drift import DriftCheck
from fable_exec.proofbind.headline import Headline

__all__ = ["objections", "record_members"]

_OF_THE_WORK = (Axis.EXECUTION, Axis.GATES)


def objections(binding: ProofBinding) -> tuple[AxisResult, ...]:
    """All that stands against taking the work for done, in the order of `Axis`; nothing exactly if it is done.

    Beside a proof that is bound that takes the headline VERIFIED, a run that ended well and gates of which none failed.
    """
    found = list(binding.shortcomings)
    if binding.drift is not None:  # else there was no document to ask
        found += not_passed(result_of(binding.axes, axis) for axis in _OF_THE_WORK)
        if binding.headline != Headline.VERIFIED.value:
            found.append(failed(Axis.HEADLINE, "not-verified", f"the headline is {binding.headline!a:.80}"))
    return in_order({each.reason: each for each in found}.values())


def record_members(binding: ProofBinding, check: DriftCheck) -> dict[str, Any]:
    """The binding, how its tree was looked at, and the objections as one JSON object, for the record of an execution."""
    against = [{"reason": each.reason, "detail": each.detail} for each in objections(binding)]
    unproven = 0 if binding.drift is None else binding.drift.tree_unproven
    looked = {"tree_profile": check.profile.value, "tree_level": check.level.value, "tree_unproven": unproven}
    return {**binding.members(), **looked, "objections": against}
