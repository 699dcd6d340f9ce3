"""`smoke_probe`: show that this macOS holds a boundary, by a program under its profile that must and must not get through."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path

import attrs

from fable_exec.errors import BoundaryUnproved
from fable_exec.seatbelt import smoke
from fable_exec.seatbelt.arming import SANDBOX_EXEC, require_sandbox_exec
from fable_exec.seatbelt.boundary import HostBoundary
from fable_exec.seatbelt.rendering import render
from fable_exec.seatbelt.sandboxed import run_sandboxed
from fable_exec.seatbelt.scratch import probe_argv, smoke_scratch

__all__ = ["PROBE_SECONDS", "ProbeResult", "judge_status", "smoke_probe"]

PROBE_SECONDS = 15.0
_FINDINGS = {
    smoke.SIBLING: "it read a file of a sibling workspace",
    smoke.SOCKET: "it connected to a Unix socket of the host",
    smoke.PORT: "it could bind a reserved port",
}
_MAX_OUTPUT_BYTES = 4096


@attrs.frozen
class ProbeResult:
    """A boundary that was shown to hold: what it is, and the digest that names the proof."""

    identity: Mapping[str, str]
    probe_sha256: str

    def to_members(self) -> dict[str, object]:
        """As JSON members."""
        return {**self.identity, "probe_sha256": self.probe_sha256}


def smoke_probe(boundary: HostBoundary, *, platform: str = sys.platform, sandbox_exec: Path = SANDBOX_EXEC) -> ProbeResult:
    """Run the smoke program under the boundary's profile, 15 s at most. What it needs is made in the first root, and removed.

    Returns:
        The boundary's identity, and the SHA-256 of the profile that it ran under.

    Raises:
        BoundaryUnproved: this is not macOS, sandbox-exec is not there, no reserved port is free, or the program found a way out:
            then `finding` is its exit status, 41 for a sibling, 42 for a socket, 43 for a port.
    """
    require_sandbox_exec(platform, sandbox_exec)
    with smoke_scratch(boundary) as scratch:
        profile = render(boundary, scratch.workspace, scratch.spec)
        ran = run_sandboxed(
            sandbox_exec,
            profile,
            probe_argv(boundary, scratch),
            cwd=scratch.workspace,
            environment={"PATH": ":".join(map(str, boundary.child_path))},
            timeout_seconds=PROBE_SECONDS,
            max_output_bytes=_MAX_OUTPUT_BYTES,
        )
    judge_status(ran.status)
    return ProbeResult(boundary.identity(boundary.workspace_roots[0]), hashlib.sha256(profile).hexdigest())


def judge_status(status: int | None) -> None:
    """Raises BoundaryUnproved unless the smoke program's exit status (None: its time was over) says that all is well."""
    if status == smoke.OK:
        return
    if status is None:
        raise BoundaryUnproved(f"the smoke program did not end within {PROBE_SECONDS:g} s")
    if status in _FINDINGS:
        raise BoundaryUnproved(f"the boundary does not hold: {_FINDINGS[status]} (exit {status})", finding=status)
    raise BoundaryUnproved(
        "the smoke program could not do what it must: write in its workspace, read a system file, start and kill a group "
        f"of its own (exit {status})",
        finding=max(status, 0),
    )
