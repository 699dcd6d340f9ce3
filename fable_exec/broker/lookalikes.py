"""What is there instead of a name that is not: one that a person, or a model, reads the same. For words only: it is never taken.

Names come with spaces that cannot be told apart (macOS puts U+202F into those of screenshots), decomposed, or in other case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fable_exec.broker.near_misses import one_form
from fable_exec.errors import FableExecError, PathNotFound
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath

__all__ = ["telling_what_looks_alike"]

_MOST_ENTRIES = 2000
"""Of a directory with more, only as many are looked at."""


@contextmanager
def telling_what_looks_alike(workspace: Workspace) -> Iterator[None]:
    """Around a request: an error about a name that is not there gets the path of the one thing that looks alike, if one does."""
    try:
        yield
    except PathNotFound as error:
        found = _found(workspace, error)
        if not found:
            raise
        raise error.reworded(f"{error}; {found!a} is there, which looks alike: ask for that") from error


def _found(workspace: Workspace, error: PathNotFound) -> str:
    if error.reason != "not-found":
        return ""
    try:
        found = _alike(workspace, WorkspacePath.parse(error.path, PathProfile.host()))
    except FableExecError:
        return ""  # a link, a faulty name, no permission: nothing more to say
    return str(found or "")


def _alike(workspace: Workspace, path: WorkspacePath) -> WorkspacePath | None:
    here = WorkspacePath(components=(), profile=path.profile)
    for name in path.components:
        names = [entry.name for entry in workspace.list(here, _MOST_ENTRIES).entries]
        alike = [name] if name in names else [each for each in names if _form(each) == _form(name)]
        if len(alike) != 1:
            return None
        here = here.child(alike[0])
    return here if here != path else None


def _form(name: str) -> str:
    return one_form(name).casefold()
