"""Files inside the workspace that run later, outside of any call: found, watched, and neutralised when a command plants one.

Git hooks and configuration, shell start-up files, editor tasks and agent configuration. What exists when a command starts is
pinned read-only by the launcher where there are mounts; this room finds what to pin and deals with what appears meanwhile.
"""

from __future__ import annotations

from fable_exec.laterfiles.judging import Finding
from fable_exec.laterfiles.kept import contents_of, standard_place
from fable_exec.laterfiles.names import (
    Kind,
    LaterFile,
    completes_git_directory,
    counts_somewhere,
    is_git_directory,
    kind_of_path,
)
from fable_exec.laterfiles.sentry import Sentry

__all__ = [
    "Finding",
    "Kind",
    "LaterFile",
    "Sentry",
    "completes_git_directory",
    "contents_of",
    "counts_somewhere",
    "is_git_directory",
    "kind_of_path",
    "standard_place",
]
