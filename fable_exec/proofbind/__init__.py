"""A proof document (receipt) that a run left behind: whether it is whole, consistent and of this very run.

Every question about it is an axis (`Axis`) with one of three answers, and what could not be checked never counts as passed. The
format and every rule: docs/reference/proofs.md.
"""

from __future__ import annotations

from fable_exec.proofbind.axes import Axis, AxisResult, AxisState

__all__ = ["Axis", "AxisResult", "AxisState"]
