"""Whether a program is to run under sandbox-exec, and the arguments that do it. Armed and not to be proved is refused.

macOS only. On Linux the boundary is compiled to the launcher's own means (`fable_exec.bounded`), and nothing has to be armed.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from fable_exec.errors import BoundaryUnproved, PolicyError
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.policy.rules import shown
from fable_exec.seatbelt.boundary import WHAT, HostBoundary
from fable_exec.seatbelt.profile import is_ambiguous
from fable_exec.seatbelt.record import ConfinementRecord
from fable_exec.seatbelt.rendering import render
from fable_exec.sha256text import sha256_given

__all__ = [
    "ARMING_SETTING",
    "DIGEST_SETTING",
    "PROFILE_NAME",
    "SANDBOX_EXEC",
    "ConfinedArguments",
    "confined_args",
    "is_armed",
    "require_sandbox_exec",
    "require_unambiguous",
    "under_profile",
]

ARMING_SETTING = "FABLE_EXEC_HOST_SEATBELT"
DIGEST_SETTING = "FABLE_EXEC_HOST_SEATBELT_PROBE_SHA256"
PROFILE_NAME = "host-seatbelt.sb"
SANDBOX_EXEC = Path("/usr/bin/sandbox-exec")
"""By its whole path: a PATH that somebody else wrote must not choose the sandbox."""
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")


@attrs.frozen
class ConfinedArguments:
    """What to execute, and what the state of the execution records of it; `record` is None where nothing is armed."""

    argv: tuple[str, ...]
    record: ConfinementRecord | None = None


def is_armed(environment: Mapping[str, str]) -> bool:
    """Whether FABLE_EXEC_HOST_SEATBELT says so.

    Raises:
        PolicyError: it says neither yes nor no; a slip must not run a program unconfined.
    """
    word = environment.get(ARMING_SETTING, "").strip().lower()
    if word not in (*_YES, *_NO):
        said = f"must be one of {', '.join(_YES)} to arm, or one of {', '.join(_NO[1:])}, not {shown(word)}"
        raise PolicyError.of([(ARMING_SETTING, said)], WHAT)
    return word in _YES


def confined_args(
    execution: str | Path,
    argv: Sequence[str],
    boundary: HostBoundary,
    workspace: str | Path,
    spec: str | Path,
    *,
    environment: Mapping[str, str] | None = None,
    platform: str = sys.platform,
    sandbox_exec: Path = SANDBOX_EXEC,
) -> ConfinedArguments:
    """`argv` under the boundary's profile, which then lies in the directory `execution`; unchanged where nothing is armed.

    Args:
        execution: the execution's own directory, private to this user.
        environment: where the two settings are looked for; this process's by default.

    Raises:
        BoundaryUnproved: armed, and this is not macOS, sandbox-exec is not there, no probe's digest is given, or the profile
            cannot be handed over as it is meant. Nothing was written.
        PolicyError: armed, and the workspace or the specification breaks a rule; or the setting is neither yes nor no.
        OSError: the profile could not be written; nothing is left of it.
    """
    environment = os.environ if environment is None else environment
    if not is_armed(environment):
        return ConfinedArguments(tuple(argv))
    require_sandbox_exec(platform, sandbox_exec)
    probe = sha256_given(environment.get(DIGEST_SETTING, ""))
    if probe is None:
        raise BoundaryUnproved(
            f"{DIGEST_SETTING} must be the 64 hexadecimal digits that `fable-exec boundary check --probe` prints"
        )
    profile = render(boundary, workspace, spec)
    require_unambiguous(profile)
    with Workspace.open(execution) as directory:
        directory.write_replace(WorkspacePath(components=(PROFILE_NAME,)), profile)
        file = Path(directory.path, PROFILE_NAME)
    record = ConfinementRecord.of_macos(hashlib.sha256(profile).hexdigest(), probe)
    return ConfinedArguments(under_profile(sandbox_exec, file, argv), record)


def under_profile(sandbox_exec: Path, profile: Path, argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments that run `argv` under a profile's file."""
    return (str(sandbox_exec), "-f", str(profile), "--", *argv)


def require_sandbox_exec(platform: str, sandbox_exec: Path) -> None:
    """Raises BoundaryUnproved where there is no Seatbelt to ask."""
    if platform != "darwin":
        raise BoundaryUnproved(f"a Seatbelt profile is held by macOS alone, and this is {platform}")
    if not os.access(sandbox_exec, os.X_OK):
        raise BoundaryUnproved(f"{sandbox_exec} is not there or cannot be executed")


def require_unambiguous(profile: bytes) -> None:
    """Raises BoundaryUnproved for a profile that sandbox-exec might read in another way than it is meant."""
    if is_ambiguous(profile):
        raise BoundaryUnproved(
            "a path of the boundary, the workspace or the specification has a character that is not printable ASCII, and nobody "
            "has shown how sandbox-exec reads its escape; rename the directory, or reach it by another path"
        )
