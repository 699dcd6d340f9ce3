"""The directories of a job's own: temporary files, caches and settings, private to this user and to this execution."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["DIRECTORIES", "make_runtime", "runtime_environment"]

DIRECTORIES = ("tmp", "home", "root", "cache", "config", "data", "state", "npm", "bun", "claude")
_GIT_CONFIG_NAME = "gitconfig"
_GIT_CONFIG = b"[commit]\n\tgpgsign = false\n[tag]\n\tgpgsign = false\n"


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
