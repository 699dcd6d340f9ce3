"""The directories of a job's own: temporary files, caches and settings, private to this user and to this execution."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from fable_exec._launcher import removal
from fable_exec.executions.names import RUNTIME_NAME

__all__ = [
    "DIRECTORIES",
    "is_apart",
    "is_passed",
    "make_runtime",
    "place_of_runtime",
    "remove_apart",
    "restore_runtime",
    "runtime_environment",
]

DIRECTORIES = ("tmp", "home", "root", "cache", "config", "data", "state", "npm", "bun", "claude")
_PASSED_NAMES = frozenset({"LANG", "LOGNAME", "NO_COLOR", "SHELL", "TERM", "USER"})
_PASSED_PREFIX = "LC_"
_GIT_CONFIG_NAME = "gitconfig"
_GIT_CONFIG = b"[commit]\n\tgpgsign = false\n[tag]\n\tgpgsign = false\n"
_NAME_APART = re.compile(r"fable-exec-[0-9a-f]{16}")


def is_passed(name: str) -> bool:
    """Whether a job gets this variable of the caller's without being asked."""
    return name in _PASSED_NAMES or name.startswith(_PASSED_PREFIX)


def place_of_runtime(execution: Path, apart_in: str | None) -> Path:
    """Where the job's own is to be: in its execution's; or under a new name in `apart_in`, for a user who is shut out of that."""
    return execution / RUNTIME_NAME if apart_in is None else Path(apart_in, f"fable-exec-{os.urandom(8).hex()}")


def is_apart(runtime: Path, execution: Path) -> bool:
    """Whether it lies outside of the execution's directory, and so does not go with that."""
    return runtime.parent != execution


def remove_apart(runtime: Path, execution: Path) -> None:
    """Remove it where it is apart, as far as permissions allow, if its name is one that `place_of_runtime` gives."""
    if is_apart(runtime, execution) and _NAME_APART.fullmatch(runtime.name):
        removal.remove_tree(str(runtime))


def make_runtime(runtime: Path, user: int, group: int) -> None:
    """Make `runtime` with what is in it, private to that user. Raises OSError; FileExistsError where something has its name."""
    made = [str(runtime), *(f"{runtime}/{name}" for name in DIRECTORIES)]
    for directory in made:
        os.mkdir(directory, 0o700)
        os.chmod(directory, 0o700)  # the umask of whoever proves a plan may have taken even our own rights
    settings = f"{runtime}/{_GIT_CONFIG_NAME}"
    with open(settings, "wb", buffering=0) as file:  # in text a codec would be looked for, in each keeper anew
        os.fchmod(file.fileno(), 0o600)
        file.write(_GIT_CONFIG)
    if user != os.geteuid():
        for path in (settings, *reversed(made)):  # its own first: from then on that user can change what is in it
            os.chown(path, user, group, follow_symlinks=False)


def restore_runtime(runtime: Path, user: int, group: int) -> None:
    """Put back what an attempt has removed, or replaced by something else: the next one's rules are built from these names.

    Links are never followed. Nothing of the job may be alive. Raises OSError.
    """
    place = os.open(runtime, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in DIRECTORIES:
            if not _is_directory_of(user, name, place):
                removal.remove_entry(place, name)
                os.mkdir(name, 0o700, dir_fd=place)
                os.chown(name, user, group, dir_fd=place, follow_symlinks=False)
    finally:
        os.close(place)


def _is_directory_of(user: int, name: str, place: int) -> bool:
    try:
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == user


def runtime_environment(runtime: Path) -> Mapping[str, str]:
    """The variables that lead programs there."""
    return {
        "XDG_CACHE_HOME": f"{runtime}/cache",
        "XDG_CONFIG_HOME": f"{runtime}/config",
        "XDG_DATA_HOME": f"{runtime}/data",
        "XDG_STATE_HOME": f"{runtime}/state",
        "npm_config_cache": f"{runtime}/npm",
        "BUN_INSTALL_CACHE_DIR": f"{runtime}/bun",
        "CLAUDE_CONFIG_DIR": f"{runtime}/claude",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "GIT_CONFIG_GLOBAL": f"{runtime}/{_GIT_CONFIG_NAME}",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
