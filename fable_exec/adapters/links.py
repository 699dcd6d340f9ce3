"""Where a path of the workspace leads through links, as a name, which the broker then judges like any other.

For frameworks that promise that paths lead through links. The broker's own paths do not, so that nothing can be swapped for a
link between a look and an act. A link that is swapped in after this look is refused there.
"""

from __future__ import annotations

import errno
import os

__all__ = ["resolved"]

_MAX_LINKS = 40
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def resolved(path: str, root: str, *, last: bool = True) -> str:
    """`path` without links, "." and "..", as realpath(3) has it; what is missing stays as it is written.

    Links are read below `root` alone: where the path leaves it, the rest is text, and the broker will refuse it. So is all of it
    where `root` is gone.

    Args:
        path: absolute. root: the workspace, absolute and without links.
        last: whether a link that is named last is followed too. Without, the answer is where that link itself stands.

    Raises:
        OSError: of errno ELOOP, after 40 links.
    """
    waiting, inside = _names(path), _names(root)
    done: list[str] = []
    links = 0
    while waiting:
        name = waiting.pop(0)
        if name == "..":
            done = done[:-1]
            continue
        done.append(name)
        below = done[len(inside) :] if done[: len(inside)] == inside else []
        target = _target(root, below) if below and (last or waiting) else None
        if target is None:
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        done = [] if target.startswith("/") else done[:-1]
        waiting = _names(target) + waiting
    return "/" + "/".join(done)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _target(root: str, names: list[str]) -> str | None:
    """What the link of these names below `root` says; None if it is none. No link is followed on the way to it."""
    try:
        descriptor = os.open(root, _DIRECTORY)
    except OSError:
        return None
    try:
        for name in names[:-1]:
            below = os.open(name, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        return os.readlink(names[-1], dir_fd=descriptor)
    except (OSError, ValueError):  # nothing there, no link, not to be looked at, or no name at all
        return None
    finally:
        os.close(descriptor)
