"""The copy of a proof that is judged and kept: written once outside the workspace, and given out only while it is what it was."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from collections.abc import Iterator

from fable_exec import _sys
from fable_exec.errors import StateUnreadable
from fable_exec.privatefiles import NotPrivate, directory_fault_of, open_private
from fable_exec.strictjson import MAX_DOCUMENT_BYTES

__all__ = ["SNAPSHOT_NAME", "keep_snapshot", "read_proof"]

SNAPSHOT_NAME = "proof.json"
"""What the copy that was judged is called, whatever a run calls its own."""
_UNFINISHED = ".proof.json.unfinished"
_MODE = 0o400
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def keep_snapshot(data: bytes, directory: str | os.PathLike[str]) -> bytes:
    """Write `data` to the file `proof.json` in `directory`, mode 0400, durably, in place of an older one.

    Only one at a time may do this in one directory: whoever holds the execution.

    Returns:
        what the file holds, read back: the bytes to judge.

    Raises:
        OSError: there is none, or not durably; an older one stays.
        StateUnreadable: `not-private`: others may write to the directory.
    """
    dir_fd = os.open(directory, _DIRECTORY)
    try:
        fault = directory_fault_of(os.fstat(dir_fd))
        if fault is not None:
            raise _unreadable(f"cannot hold a proof: {fault.value}", "not-private", os.fspath(directory))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_UNFINISHED, dir_fd=dir_fd)  # of one that died
        fd = os.open(_UNFINISHED, _NEW, _MODE, dir_fd=dir_fd)
        try:
            with _removed_on_failure(dir_fd), os.fdopen(fd, "w+b") as file:
                file.write(data)
                file.flush()
                os.fchmod(fd, _MODE)
                _sys.sync_file(fd)
                file.seek(0)
                kept = file.read()
                os.rename(_UNFINISHED, SNAPSHOT_NAME, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        finally:
            _sys.sync_directory(dir_fd)
        return kept
    finally:
        os.close(dir_fd)


@contextlib.contextmanager
def _removed_on_failure(dir_fd: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(_UNFINISHED, dir_fd=dir_fd)
        raise


def read_proof(path: str | os.PathLike[str], document_sha256: str) -> bytes:
    """The bytes of a snapshot, if they still are those that were judged.

    Args:
        path: `ProofBinding.proof_path`, or where the snapshot was moved to.
        document_sha256: `ProofBinding.document_sha256`, as it was recorded.

    Raises:
        StateUnreadable: it is another file (`foreign`), or others could have made it (`not-private`).
        OSError: it cannot be read.
    """
    try:
        fd = open_private(path, os.O_RDONLY)
    except NotPrivate as error:
        raise _unreadable(f"is no proof that was kept: {error.strerror}", "not-private", os.fspath(path)) from None
    with os.fdopen(fd, "rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if not hmac.compare_digest(hashlib.sha256(data).hexdigest().encode(), document_sha256.encode("utf-8", "surrogatepass")):
        raise _unreadable("is not the proof that was judged: its SHA-256 is another", "foreign", os.fspath(path))
    return data


def _unreadable(what: str, reason: str, path: str) -> StateUnreadable:
    return StateUnreadable(f"{path!a:.400} {what}", reason=reason, path=path)
