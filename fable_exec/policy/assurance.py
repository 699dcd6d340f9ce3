"""What must be true of a policy beyond its fields: formulas about the broker under it, and how few layers may stand alone.

What the formulas may ask for, and how they are checked, is `fable_exec.assurance.model`'s affair.
"""

from __future__ import annotations

import attrs

from fable_exec.policy.fields import ruled, settle, texts
from fable_exec.policy.forms import formula
from fable_exec.policy.rules import Items, Share, Text

__all__ = ["AssurancePolicy"]


@attrs.frozen(kw_only=True)
class AssurancePolicy:
    """Checked once for each policy and host, before the first command; a policy that fails runs nothing."""

    formulas: tuple[str, ...] = attrs.field(
        default=(),
        converter=texts,
        metadata=ruled(
            Items(Text(formula, {"minLength": 1})),
            "CTL formulas that must be true of the broker under this policy, from its start.",
        ),
    )
    max_brittleness: float = attrs.field(
        default=0.8,
        metadata=ruled(
            Share(),
            "Commands are refused where something strictly protected is so brittle: 1 with no layer before it, 0.5 with one.",
        ),
    )

    def __attrs_post_init__(self) -> None:
        settle(self)
