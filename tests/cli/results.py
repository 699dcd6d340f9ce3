"""Results of commands that never ran, for what is said of them."""

from __future__ import annotations

from typing import Any

from fable_exec.outcome import EndedBy, Outcome
from fable_exec.protocol import CommandResult


def result(ended_by: EndedBy, **facts: Any) -> CommandResult:
    """One with these `facts` of its outcome."""
    return CommandResult.of(Outcome(ended_by=ended_by, **facts), command=("x",), cwd=".", policy_digest="")
