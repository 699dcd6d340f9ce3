"""Commands in a private file that the admin leaves at an agreed place; it is read, done, and removed.

For hosts that can neither pass a descriptor nor connect. Who may write there is who may command, so the file must be this user's
own, with one link, for nobody else, and outside the workspace. Write it under another name and rename it into place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from fable_exec.admin.control import MAX_LINE_BYTES, AdminControl, complain, no_channel
from fable_exec.privatefiles import OPENING, fault_of

__all__ = ["LOOK_SECONDS", "CommandFileChannel"]

LOOK_SECONDS = 0.02
_UNFINISHED_SECONDS = 0.025
"""How long a file that is empty, or ends within a line, may still be the work of a writer that is not done."""

_Identity = tuple[int, int, int, int, int]


class CommandFileChannel:
    """Looks for the file every LOOK_SECONDS. Raises PolicyError when the place is none that can be trusted."""

    def __init__(self, path: Path, control: AdminControl, workspace: Path) -> None:
        try:
            directory = path.absolute().parent.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise no_channel(f"the directory of the admin's file does not exist; make it first: {str(path)!a:.200}") from error
        if directory.is_relative_to(workspace):
            raise no_channel("the admin's file must be outside the workspace")
        self._path = str(directory / path.name)
        self._control = control
        self._look_at = time.monotonic()
        self._left_alone: _Identity | None = None

    def watched(self) -> Iterable[int]:
        return ()

    def ready(self, descriptor: int) -> None:
        """Nothing is watched."""

    def due_at(self) -> float | None:
        return self._look_at

    def tick(self) -> None:
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_SECONDS
        try:
            descriptor = os.open(self._path, os.O_RDONLY | OPENING)
        except FileNotFoundError:
            self._left_alone = None
            return
        except OSError as error:
            self._leave_alone(self._identity_of_name(), f"the admin's file cannot be opened: {error.strerror}")
            return
        try:
            self._take(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Nothing is held."""

    def _take(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        identity = _identity(status)
        if identity == self._left_alone:
            return
        fault = _fault_of(status)
        if fault:
            self._leave_alone(identity, f"the admin's file is not used: {fault}")
            return
        content = os.read(descriptor, MAX_LINE_BYTES)
        if self._may_be_unfinished(content, status):
            return
        for line in content.splitlines():
            if line.strip():
                answer = self._control.answer(line)
                if not answer["ok"]:
                    complain(answer["error"])
        self._remove(identity)

    def _may_be_unfinished(self, content: bytes, status: os.stat_result) -> bool:
        last = content.rpartition(b"\n")[2].strip()
        whole = content.endswith(b"\n") or (bool(last) and self._control.is_whole(last))
        return not whole and time.time() - status.st_mtime < _UNFINISHED_SECONDS

    def _remove(self, identity: _Identity) -> None:
        try:
            if self._identity_of_name() == identity:
                os.unlink(self._path)
        except OSError as error:
            self._leave_alone(identity, f"the admin's file was read and cannot be removed: {error.strerror}")

    def _leave_alone(self, identity: _Identity | None, why: str) -> None:
        """Say so once, not with every look; and never do twice what was read once."""
        if identity != self._left_alone:
            complain(why)
        self._left_alone = identity

    def _identity_of_name(self) -> _Identity | None:
        try:
            return _identity(os.stat(self._path, follow_symlinks=False))
        except OSError:
            return None


def _identity(status: os.stat_result) -> _Identity:
    # With the time of the last change: a file that was refused for its mode is looked at again after a chmod.
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, status.st_ctime_ns


def _fault_of(status: os.stat_result) -> str:
    fault = fault_of(status)
    if fault is not None:
        return fault.value
    if status.st_mode & 0o177:
        return "its mode must be 0600"
    if status.st_size > MAX_LINE_BYTES:
        return f"it is longer than {MAX_LINE_BYTES} bytes"
    return ""
