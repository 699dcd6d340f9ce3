"""Whole new content under a name in one step: temporary file, fsync, rename, fsync of the directory.

At every instant the name has its whole old or its whole new content. What a crash leaves behind is at most one temporary file
with a recognised name, which `remove_leftover` takes away. A temporary file is locked while its writer lives, so that cleaning
up never takes a living writer's file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat as stat_bits
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import attrs

from fable_exec import _sys
from fable_exec._sys import locks
from fable_exec._sys.attributes import ACCESS_LIST, give_attributes
from fable_exec.pathguard.contents import Data, changed, open_regular, sha256_of_file, write_all
from fable_exec.pathguard.directories import Directory, give_mode, give_owner
from fable_exec.pathguard.facts import fact
from fable_exec.pathguard.moving import move_noreplace
from fable_exec.pathguard.trust import refuse_irregular
from fable_exec.pathguard.values import Written

__all__ = ["create_exclusive", "is_temporary_name", "remove_leftover", "temporary_name", "write_replace"]

NEW_FILE_MODE = 0o600
_OPEN_FILES_CAN_BE_RENAMED = os.name == "posix"
MAX_NAME_TRIES = 16
MIN_BYTES_OF_EARLY_WRITEBACK = 64 << 10

# Of fixed length: name plus suffix would be too long for the file system with names of 251 bytes and more.
_TEMPORARY_NAME = re.compile(r"\.fable-tmp-[0-9a-f]{16}\Z")


@attrs.frozen
class _Kept:
    """What a new file takes over from the one that it replaces."""

    status: os.stat_result
    attributes: Mapping[str, bytes]


def temporary_name() -> str:
    """A fresh name, 27 bytes, not to be guessed; O_EXCL holds even if it were."""
    return f".fable-tmp-{os.urandom(8).hex()}"


def is_temporary_name(name: str) -> bool:
    """Whether a name has the form that only this room gives."""
    return _TEMPORARY_NAME.match(name) is not None


def write_replace(
    directory: Directory, name: str, data: Data, text: str, *,
    expected_sha256: str | None, new_mode: int, fresh_name: Callable[[], str], turn: AbstractContextManager[object],
) -> Written:  # fmt: skip
    """Give `name` the content `data`, keeping what an old file has of permissions, without set-id bits, and of attributes.

    A link, a directory or a special file in its place is refused. Hard links are broken: other names keep the old bytes.

    Args:
        turn: entered for the last look and the rename, with whatever the content: a look that was right must not be made wrong
            before the change.
    """
    old = _look_at_target(directory, name, text)
    if expected_sha256 is not None:
        _require_digest(directory, name, text, expected_sha256)
    mode = new_mode if old is None else old.status.st_mode & 0o777

    def put(temporary: str) -> None:
        with turn:
            if expected_sha256 is not None and not _is_unchanged(directory, name, old):
                raise changed(text, expected_sha256, None)
            directory.rename(temporary, directory, name)

    digest = _write_then(directory, data, mode, old, fresh_name, text, put)
    return Written(
        sha256=digest,
        size_bytes=memoryview(data).nbytes,
        created=old is None,
        previous_sha256=expected_sha256.lower() if expected_sha256 is not None else None,
    )


def create_exclusive(
    directory: Directory, name: str, data: Data, text: str, *, new_mode: int, fresh_name: Callable[[], str]
) -> Written:
    """Create `name` with its whole content, or fail with "exists" without a trace, whatever stands there."""
    try:
        directory.look(name)
    except FileNotFoundError:
        pass
    else:
        raise fact("exists", text)

    def put(temporary: str) -> None:
        move_noreplace(directory, temporary, directory, name)

    digest = _write_then(directory, data, new_mode, None, fresh_name, text, put)
    return Written(sha256=digest, size_bytes=memoryview(data).nbytes, created=True)


def _look_at_target(directory: Directory, name: str, text: str) -> _Kept | None:
    try:
        found = _Kept(*directory.look_with_attributes(name))
    except FileNotFoundError:
        return None
    refuse_irregular(found.status, text)
    return found


def _require_digest(directory: Directory, name: str, text: str, expected_sha256: str) -> None:
    actual, _ = sha256_of_file(directory, name, text)
    if actual != expected_sha256.lower():
        raise changed(text, expected_sha256, actual)


def _is_unchanged(directory: Directory, name: str, old: _Kept | None) -> bool:
    """Whether the name still stands for the file that was looked at before it was hashed.

    Closes the gap to the rename among those who take turns. For others it only narrows it, since rename(2) takes no condition.
    """
    try:
        now = directory.look(name)
    except FileNotFoundError:
        return False
    return old is not None and _fingerprint(now) == _fingerprint(old.status)


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _write_then(
    directory: Directory, data: Data, mode: int, kept: _Kept | None,
    fresh_name: Callable[[], str], text: str, put: Callable[[str], None],
) -> str:  # fmt: skip
    """Write `data` durably under a temporary name, let `put` give it its own, and return the digest of `data`.

    No temporary file is left after an error.
    """
    temporary, fd = _create_temporary(directory, fresh_name, text)
    try:
        try:
            digest = _fill(fd, data, mode, kept, directory)
            if not _OPEN_FILES_CAN_BE_RENAMED:
                fd = _closed(fd)
            put(temporary)
        except BaseException:
            _unlink_quietly(directory, temporary)
            raise
        if not directory.sync() and fd >= 0:
            # The directory cannot be read, so not synced: a sync of the file commits the journal entry of its rename too.
            _sys.sync_file(fd)
    finally:
        _closed(fd)
    return digest


def _fill(fd: int, data: Data, mode: int, kept: _Kept | None, directory: Directory) -> str:
    """Content, owner, attributes, mode, then sync. The digest is computed while the device is already writing."""
    write_all(fd, data)
    if memoryview(data).nbytes >= MIN_BYTES_OF_EARLY_WRITEBACK:
        _sys.start_writeback(fd)
    digest = hashlib.sha256(data).hexdigest()
    if kept is not None:
        _keep_owner(fd, kept.status)
        mode = _keep_attributes(fd, kept.attributes, mode)
    else:
        give_owner(fd, directory)
    give_mode(fd, mode)
    _sys.sync_file(fd)
    return digest


def _closed(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


def _create_temporary(directory: Directory, fresh_name: Callable[[], str], text: str) -> tuple[str, int]:
    """A new empty file, mode 0600, locked by this descriptor."""
    for _ in range(MAX_NAME_TRIES):
        name = fresh_name()
        try:
            fd = directory.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, NEW_FILE_MODE)
        except FileExistsError:
            continue
        except BaseException:  # it may be there all the same, and nobody else knows its name
            _unlink_quietly(directory, name)
            raise
        try:
            # A cleaner that came between creation and lock has the lock or has unlinked it: leave it the file, take a new name.
            if locks.try_lock_if_possible(fd) and os.fstat(fd).st_nlink != 0:
                return name, fd
        except BaseException:
            os.close(fd)
            _unlink_quietly(directory, name)
            raise
        os.close(fd)
    raise fact("exists", text)


def _keep_owner(fd: int, old: os.stat_result) -> None:
    """Give the new file the old one's owner and group where this user may; without it a root broker takes files away."""
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid) or os.name != "posix":
        return
    try:
        os.fchown(fd, old.st_uid, old.st_gid)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.EINVAL):
            raise
        try:
            os.fchown(fd, -1, old.st_gid)
        except OSError:
            pass  # a user outside the old group: the file is theirs now, as with any editor that replaces


def _keep_attributes(fd: int, attributes: Mapping[str, bytes], mode: int) -> int:
    """Give the new file the old one's; the mode without the group's part where that was the mask of a list it cannot have."""
    missing = give_attributes(fd, attributes)
    return mode & ~stat_bits.S_IRWXG if ACCESS_LIST in missing else mode


def _unlink_quietly(directory: Directory, name: str) -> None:
    try:
        directory.unlink(name)
    except OSError:
        pass  # the error that brought us here matters more; the name is recognised at the next start


def remove_leftover(directory: Directory, name: str) -> bool:
    """Remove a temporary file that no living writer holds; False when one does or it is not such a file."""
    if not is_temporary_name(name):
        return False
    try:
        fd, status = open_regular(directory, name, os.O_RDONLY, name)
    except OSError:
        return False
    try:
        if not stat_bits.S_ISREG(status.st_mode) or not locks.try_lock_if_possible(fd):
            return False
        directory.unlink(name)
        return True
    except FileNotFoundError:
        return False
    finally:
        os.close(fd)
