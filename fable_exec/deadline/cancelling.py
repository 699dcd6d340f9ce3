"""A file by which somebody outside stops a command: who may not signal its process can perhaps write beside it.

The file must be one that only this user can have prepared, and name the very process that looks at it: a file that is left over
from another run stops nobody. What is wrong with a file is said once for each change of it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable

from fable_exec._launcher import kernel_inotify as inotify
from fable_exec.errors import InvalidRequest, StateUnreadable
from fable_exec.privatefiles import OPENING
from fable_exec.procident import Comparison, ProcessIdentity, compare, identify
from fable_exec.statefile.documents import BadDocument, parse_object
from fable_exec.statefile.opening import MODE, close, open_private, read_from_start, write_at

__all__ = ["MAX_CANCEL_BYTES", "CancelFile", "write_cancel_file"]

MAX_CANCEL_BYTES = 1024
_TYPE = "cancel"
_MOST_SAID = 8
_LOOK_SECONDS = 1.0
"""How often to look also where nothing is told: file systems of other machines, kernels without inotify."""


class CancelFile:
    """A look-out for one file, by this process for itself.

    Args:
        path: where it may appear, or be. Its directory is opened now and held.
        refused: called with what is wrong with a file there, in words, for a bounded number of times.

    Raises:
        InvalidRequest: `path` names no file in a directory.
        OSError: the directory cannot be opened.
    """

    period_seconds = _LOOK_SECONDS

    def __init__(self, path: str, refused: Callable[[str], object]) -> None:
        directory, self._name = _parts(path)
        self._refused, self._said = refused, 0
        self._seen: tuple[int, ...] = ()
        self._found = False
        self._own = identify(os.getpid())
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.descriptor = _watched(self._directory)

    def asked(self) -> bool:
        """Whether the file is there, and means us."""
        if self.descriptor >= 0:
            for _ in inotify.read_events(self.descriptor):
                continue
        self._found = self._found or self._look()
        return self._found

    def _look(self) -> bool:
        try:
            now = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except OSError as error:
            return self._refuse((error.errno or 0,), error.strerror or "") if not isinstance(error, FileNotFoundError) else False
        seen = (now.st_dev, now.st_ino, now.st_ctime_ns, now.st_size)
        if seen == self._seen:
            return False
        try:
            _require_cancelled(self._read(), self._own)
        except (BadDocument, StateUnreadable, OSError) as error:
            return self._refuse(seen, error.strerror or "" if isinstance(error, OSError) else str(error))
        return True

    def _refuse(self, seen: tuple[int, ...], reason: str) -> bool:
        if seen != self._seen and self._said < _MOST_SAID:
            self._said += 1
            self._refused(reason)
        self._seen = seen
        return False

    def _read(self) -> bytes:
        fd = open_private(self._name, os.O_RDONLY, self._directory)
        try:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            if mode != MODE:
                raise StateUnreadable(f"its mode is {mode:04o} and must be {MODE:04o}")
            return read_from_start(fd, MAX_CANCEL_BYTES + 1)
        finally:
            close(fd)


def _parts(path: str) -> tuple[str, str]:
    directory, name = os.path.split(path)
    if name in ("", ".", ".."):
        raise InvalidRequest("a cancel file needs a name in a directory")
    return directory or ".", name


def _watched(directory: int) -> int:
    """An inotify instance, or -1: then the slow look alone finds the file."""
    instance = -1
    try:
        instance = inotify.open_instance()
        inotify.add_watch(instance, directory, inotify.IN_CLOSE_WRITE | inotify.IN_MOVED_TO | inotify.IN_ATTRIB)
    except OSError:
        if instance >= 0:
            close(instance)
        return -1
    return instance


def _require_cancelled(raw: bytes, own: ProcessIdentity) -> None:
    """Raises BadDocument or StateUnreadable unless `raw` asks `own` to stop."""
    if len(raw) > MAX_CANCEL_BYTES:
        raise StateUnreadable(f"it is longer than {MAX_CANCEL_BYTES} bytes")
    document = parse_object(raw)
    process = document.get("process")
    if document.keys() != {"type", "process"} or document["type"] != _TYPE or not isinstance(process, dict):
        raise StateUnreadable('it must have "type", which is "cancel", and "process", and nothing else')
    if process.keys() != own.to_members().keys():
        raise StateUnreadable(f'"process" must have {", ".join(own.to_members())}, and nothing else')
    comparison = compare(ProcessIdentity.from_members(process), own)
    if comparison is not Comparison.SAME:
        raise StateUnreadable(f"it names {_NAMES[comparison]}")


_NAMES = {Comparison.OTHER: "another process", Comparison.UNKNOWN: "a process that cannot be proved to be this one"}


def write_cancel_file(path: str | os.PathLike[str], process: ProcessIdentity) -> None:
    """Ask the deadline process `process` to stop its command: put a file at `path`, whole at once, in place of any that is there.

    Args:
        path: what was given to it as --cancel-file.
        process: `procident.identify(pid)` of the `fable-exec deadline` process.

    Raises:
        InvalidRequest: `path` names no file in a directory.
        OSError: it could not be written.
    """
    directory, name = _parts(os.fspath(path))
    data = json.dumps({"type": _TYPE, "process": process.to_members()}).encode("ascii") + b"\n"
    # Not as a state is replaced: without a lock nobody may sweep, and the process that is meant outlives no power cut.
    temporary = os.path.join(directory, f".cancel-{os.urandom(8).hex()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPENING, MODE)
    try:
        try:
            os.fchmod(fd, MODE)
            write_at(fd, data)
        finally:
            close(fd)
        os.rename(temporary, os.path.join(directory, name))
    except BaseException:
        os.unlink(temporary)
        raise
