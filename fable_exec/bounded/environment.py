"""The environment of a program under a boundary: an allow-list of the host's variables, PATH, and directories of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fable_exec.keeper.surroundings import is_passed, runtime_environment
from fable_exec.seatbelt import HostBoundary

__all__ = ["child_environment"]

_MOVED_LOGIN = "CLAUDE_CONFIG_DIR"
"""HOME is the user's here, so that a provider finds the login that the boundary lets it see; this would lead it elsewhere."""


def child_environment(
    boundary: HostBoundary, runtime: Path, host: Mapping[str, str], named: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The whole environment; of `host` nothing else passes, whatever it is called.

    Args:
        runtime: a directory of the program's own with the parts that `make_runtime` makes, writable for it.
        named: what the execution's specification sets; it wins over all but PATH.
    """
    passed = {name: value for name, value in host.items() if name == "HOME" or is_passed(name)}
    own = {name: value for name, value in runtime_environment(runtime).items() if name != _MOVED_LOGIN}
    temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), f"{runtime}/tmp")
    path = ":".join(map(str, boundary.child_path))
    return {
        **passed,
        **own,
        **temporary,
        "TMPPREFIX": f"{runtime}/tmp/zsh",
        "CLAUDE_CODE_TMPDIR": f"{runtime}/claude",
        "PYTHONUNBUFFERED": "1",
        **(named or {}),
        "PATH": path,
    }
