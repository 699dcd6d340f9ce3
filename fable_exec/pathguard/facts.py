"""The kernel's answers as this library's errors: one table from errno to class and reason word."""

from __future__ import annotations

import errno
from types import TracebackType

from fable_exec.errors import (
    FableExecError,
    PathError,
    PathExists,
    PathIsDirectory,
    PathNotDirectory,
    PathNotFound,
    PathPermission,
)
from fable_exec.pathguard.reasons import denied, shown

__all__ = ["FACT_REASONS", "fact", "fact_of", "translated"]

_SENTENCES = {
    "not-found": "nothing has that name",
    "workspace-gone": "the workspace itself was removed while it was in use; make a broker over another one",
    "workspace-moved": "the workspace does not stand at its path any more: it was renamed, or something else was put there;"
    " rename it back, or make a broker over its new path",
    "exists": "the name is taken; choose another, or ask for a replacement",
    "is-directory": "it is a directory, was named as one, or is the workspace itself; name a file, or what is in it",
    "not-a-directory": "something on the way, or the thing itself, is not a directory",
    "permission": "the system does not permit it to this user; change the permissions or the user",
    "invalid": "the system calls it impossible, such as moving a directory into itself",
    "not-empty": "the directory is not empty; remove it with recursive, or what is in it first",
    "cross-device": "source and destination are on different file systems; copy and remove instead",
    "component-too-long": "the file system does not store so long a name",
    "no-space": "the file system is full or the quota is used up; make room and try again",
    "too-large": "the content is larger than a file may be here",
    "read-only": "the file system is mounted read-only",
    "busy": "it is in use: something is mounted there, or a program runs from it, which can be replaced but not written into",
    "unstable": "it changed again and again while it was resolved; try again",
    "too-many-open-files": "the process or the system has no descriptor left; close some, or raise the limit (ulimit -n)",
    "io": "the system reported a failure of the medium or the call",
}

_CLASSES: dict[str, type[PathError]] = {
    "not-found": PathNotFound,
    "workspace-gone": PathNotFound,
    "workspace-moved": PathNotFound,
    "exists": PathExists,
    "is-directory": PathIsDirectory,
    "not-a-directory": PathNotDirectory,
    "permission": PathPermission,
}

_REASON_OF_ERRNO = {
    errno.ENOENT: "not-found",
    errno.EEXIST: "exists",
    errno.EISDIR: "is-directory",
    errno.ENOTDIR: "not-a-directory",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EINVAL: "invalid",
    errno.ENOTEMPTY: "not-empty",
    errno.EXDEV: "cross-device",
    errno.ENAMETOOLONG: "component-too-long",
    errno.ENOSPC: "no-space",
    getattr(errno, "EDQUOT", errno.ENOSPC): "no-space",
    errno.EFBIG: "too-large",
    errno.EROFS: "read-only",
    errno.EBUSY: "busy",
    getattr(errno, "ETXTBSY", errno.EBUSY): "busy",
    errno.EAGAIN: "unstable",
    errno.EMFILE: "too-many-open-files",
    errno.ENFILE: "too-many-open-files",
}

# The errno that goes with a reason that was found by looking and not told by the kernel.
_ERRNO_OF_REASON = {
    "unstable": errno.EAGAIN,
    "io": errno.EIO,
    "workspace-gone": errno.ENOENT,
    "workspace-moved": errno.ENOENT,
} | {reason: number for number, reason in reversed(_REASON_OF_ERRNO.items())}

FACT_REASONS = tuple(_SENTENCES)
"""Every reason word of a PathError."""


def fact(reason: str, text: str, number: int | None = None) -> PathError:
    """The error for `reason` on `text`; `number` is the kernel's errno if it gave one."""
    if number is None:
        number = _ERRNO_OF_REASON[reason]
    name = errno.errorcode.get(number, str(number))
    kind = _CLASSES.get(reason, PathError)
    return kind(
        f"path {shown(text)} ({reason}): {_SENTENCES[reason]} [{name}]", reason=reason, path=text, errno=number, filename=text
    )


def fact_of(error: OSError, text: str) -> FableExecError:
    """The kernel's `error` on `text`, for both ways to fail: a rule of this library that the kernel enforced, or a fact."""
    number = error.errno or errno.EIO
    if number == errno.ELOOP:
        return denied("symlink", text)  # nothing here follows a link, so it is never a loop
    if number in (errno.ENXIO, errno.ENODEV):
        return denied("not-regular", text)  # a FIFO without reader, a socket or a device, swapped in after the look
    return fact(_REASON_OF_ERRNO.get(number, "io"), text, number)


class translated:
    """`with translated(text):` turns every OSError of the kernel into this library's error about `text`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, OSError) and not isinstance(error, FableExecError):
            raise fact_of(error, self._text) from error
