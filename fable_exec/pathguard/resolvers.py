"""From a held directory and checked names to the directory they lead to, following nothing.

One call (openat2, or O_NOFOLLOW_ANY on macOS) or a walk over handles; both look at the handle they got, never a second time at
the name, to say what was wrong. They get names, never a string from outside. Holds no policy.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
import time
from collections.abc import Iterator
from typing import Protocol

from fable_exec import _sys
from fable_exec.errors import ConfinementUnavailable, FableExecError
from fable_exec.pathguard.directories import CheckedDirectory, Directory, HeldDirectory, is_link
from fable_exec.pathguard.facts import fact
from fable_exec.pathguard.reasons import denied

__all__ = ["Resolver", "choose_resolver", "one_call_works"]

# EAGAIN needs a ".." in the path, which is never passed; kept because a kernel may change its mind (containers/crun#725).
MAX_TRIES = 128
MAX_SECONDS_OF_TRIES = 1.0
_MAX_CALL_BYTES = 4_000
"""Below PATH_MAX, 4096 with the NUL."""
_MAX_BYTES_OF_CHARACTER = 4


class Resolver(Protocol):
    """`directory` returns `start` itself for no names, else a new directory that the caller closes.

    `listable` does in one call what `directory` and reopening take four for: a descriptor that can be listed, or None where it
    cannot, or where `directory` has to say what is wrong.
    """

    @property
    def name(self) -> str: ...

    def directory(self, start: Directory, names: tuple[str, ...], text: str) -> Directory: ...

    def listable(self, start: Directory, names: tuple[str, ...]) -> int | None: ...


class OneCallResolver:
    """The kernel resolves the whole path in one call: no gap between two steps for another process.

    A path that is too long for one call, which no request can name, takes several, each from the handle of the one before.
    """

    name = "openat2"

    def directory(self, start: Directory, names: tuple[str, ...], text: str) -> Directory:
        if not names:
            return start
        assert isinstance(start, HeldDirectory)
        pieces = _pieces(names)
        held = self._step(start, next(pieces), text)
        for piece in pieces:
            try:
                found = self._step(held, piece, text)
            finally:
                held.close()
            held = found
        return held

    def listable(self, start: Directory, names: tuple[str, ...]) -> int | None:
        assert isinstance(start, HeldDirectory)
        try:
            return _sys.open_beneath("/".join(names), start.fd, os.O_RDONLY | os.O_DIRECTORY, no_xdev=start.no_xdev)
        except OSError:
            return None

    @staticmethod
    def _step(start: HeldDirectory, path: str, text: str) -> HeldDirectory:
        fd = _open_beneath_with_retries(path, start, text)
        return _directory_of_handle(fd, start.no_xdev, text)


def _pieces(names: tuple[str, ...]) -> Iterator[str]:
    """The path in pieces that the kernel takes in one call; nearly always it is one."""
    path = "/".join(names)
    if len(path) * _MAX_BYTES_OF_CHARACTER <= _MAX_CALL_BYTES:
        yield path
        return
    piece: list[str] = []
    size = 0
    for name in names:
        added = len(os.fsencode(name)) + 1
        if size + added > _MAX_CALL_BYTES:
            yield "/".join(piece)
            piece, size = [], 0
        piece.append(name)
        size += added
    yield "/".join(piece)


def _open_beneath_with_retries(path: str, start: HeldDirectory, text: str) -> int:
    deadline = None
    for _ in range(MAX_TRIES):
        try:
            return _sys.open_handle_beneath(path, start.fd, no_xdev=start.no_xdev)
        except BlockingIOError:
            deadline = deadline or time.monotonic() + MAX_SECONDS_OF_TRIES
            if time.monotonic() > deadline:
                break
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise denied("mount-crossing" if start.no_xdev else "outside", text) from error
            raise
    raise fact("unstable", text)


def _directory_of_handle(fd: int, no_xdev: bool, text: str) -> HeldDirectory:
    """Take over the handle if it is a directory. errno could not tell a link from a file: ask the handle."""
    try:
        mode = os.fstat(fd).st_mode
        if stat_bits.S_ISLNK(mode):
            raise denied("symlink", text)
        if not stat_bits.S_ISDIR(mode):
            raise fact("not-a-directory", text)
    except BaseException:
        os.close(fd)
        raise
    return HeldDirectory(fd, no_xdev=no_xdev)


class WalkResolver:
    """One handle after another. A directory that is moved out of the workspace between two steps is not noticed."""

    name = "walk"

    def directory(self, start: Directory, names: tuple[str, ...], text: str) -> Directory:
        assert isinstance(start, HeldDirectory)
        held = start
        for name in names:
            try:
                found = _directory_of_handle(_sys.open_handle(name, held.fd), False, text)
            finally:
                if held is not start:
                    held.close()
            held = found
        return held

    def listable(self, start: Directory, names: tuple[str, ...]) -> int | None:
        return None


class FallbackResolver:
    """One call where the kernel has it, the walk where the kernel or a filter over all calls forbids it.

    A failure on a real path is that path's error: fanotify and security modules answer EPERM for single files
    (oven-sh/bun#36156). Only when the same call fails on "." as well is the call itself missing, and only that is remembered.
    """

    def __init__(self) -> None:
        self._one_call = OneCallResolver()
        self._walk = WalkResolver()
        self._walk_only = False

    @property
    def name(self) -> str:
        return (self._walk if self._walk_only else self._one_call).name

    def directory(self, start: Directory, names: tuple[str, ...], text: str) -> Directory:
        if not self._walk_only:
            try:
                return self._one_call.directory(start, names, text)
            except FableExecError:
                raise
            except OSError as error:
                assert isinstance(start, HeldDirectory)
                if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EACCES) or one_call_works(start):
                    raise
                if start.no_xdev:
                    raise _no_xdev_unavailable() from error
                self._walk_only = True
        return self._walk.directory(start, names, text)

    def listable(self, start: Directory, names: tuple[str, ...]) -> int | None:
        return None if self._walk_only else self._one_call.listable(start, names)


class CheckedResolver:
    """The reduced form: looks at each name before it goes on, by path."""

    name = "checked"

    def directory(self, start: Directory, names: tuple[str, ...], text: str) -> Directory:
        assert isinstance(start, CheckedDirectory)
        held = start
        for name in names:
            found = held.look(name)
            if is_link(found):
                raise denied("symlink", text)
            if not stat_bits.S_ISDIR(found.st_mode):
                raise fact("not-a-directory", text)
            held = CheckedDirectory(os.path.join(held.path, name))
        return held

    def listable(self, start: Directory, names: tuple[str, ...]) -> int | None:
        return None


def one_call_works(start: HeldDirectory) -> bool:
    """Whether the one call works on "."; also True when nothing at all works there, since then the call is not the cause."""
    try:
        os.close(_sys.open_handle_beneath(".", start.fd, no_xdev=start.no_xdev))
        return True
    except OSError:
        pass
    try:
        os.close(_sys.open_handle(".", start.fd))
        return False
    except OSError:
        return True


def choose_resolver(wish: str, start: Directory, *, no_xdev: bool) -> Resolver:
    """The resolver for a workspace.

    Args:
        wish: "auto", "openat2", "walk", or "checked" (the reduced form, chosen by itself only where nothing else exists).

    Raises:
        ConfinementUnavailable: this one cannot be had here, or not with `no_xdev`, which only the one call can promise.
    """
    if isinstance(start, CheckedDirectory):
        if wish not in ("auto", "checked") or no_xdev:
            raise ConfinementUnavailable(
                f"path resolver {wish!r} (no_xdev={no_xdev}) cannot be had: no directory handles on this system",
                protection="path-resolver", reason="no directory handles",
            )  # fmt: skip
        return CheckedResolver()
    assert isinstance(start, HeldDirectory)
    if wish not in ("auto", "openat2", "walk"):
        raise ValueError(f"resolver is 'auto', 'openat2', 'walk' or 'checked', not {wish!r}")
    if wish == "walk" or (wish == "auto" and not one_call_works(start)):
        if no_xdev:
            raise _no_xdev_unavailable()
        return WalkResolver()
    if not one_call_works(start):
        raise ConfinementUnavailable(
            "path resolver 'openat2' cannot be had: the system call is missing or filtered here; use 'auto' or 'walk'",
            protection="path-resolver", reason="openat2 is missing or filtered",
        )  # fmt: skip
    return FallbackResolver() if wish == "auto" else OneCallResolver()


def _no_xdev_unavailable() -> ConfinementUnavailable:
    # Refused and not ignored (cyphar/libpathrs#8): a walk cannot see a bind mount of the same file system.
    return ConfinementUnavailable(
        "no_xdev cannot be had: only openat2 can promise it and it is not available or not chosen; leave the option off",
        protection="no_xdev", reason="needs openat2",
    )  # fmt: skip
