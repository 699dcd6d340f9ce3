"""A boundary as a policy, which `confine` compiles to mounts, Landlock rules and a filter, for brokers and executions alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fable_exec.confine.view import SYSTEM_DIRECTORIES
from fable_exec.errors import PolicyError
from fable_exec.policy import BrokerPolicy, Confinement, EnvironmentPolicy
from fable_exec.seatbelt import HostBoundary
from fable_exec.seatbelt.paths import overlapping

__all__ = ["confinement_of", "policy_of"]


def confinement_of(
    boundary: HostBoundary, spec: str | Path | None = None, *, network: Literal["off", "full"] = "full"
) -> Confinement:
    """What the kernel is asked to hold: the defaults, all strict ones among them, with the boundary's lists.

    Args:
        spec: a file that may be read as well.
        network: "full", as a Seatbelt profile has it, or a network of the program's own; reserved ports are kept in both.

    Raises:
        PolicyError: the protected root lies among what Linux gives every command, or the specification breaks a rule.
    """
    system = overlapping(
        boundary.protected_root, (each for path in map(Path, SYSTEM_DIRECTORIES) for each in (path, path.resolve()))
    )
    if system is not None:
        raise PolicyError.of([("protected_root", f"overlaps {system}, which every command reads")], "invalid host boundary")
    engine = () if boundary.engine_source is None else (boundary.engine_source,)
    read = (*boundary.runtime_read_paths, *engine, *(() if spec is None else (boundary.specification(spec),)))
    return Confinement(
        network=network,
        runtime_read_paths=tuple(map(str, read)),
        runtime_write_paths=tuple(map(str, boundary.runtime_write_paths)),
        reserved_ports=boundary.reserved_ports,
    )


def policy_of(
    boundary: HostBoundary,
    workspace: str | Path,
    spec: str | Path | None = None,
    *,
    allowed_executables: Sequence[str],
    network: Literal["off", "full"] = "full",
) -> BrokerPolicy:
    """The policy of one workspace within the boundary: its confinement, and PATH from `child_path`; evolve it for the rest.

    Raises:
        PolicyError: the workspace, the specification or an executable's entry breaks a rule.
    """
    return BrokerPolicy(
        workspace=boundary.workspace(workspace),
        allowed_executables=tuple(allowed_executables),
        environment=EnvironmentPolicy(path=tuple(map(str, boundary.child_path))),
        confinement=confinement_of(boundary, spec, network=network),
    )
