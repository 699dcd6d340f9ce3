"""Making the missing directories of a path, handle by handle, together with whoever else makes them at the same time."""

from __future__ import annotations

from fable_exec.pathguard.directories import Directory
from fable_exec.pathguard.facts import fact
from fable_exec.pathguard.names import has_control
from fable_exec.pathguard.reasons import denied
from fable_exec.pathguard.resolvers import Resolver

__all__ = ["NEW_DIRECTORY_MODE", "make_directories", "unmake_directories"]

NEW_DIRECTORY_MODE = 0o700

# Another process may remove what was just made; after so many rounds the answer is "not-found" (golang/go#75114).
MAX_TRIES = 16


def make_directories(
    resolver: Resolver, root: Directory, names: tuple[str, ...], text: str, mode: int, *, durable: bool = False
) -> tuple[Directory, tuple[int, ...]]:
    """Return the directory at `names`, making what is missing, and the depths (1 = first name) that were made here.

    The caller closes the directory unless it is `root`. Owner, mode and emptiness of what exists are not looked at: such checks
    fail for honest users under set-gid parents and odd file systems (cyphar/filepath-securejoin 0.3.3 took them out).
    """
    for _ in range(MAX_TRIES):
        made: list[int] = []
        try:
            return _descend(resolver, root, names, text, mode, made, durable), tuple(made)
        except FileNotFoundError:
            continue
        except BaseException:
            unmake_directories(resolver, root, names, tuple(made), text)
            raise
    raise fact("not-found", text)


def _descend(
    resolver: Resolver, root: Directory, names: tuple[str, ...], text: str, mode: int, made: list[int], durable: bool
) -> Directory:
    held = root
    for depth, name in enumerate(names, start=1):
        try:
            found = _existing(resolver, held, name, text)
            if found is None:
                if not made:
                    _refuse_creation(names[depth - 1 :], text)
                if _make(held, name, mode):
                    made.append(depth)
                    if durable:
                        held.sync()
                found = resolver.directory(held, (name,), text)
        finally:
            if held is not root:
                held.close()
        held = found
    return held


def _existing(resolver: Resolver, held: Directory, name: str, text: str) -> Directory | None:
    try:
        return resolver.directory(held, (name,), text)
    except FileNotFoundError:
        return None


def _refuse_creation(names: tuple[str, ...], text: str) -> None:
    """All names that will have to be made, before the first one is."""
    if any(has_control(name) for name in names):
        raise denied("control", text)


def _make(held: Directory, name: str, mode: int) -> bool:
    """Whether it was made here; another process may have been first, and what it made is looked at next."""
    try:
        held.make(name, mode)
        return True
    except FileExistsError:
        return False


def unmake_directories(resolver: Resolver, root: Directory, names: tuple[str, ...], depths: tuple[int, ...], text: str) -> None:
    """Take back directories made for a write that failed, deepest first, as far as they are empty."""
    for depth in sorted(depths, reverse=True):
        try:
            parent = resolver.directory(root, names[: depth - 1], text)
        except OSError:
            return
        try:
            parent.remove_directory(names[depth - 1])
        except OSError:
            return  # someone uses it already
        finally:
            if parent is not root:
                parent.close()
