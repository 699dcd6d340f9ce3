"""What this host's kernel can hold (`probe_host`), and the plan that makes a launcher hold it (`compile_plan`).

Deciding is pure and happens here; performing happens in the launcher program.
"""

from __future__ import annotations

from .plan import LaunchMode, Plan, Step, compile_plan
from .probing import probe_host
from .support import Support

__all__ = ["LaunchMode", "Plan", "Step", "Support", "compile_plan", "probe_host"]
