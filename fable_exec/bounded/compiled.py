"""A boundary as a policy, which `confine` compiles to mounts, Landlock rules and a filter, for brokers and executions alike."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fable_exec.confine.view import SYSTEM_DIRECTORIES
from fable_exec.errors import PolicyError
from fable_exec.policy import BrokerPolicy, Confinement, EnvironmentPolicy
from fable_exec.policy.rules import shown
from fable_exec.seatbelt import HostBoundary
from fable_exec.seatbelt.boundary import WHAT
from fable_exec.seatbelt.paths import enclosing, overlapping

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
        raise PolicyError.of([("protected_root", f"overlaps {system}, which every command reads")], WHAT)
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
    workspace = boundary.workspace(workspace)
    policy = BrokerPolicy(
        workspace=workspace,
        allowed_executables=tuple(allowed_executables),
        environment=EnvironmentPolicy(path=tuple(map(str, boundary.child_path))),
        confinement=confinement_of(boundary, spec and boundary.specification(spec, workspace), network=network),
    )
    _require_in_reach(boundary, policy)
    return policy


def _require_in_reach(boundary: HostBoundary, policy: BrokerPolicy) -> None:
    """What is listed may be read, with what it needs; of the protected root that is the workspace and the engine's source."""
    own = tuple(filter(None, (policy.workspace, boundary.engine_source)))
    for index, entry in enumerate(policy.allowed_executables):
        found = Path(entry).resolve() if os.path.isabs(entry) else None
        if found is not None and enclosing(found, (boundary.protected_root,)) and not enclosing(found, own):
            text = f"lies in protected_root and outside of the workspace: {shown(found)}"
            raise PolicyError.of([(f"allowed_executables[{index}]", text)], WHAT)
