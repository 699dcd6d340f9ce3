"""Where an execution lies and what its files are called. Pure but for the look at the environment of this process.

The root is FABLE_EXEC_STATE_DIR itself, else `fable-exec/executions` in the platform's directory for the state of programs.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from fable_exec.errors import InvalidRequest, PolicyError
from fable_exec.statehome import state_homes

__all__ = [
    "ATTESTATION_NAME",
    "BELL_NAME",
    "RUNNER_LOG_NAME",
    "RUN_LOCK_NAME",
    "RUNTIME_NAME",
    "SPEC_NAME",
    "STATE_DIR_VARIABLE",
    "SUPERVISOR_LOG_NAME",
    "canonical_id",
    "default_root",
    "execution_directory",
    "ids_in",
    "is_of_records",
    "workspace_lock_path",
    "workspace_locks_in",
]

STATE_DIR_VARIABLE = "FABLE_EXEC_STATE_DIR"
ATTESTATION_NAME = "attestation.intoto.jsonl"
RUN_LOCK_NAME = "run.lock"
RUNNER_LOG_NAME = "runner.log"
SUPERVISOR_LOG_NAME = "supervisor.log"
SPEC_NAME = "spec.md"
BELL_NAME = "bell"
RUNTIME_NAME = "host-runtime"
_WORKSPACE_LOCKS = ".workspaces"
_LOCK_SUFFIX = ".lock"


def default_root() -> Path:
    """The directory of all executions by this process's environment, absolute; it need not exist.

    Raises:
        PolicyError: this user has no home, and the environment names no place.
    """
    given = os.environ.get(STATE_DIR_VARIABLE)
    if given:
        return Path(given).absolute()
    homes = state_homes()
    if not homes:
        raise PolicyError.of([(STATE_DIR_VARIABLE, "must name a directory: this user has no home here")], "invalid setting")
    return homes[0] / "fable-exec" / "executions"


def canonical_id(text: str | uuid.UUID) -> str:
    """The one spelling of an execution's id. Raises InvalidRequest for what is no UUID."""
    try:
        return str(text if isinstance(text, uuid.UUID) else uuid.UUID(text))
    except (ValueError, AttributeError, TypeError):
        raise InvalidRequest(f"execution id {ascii(text)[:100]} must be a valid UUID") from None


def execution_directory(root: Path, execution_id: str) -> Path:
    """The directory of the execution with that canonical id."""
    return root / execution_id


def ids_in(root: Path) -> list[str]:
    """The ids of all directories that can be executions, sorted; none where there is no root."""
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if _is_canonical(name))


def is_of_records(name: str) -> bool:
    """Whether an entry of the root is, or can become, a place of records: of an execution in any spelling, or of locks."""
    try:
        canonical_id(name)
    except ValueError:
        return name == _WORKSPACE_LOCKS
    return True


def _is_canonical(name: str) -> bool:
    try:
        return canonical_id(name) == name
    except ValueError:
        return False


def workspace_lock_path(root: Path, device: int, inode: int) -> Path:
    """The lock that the keeper of a workspace holds: of the directory itself, whatever it is called."""
    return root / _WORKSPACE_LOCKS / f"{device:x}-{inode:x}{_LOCK_SUFFIX}"


def workspace_locks_in(root: Path) -> list[Path]:
    """All of them that have been made, sorted."""
    directory = root / _WORKSPACE_LOCKS
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return [directory / name for name in sorted(names) if name.endswith(_LOCK_SUFFIX)]
