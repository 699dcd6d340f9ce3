"""What a watched call is about to do, read from its registers and its caller's memory; for reports only.

Another thread of the caller may change that memory at any time. Of a call that would fail for what is found there (no such
descriptor, an empty path, a null pointer) there is nothing to report: OSError or ValueError. How each call is to be read is
`confine.observing`'s table.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from . import observed_addresses
from .kernel_fs import AT_FDCWD
from .kernel_notify import Call, memory_of
from .linuxos import O_PATH
from .observed_addresses import Address
from .observed_paths import Attempt
from .typed import Any

_MAX_PATH_BYTES = 4096  # PATH_MAX
_MAX_ADDRESS_BYTES = 128  # struct sockaddr_storage
_MAX_MESSAGES = 16  # that are looked at of one sendmmsg(2)
_AT_SYMLINK_NOFOLLOW, _AT_REMOVEDIR, _AT_SYMLINK_FOLLOW, _AT_EMPTY_PATH = 0x100, 0x200, 0x400, 0x1000
_NO_REPLACE, _EXCHANGE = 1, 2  # of renameat2(2)
_NO_FOLLOW, _EMPTY_PATH = -2, -3
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_TEMPORARY = 0o20000000  # O_TMPFILE without O_DIRECTORY
_MESSAGE_HEADER = struct.Struct("=QI")  # the beginning of struct msghdr: the address and its length
_MESSAGE_BYTES = 64  # struct mmsghdr


def attempts_of(call: Call, operation: str, kind: str, places: list[list[int]]) -> list[Attempt]:
    """What the call is about to do, path by path.

    Args:
        operation: the word for reports.
        kind: what must be there (`observed_paths`), or the name of a call that must be read in its own way.
        places: where its paths are, as `confine.observing` says.
    """
    if kind == "open":
        return _opening(call, *places[0])
    if kind in ("rename", "renameat2"):
        flags = call.arguments[4] if kind == "renameat2" else 0
        target = "present" if flags & _EXCHANGE else "absent" if flags & _NO_REPLACE else "either"
        return [_attempt(call, operation, needs, place) for needs, place in zip(("present", target), places, strict=True)]
    if kind in ("link", "linkat"):
        flags = call.arguments[4] if kind == "linkat" else 0
        source = _attempt(call, operation, "file", [*places[0][:2], _link_flags(flags)])
        return [source._replace(told=False), _attempt(call, operation, "absent file", places[1])]
    if kind == "unlinkat" and call.arguments[2] & _AT_REMOVEDIR:
        return [_attempt(call, "rmdir", "empty", places[0])]
    return [_attempt(call, operation, "file" if kind == "unlinkat" else kind, places[0])]


def _link_flags(flags: int) -> int:
    if flags & _AT_EMPTY_PATH:
        return _EMPTY_PATH
    return -1 if flags & _AT_SYMLINK_FOLLOW else _NO_FOLLOW


def _attempt(call: Call, operation: str, needs: str, place: list[int]) -> Attempt:
    path, follows = path_of(call, place)
    return Attempt(operation, path, needs, follows)


def _opening(call: Call, directory: int, pointer: int, flags_at: int) -> list[Attempt]:
    """An open: `flags_at` is the argument with its flags, -1 for creat(2)."""
    flags = call.arguments[flags_at] if flags_at >= 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    if flags & O_PATH:
        return []  # nothing is opened
    exclusive = flags & os.O_CREAT and flags & os.O_EXCL
    follows = not exclusive and not flags & os.O_NOFOLLOW
    path, _ = path_of(call, [directory, pointer, -1])
    if flags & os.O_DIRECTORY and flags & _TEMPORARY:
        return [Attempt("create", path, "directory", follows=True)]
    if not flags & (_CHANGES | os.O_CREAT):
        needs = "directory" if flags & os.O_DIRECTORY else "present"
        return [Attempt("open for reading", path, needs, follows, reads=True)]
    if flags & os.O_DIRECTORY:
        return []  # no directory is opened so
    if exclusive or not flags & _CHANGES:
        return [Attempt("create", path, "absent file", follows)]
    return [Attempt("open for writing", path, "creatable" if flags & os.O_CREAT else "file", follows)]


def path_of(call: Call, place: list[int]) -> tuple[str, bool]:
    """The path at `place`, absolute, and whether a link at its end is followed.

    Without a pointer, and where the call allows an empty path or none, it is the link in /proc to what the descriptor holds: that
    may have no name any more.
    """
    directory, pointer, links = place
    flags = call.arguments[links] if links >= 0 else _AT_EMPTY_PATH if links == _EMPTY_PATH else 0
    descriptor = _descriptor(call, directory)
    text = _text(call, call.arguments[pointer]) if pointer >= 0 and call.arguments[pointer] else ""
    if text:
        follows = links not in (_NO_FOLLOW, _EMPTY_PATH) and not flags & _AT_SYMLINK_NOFOLLOW
        return absolute(call.pid, descriptor, text), follows
    if pointer >= 0 and (descriptor == AT_FDCWD if not call.arguments[pointer] else not flags & _AT_EMPTY_PATH):
        raise ValueError("no path and no descriptor instead")
    return f"/proc/{call.pid}/{'cwd' if descriptor == AT_FDCWD else f'fd/{descriptor}'}", True


def _descriptor(call: Call, directory: int) -> int:
    return AT_FDCWD if directory < 0 else as_int(call.arguments[directory])


def _text(call: Call, address: int) -> str:
    return os.fsdecode(memory_of(call.pid, address, _MAX_PATH_BYTES).split(b"\0", 1)[0])


def absolute(pid: int, descriptor: int, path: str) -> str:
    """The path of `pid`, relative to its directory `descriptor` when it does not begin at the root."""
    return path if path.startswith("/") else os.path.join(_base(pid, descriptor), path)


def _base(pid: int, descriptor: int) -> str:
    base = os.readlink(f"/proc/{pid}/cwd" if descriptor == AT_FDCWD else f"/proc/{pid}/fd/{descriptor}")
    if not base.startswith("/"):
        raise ValueError("a descriptor without a path: a pipe, a socket, memory")
    return base


def addresses_of(call: Call, kind: str, places: list[int]) -> Iterable[Address]:
    """The socket addresses of the call, each once. `places` are the arguments of one and its length, of a message, or of several
    messages and their number, as `kind` says: "address", "message" or "messages"."""
    if kind == "address":
        pointer, length = places
        headers = [(call.arguments[pointer], call.arguments[length])]
    else:
        count = 1 if kind == "message" else min(call.arguments[places[1]] & 0xFFFFFFFF, _MAX_MESSAGES)
        headers = _headers(call, call.arguments[places[0]], count)
    found = {
        observed_addresses.parse(memory_of(call.pid, pointer, min(length & 0xFFFFFFFF, _MAX_ADDRESS_BYTES))): None
        for pointer, length in headers
        if pointer
    }
    return [address for address in found if address is not None]


def _headers(call: Call, pointer: int, count: int) -> list[tuple[Any, ...]]:
    """Of each message where its address is, and how long."""
    raw = memory_of(call.pid, pointer, count * _MESSAGE_BYTES)
    return [
        _MESSAGE_HEADER.unpack_from(raw, start)
        for start in range(0, count * _MESSAGE_BYTES, _MESSAGE_BYTES)
        if start + _MESSAGE_HEADER.size <= len(raw)
    ]


def as_int(argument: int) -> int:
    """A register as the int that the kernel takes it for."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low & 0x80000000 else low
