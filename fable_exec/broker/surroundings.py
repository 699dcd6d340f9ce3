"""What git needs outside of the workspace and commands do not get: found by reading, said with what to do. Nothing is granted.

A linked worktree and a submodule have their repository elsewhere, a shared clone its objects, a subdirectory everything. Source:
gitrepository-layout(5), git-worktree(1).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from fable_exec.laterfiles.hookpaths import read_host_file
from fable_exec.outcome import Applied
from fable_exec.pathguard.reasons import shown
from fable_exec.policy import BrokerPolicy

__all__ = ["notes_on_git"]

_HIDDEN = ("active", "degraded")
_MAX_ALTERNATES = 3


def notes_on_git(policy: BrokerPolicy, applied: tuple[Applied, ...]) -> tuple[str, ...]:
    """What git will miss in the workspace now, for people; nothing where `applied` hides no files of the host."""
    if not any(each.protection == "host_reads" and each.state in _HIDDEN for each in applied):
        return ()
    readable = tuple(os.path.realpath(path) for path in (str(policy.workspace), *policy.confinement.runtime_read_paths))
    return tuple(_notes(str(policy.workspace), readable))


def _notes(workspace: str, readable: tuple[str, ...]) -> Iterator[str]:
    git = os.path.join(workspace, ".git")
    if not os.path.lexists(git):
        yield from _around(workspace, readable)
        return
    repository = _common(os.path.join(workspace, _pointed(git))) if os.path.isfile(git) else git
    if os.path.isdir(repository) and not _is_in(repository, readable):
        yield (
            f"the git repository of the workspace lies outside of it, in {shown(repository)}, where commands do not see it: "
            "to let them read it, list that in confinement.runtime_read_paths; to let them commit, use a clone, or a worktree "
            "below the main checkout with that as the workspace"
        )
        return
    for objects in _alternates(repository)[:_MAX_ALTERNATES]:
        if not _is_in(objects, readable):
            yield (
                f"objects of the workspace's git repository lie outside of it, in {shown(objects)}, where commands do not see "
                "them: list that in confinement.runtime_read_paths"
            )


def _around(workspace: str, readable: tuple[str, ...]) -> Iterator[str]:
    top = _repository_around(workspace)
    if top is not None and not _is_in(os.path.join(top, ".git"), readable):
        yield (
            f"the workspace lies in the git repository at {shown(top)}, which commands do not see: "
            "make that the workspace and this directory the cwd"
        )


def _repository_around(directory: str) -> str | None:
    """The nearest directory above with a `.git`."""
    above = os.path.dirname(directory)
    while not os.path.lexists(os.path.join(above, ".git")):
        if above == os.path.dirname(above):
            return None
        above = os.path.dirname(above)
    return above


def _pointed(pointer: str) -> str:
    return read_host_file(pointer).removeprefix("gitdir:").strip()


def _common(git_directory: str) -> str:
    """Where a git directory keeps what it shares with those of other worktrees; itself when it shares nothing."""
    return os.path.normpath(os.path.join(git_directory, read_host_file(os.path.join(git_directory, "commondir")).strip()))


def _alternates(repository: str) -> list[str]:
    objects = os.path.join(repository, "objects")
    lines = read_host_file(os.path.join(objects, "info", "alternates")).splitlines()
    return [os.path.normpath(os.path.join(objects, line)) for line in lines if line and not line.startswith("#")]


def _is_in(path: str, places: tuple[str, ...]) -> bool:
    real = os.path.realpath(path)
    return any(os.path.commonpath((real, place)) == place for place in places)
