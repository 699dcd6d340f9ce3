"""`render`: the profile of one boundary, workspace and specification, after looking at the two and at what the system has."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fable_exec.seatbelt.boundary import HostBoundary, system_runtime_paths
from fable_exec.seatbelt.profile import Grant, profile_text

__all__ = ["render"]


def render(
    boundary: HostBoundary, workspace: str | Path, spec: str | Path, *, system_paths: Iterable[str] | None = None
) -> bytes:
    """The Seatbelt profile under which a program works in `workspace` on `spec`.

    Args:
        workspace: an existing directory strictly inside one of the boundary's roots.
        spec: an existing regular file, which the program may read.
        system_paths: the system's runtime paths that exist; looked for by default.

    Returns:
        ASCII; the same for the same boundary, in whatever order its paths were given.

    Raises:
        PolicyError: the workspace or the specification breaks a rule.
    """
    workspace = boundary.workspace(workspace)
    spec = boundary.specification(spec, workspace)
    system = system_runtime_paths() if system_paths is None else system_paths
    engine = () if boundary.engine_source is None else (boundary.engine_source,)
    read = (*boundary.runtime_read_paths, *engine, workspace, spec)
    write = (*boundary.runtime_write_paths, workspace)
    return profile_text((*map(Grant, system), *map(_grant, read)), map(_grant, write), boundary.reserved_ports)


def _grant(path: Path) -> Grant:
    return Grant(str(path), path.is_dir())
