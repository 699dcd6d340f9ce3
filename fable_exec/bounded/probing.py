"""`smoke_probe` on either platform: the same program, under a Seatbelt profile or under the launcher's plan."""

from __future__ import annotations

import sys
from pathlib import Path

from fable_exec.bounded.compiled import confinement_of
from fable_exec.bounded.rooms import linux_room
from fable_exec.policy import Confinement
from fable_exec.seatbelt import HostBoundary, ProbeResult
from fable_exec.seatbelt import smoke_probe as seatbelt_probe
from fable_exec.seatbelt.arming import SANDBOX_EXEC
from fable_exec.seatbelt.probe import PROBE_SECONDS, judge_status
from fable_exec.seatbelt.scratch import Scratch, probe_argv, smoke_scratch

__all__ = ["smoke_probe"]


def smoke_probe(boundary: HostBoundary, *, platform: str = sys.platform, sandbox_exec: Path = SANDBOX_EXEC) -> ProbeResult:
    """Show that this host holds the boundary; see `fable_exec.seatbelt.smoke_probe`, which is the one of macOS.

    Returns:
        The boundary's identity, and the SHA-256 of the profile or launch plan that the smoke program ran under.

    Raises:
        BoundaryUnproved: no reserved port is free, or the program found a way out: `finding` says which.
        ConfinementUnavailable: a strict protection cannot be had here.
    """
    if platform != "linux":
        return seatbelt_probe(boundary, platform=platform, sandbox_exec=sandbox_exec)
    with smoke_scratch(boundary) as scratch:
        status, digest = run_smoke(boundary, scratch, confinement_of(boundary, scratch.spec))
    judge_status(status)
    return ProbeResult(boundary.identity(boundary.workspace_roots[0]), digest)


def run_smoke(boundary: HostBoundary, scratch: Scratch, confinement: Confinement) -> tuple[int | None, str]:
    """The smoke program's exit status, None when its time was over, and the digest of its plan."""
    path = ":".join(map(str, boundary.child_path))
    with linux_room(boundary, scratch.workspace, {"PATH": path}, confinement=confinement) as room:
        return room.run(probe_argv(boundary, scratch), PROBE_SECONDS).status, room.plan.digest
