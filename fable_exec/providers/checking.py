"""`check`: run a provider's commands inside the boundary, in a fixed order, and stop at the first that says no."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from fable_exec.bounded import ProgramMissing, Room, opened
from fable_exec.errors import BoundaryUnproved, BrokerGone, ConfinementUnavailable, LaunchFailed
from fable_exec.providers.parsing import Finding, Parser
from fable_exec.providers.presets import provider_named
from fable_exec.providers.values import Classification, ProviderCheck, ProviderSpec
from fable_exec.seatbelt import HostBoundary, is_armed
from fable_exec.seatbelt.arming import SANDBOX_EXEC
from fable_exec.seatbelt.scratch import scratch_workspace

__all__ = ["AUTH_SECONDS", "READINESS_SECONDS", "check"]

AUTH_SECONDS = 10.0
READINESS_SECONDS = 20.0
_CANNOT_CONFINE = (BoundaryUnproved, ConfinementUnavailable, LaunchFailed, BrokerGone, OSError)
_CONFINE = "The boundary cannot be held here: `fable-exec boundary check --probe` tells why."


def check(
    provider: ProviderSpec | str,
    boundary: HostBoundary | None,
    workspace: str | Path | None = None,
    *,
    beside: str | Path | None = None,
    requires_inference: bool = False,
    environment: Mapping[str, str] | None = None,
    platform: str = sys.platform,
    sandbox_exec: Path = SANDBOX_EXEC,
) -> ProviderCheck:
    """Whether `provider` can be used inside `boundary`. Blocks until that is open, then up to 10 s and 20 s.

    Args:
        provider: one of your own, or the name of a preset.
        boundary: None where executions have none: then nothing is asked.
        workspace: where its commands run; by default one is made in the boundary's first root, and removed.
        beside: a workspace of somebody else's; then that one is made in its root, and its commands run as its owner.
        requires_inference: refuse a provider that has no command to answer once; one that has is asked in any case.
        environment: this process's by default; the child environment is taken from it, and on macOS whether it is armed.

    Returns:
        One classification, and what to do. Whatever the commands print goes nowhere else.

    Raises:
        InvalidRequest: no preset has that name. PolicyError: the workspace breaks a rule of the boundary.
    """
    spec = provider_named(provider) if isinstance(provider, str) else provider
    environment = os.environ if environment is None else environment
    if not _armed(boundary, environment, platform):
        return ProviderCheck(provider=spec.name, classification=Classification.SEATBELT_NOT_ENABLED)
    if spec.auth_command is None:
        return _refused(spec, Classification.AUTH_UNSUPPORTED)
    if requires_inference and spec.readiness_command is None:
        return _refused(spec, Classification.READINESS_UNSUPPORTED)
    if boundary is None:
        return _refused(spec, Classification.CONFINEMENT_UNAVAILABLE)
    near = None if beside is None else boundary.workspace(beside)
    with ExitStack() as stack:
        try:
            place = stack.enter_context(scratch_workspace(boundary, near)) if workspace is None else boundary.workspace(workspace)
            room = stack.enter_context(opened(boundary, place, host=environment, platform=platform, sandbox_exec=sandbox_exec))
        except _CANNOT_CONFINE:
            return _refused(spec, Classification.CONFINEMENT_UNAVAILABLE)
        return _asked(spec, spec.auth_command, room)


def _armed(boundary: HostBoundary | None, environment: Mapping[str, str], platform: str) -> bool:
    return is_armed(environment) if platform == "darwin" else boundary is not None


def _asked(spec: ProviderSpec, auth_command: Sequence[str], room: Room) -> ProviderCheck:
    auth = _answer(room, auth_command, AUTH_SECONDS, spec.auth_parser)
    if auth is not Finding.READY:
        return _refused(spec, _AUTH[auth])
    if spec.readiness_command is None:
        return ProviderCheck(provider=spec.name, classification=Classification.AVAILABLE)
    readiness = _answer(room, spec.readiness_command, READINESS_SECONDS, spec.readiness_parser)
    if readiness is not Finding.READY:
        return _refused(spec, _READINESS[readiness], live_inference_passed=False)
    return ProviderCheck(provider=spec.name, classification=Classification.AVAILABLE, live_inference_passed=True)


_TIMEOUT, _MISSING, _UNKNOWN = "timeout", "missing", "unknown"
_AUTH: Mapping[Finding | str, Classification] = {
    _TIMEOUT: Classification.AUTH_TIMEOUT,
    _MISSING: Classification.CLI_UNAVAILABLE,
    _UNKNOWN: Classification.CONFINEMENT_UNAVAILABLE,
    Finding.INVALID: Classification.AUTH_INVALID,
    Finding.NOT_READY: Classification.AUTH_UNAVAILABLE,
}
_READINESS: Mapping[Finding | str, Classification] = {
    **dict.fromkeys((_MISSING, _UNKNOWN, Finding.INVALID, Finding.NOT_READY), Classification.INFERENCE_UNAVAILABLE),
    _TIMEOUT: Classification.READINESS_TIMEOUT,
}


def _answer(room: Room, command: Sequence[str], seconds: float, parse: Parser) -> Finding | str:
    """What the answer says, or why there is none. Nothing that is raised on the way may carry a byte of it further."""
    try:
        ran = room.run(command, seconds)
    except ProgramMissing:
        return _MISSING
    except _CANNOT_CONFINE:
        return _UNKNOWN
    if ran.status is None:
        return _TIMEOUT
    try:
        finding = parse(ran.status, ran.stdout)
    except Exception:  # a parser of the embedder's: what it raises may hold what it was given
        return Finding.INVALID
    return finding if isinstance(finding, Finding) else Finding.INVALID


def _refused(spec: ProviderSpec, classification: Classification, live_inference_passed: bool | None = None) -> ProviderCheck:
    return ProviderCheck(
        provider=spec.name,
        classification=classification,
        action=_action(spec, classification),
        live_inference_passed=live_inference_passed,
    )


def _action(spec: ProviderSpec, classification: Classification) -> str:
    if classification is Classification.CONFINEMENT_UNAVAILABLE:
        return _CONFINE
    if classification is Classification.CLI_UNAVAILABLE and spec.auth_command:
        return f"Install `{spec.auth_command[0]}` in a directory of the boundary's child_path. {spec.action}".rstrip()
    return spec.action
