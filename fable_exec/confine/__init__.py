"""What this host's kernel can hold (`probe_host`), and the plan that makes a launcher hold it (`compile_plan`).

Deciding is pure and happens here; performing happens in the launcher program.
"""

from __future__ import annotations

from fable_exec.confine.applied import applied_for, holds_read_only, refuse_unmet
from fable_exec.confine.compiling import choose_mode, compile_command_plan, compile_kept_plan, compile_plan
from fable_exec.confine.plan import LaunchMode, Plan, Step
from fable_exec.confine.probing import probe_host
from fable_exec.confine.support import Support
from fable_exec.confine.view import FileView

__all__ = [
    "FileView",
    "LaunchMode",
    "Plan",
    "Step",
    "Support",
    "applied_for",
    "choose_mode",
    "compile_command_plan",
    "compile_kept_plan",
    "compile_plan",
    "holds_read_only",
    "probe_host",
    "refuse_unmet",
]
