"""Where a path of the workspace leads through links, as a name, which the broker then judges like any other.

For frameworks that promise that paths lead through links. The broker's own paths do not, so that nothing can be swapped for a
link between a look and an act. A link that is swapped in after this look is refused there.
"""

from __future__ import annotations

import contextlib
import errno
import os

__all__ = ["resolved"]

_MAX_LINKS = 40
_MAX_LOOKS = 100_000
"""More than a path and 40 links can have names. Where ".." leads away from what lies deep, all of its path is walked again."""
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def resolved(path: str, root: str, *, last: bool = True) -> str:
    """`path` without links, "." and "..", as realpath(3) has it; what is missing stays as it is written.

    Links are read below `root` alone: where the path leaves it, the rest is text, and the broker will refuse it. So is all of it
    where `root` is gone.

    Args:
        path: absolute. root: the workspace, absolute and without links.
        last: whether a link that is named last is followed too. Without, the answer is where that link itself stands.

    Raises:
        OSError: of errno ELOOP, after 40 links, or where it takes more than 100 000 looks.
    """
    waiting, inside = _names(path)[::-1], _names(root)  # the next name is the last one
    done: list[str] = []
    links = 0
    with contextlib.closing(_Tree(root)) as tree:
        while waiting:
            name = waiting.pop()
            if name == "..":
                del done[-1:]
                continue
            done.append(name)
            is_below = len(done) > len(inside) and done[: len(inside)] == inside
            target = tree.target(done[len(inside) :]) if is_below and (last or waiting) else None
            if tree.looks > _MAX_LOOKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target is None:
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            done = [] if target.startswith("/") else done[:-1]
            waiting += _names(target)[::-1]
    return "/" + "/".join(done)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


class _Tree:
    """Looks at names below `root`, from the directory where it last looked if that is on the way. No link is followed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._at: list[str] | None = None
        self._descriptor = -1
        self.looks = 0

    def target(self, names: list[str]) -> str | None:
        """What the link of these names says; None if it is none."""
        self.looks += 1
        try:
            self._go(names[:-1])
            return os.readlink(names[-1], dir_fd=self._descriptor)
        except (OSError, ValueError):  # nothing there, no link, not to be looked at, or no name at all
            return None

    def _go(self, names: list[str]) -> None:
        if self._at is None or names[: len(self._at)] != self._at:
            self._stand(os.open(self._root, _DIRECTORY), [])
        for name in names[len(self._at or ()) :]:
            self.looks += 1
            self._stand(os.open(name, _DIRECTORY, dir_fd=self._descriptor), [*(self._at or ()), name])

    def _stand(self, descriptor: int, at: list[str]) -> None:
        self.close()
        self._descriptor, self._at = descriptor, at

    def close(self) -> None:
        """Give the descriptor back."""
        if self._at is not None:
            os.close(self._descriptor)
            self._at = None
