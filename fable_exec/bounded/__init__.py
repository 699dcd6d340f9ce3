"""Programs under a `HostBoundary` on the platform that this is: by the launcher's plan on Linux, by a Seatbelt profile on macOS.

`policy_of` and `confinement_of` are the boundary as a policy, for brokers and supervised executions; `child_environment` is all
that a program's environment holds; `smoke_probe` shows that the boundary holds; `opened` runs single programs, for checks.
"""

from __future__ import annotations

from fable_exec.bounded.compiled import confinement_of, policy_of
from fable_exec.bounded.environment import child_environment
from fable_exec.bounded.probing import smoke_probe
from fable_exec.bounded.rooms import ProgramMissing, Room, opened

__all__ = ["ProgramMissing", "Room", "child_environment", "confinement_of", "opened", "policy_of", "smoke_probe"]
