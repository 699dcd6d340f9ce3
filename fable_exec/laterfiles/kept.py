"""Where planted files are kept, outside the workspace, and how much of them is there. Nothing is made or removed here."""

from __future__ import annotations

import contextlib
import errno
import json
import os

import attrs

from fable_exec.statehome import state_homes

__all__ = ["ABOUT", "DIRECTORY", "Contents", "contents_of", "is_outside", "items_in", "open_own", "size_of", "standard_place"]

ABOUT = "about.json"
"""In each item, what is known of it, its size among that."""
DIRECTORY = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_SMALLEST_BYTES = 4_096
_MAX_MEASURED = 100_000
_MAX_HELD = 64


@attrs.frozen
class Contents:
    """How much a quarantine holds."""

    path: str
    items: int
    size_bytes: int


def standard_place(workspace_path: str) -> str:
    """The quarantine of this user for a workspace: where programs keep their state, or below /var/tmp.

    The first that can be had outside the workspace; nothing is made yet.
    """
    candidates = [*(str(home / "fable-exec") for home in state_homes()), f"/var/tmp/fable-exec-{os.geteuid()}"]
    usable = [place for place in candidates if is_outside(place, workspace_path) and _can_be_made(place)]
    return os.path.join((usable or candidates[-1:])[0], "quarantine")


def _can_be_made(path: str) -> bool:
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def is_outside(path: str, workspace_path: str) -> bool:
    return os.path.commonpath((os.path.realpath(path), workspace_path)) != workspace_path


def contents_of(path: str) -> Contents:
    """How much the quarantine at `path` holds; nothing if it is not there. Raises OSError when it cannot be looked into."""
    try:
        directory = open_own(path, None)
    except FileNotFoundError:
        return Contents(path, 0, 0)
    try:
        sizes = [size for _, size in items_in(directory)]
    finally:
        os.close(directory)
    return Contents(path, len(sizes), sum(sizes))


def items_in(directory: int) -> list[tuple[str, int]]:
    """Names and bytes of the items, the newest first."""
    return [(name, _recorded_size(directory, name)) for name in sorted(os.listdir(directory), reverse=True)]


def _recorded_size(directory: int, name: str) -> int:
    try:
        item = os.open(name, DIRECTORY, dir_fd=directory)
    except OSError:
        return _SMALLEST_BYTES
    try:
        with open(os.open(ABOUT, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=item), encoding="ascii") as text:
            return int(json.load(text)["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return size_of(item)  # cut off while it was written
    finally:
        os.close(item)


def size_of(directory: int) -> int:
    """What the tree takes on disk, at least a block for each entry; not followed further than _MAX_MEASURED entries."""
    total, left, waiting = 0, _MAX_MEASURED, [os.dup(directory)]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    left -= 1
                    total += max(_SMALLEST_BYTES, 512 * getattr(entry.stat(follow_symlinks=False), "st_blocks", 0))
                    if left > 0 and len(waiting) < _MAX_HELD and entry.is_dir(follow_symlinks=False):
                        with contextlib.suppress(OSError):
                            waiting.append(os.open(entry.name, DIRECTORY, dir_fd=place))
        except OSError:
            pass
        finally:
            os.close(place)
    return total


def open_own(name: str, parent: int | None) -> int:
    """The directory, if it is this user's own, or the system's: somebody else's may have been put in its place."""
    directory = os.open(name, DIRECTORY, dir_fd=parent)
    if os.fstat(directory).st_uid not in (os.geteuid(), 0):
        os.close(directory)
        raise PermissionError(errno.EPERM, "belongs to another user", name)
    return directory
