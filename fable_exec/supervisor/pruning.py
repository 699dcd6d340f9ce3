"""Remove executions that have ended: the whole directory of each, while nobody can start, keep or change it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from fable_exec._launcher.removal import remove_entry
from fable_exec.errors import StateUnreadable
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.holding import give_back, take
from fable_exec.executions.names import RUN_LOCK_NAME, RUNTIME_NAME, SPEC_NAME, ids_in, workspace_locks_in
from fable_exec.lifecycle import State
from fable_exec.statefile import LOCK_NAME, RECORD_NAME, STATE_NAME
from fable_exec.supervisor.execution import Execution, looked_at, state_in
from fable_exec.supervisor.mounts import mounted_below

__all__ = ["prune"]

_LAST = (RECORD_NAME, STATE_NAME, RUN_LOCK_NAME, LOCK_NAME)
"""What goes last, in this order: until the state is gone the execution has ended, and then there is none."""
_START_SECONDS = 60.0
"""A directory without a state may be that of a start that is under way."""
_LOCKS = {RUN_LOCK_NAME, LOCK_NAME}
_OF_A_START = {*_LOCKS, RECORD_NAME, RUNTIME_NAME, SPEC_NAME}
"""What is there before a state is."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC if os.name != "nt" else os.O_RDONLY


def prune(root: Path, *, older_than_seconds: float, keep: int, ids: Iterable[str] | None = None) -> list[str]:
    """Remove what has ended so long ago, but the `keep` newest; the ids, sorted. See `Supervisor.prune`."""
    chosen = None if ids is None else set(ids)
    ended = [(moment, each) for each in ids_in(root) if (moment := _ended_at(ExecutionDirectory.of(root, each))) is not None]
    before = time.time() - older_than_seconds
    old = [each for moment, each in sorted(ended, reverse=True)[keep:] if moment <= before]
    removed = [each for each in old if (chosen is None or each in chosen) and _remove(ExecutionDirectory.of(root, each))]
    _remove_what_was_never_accepted(root, min(before, time.time() - _START_SECONDS))
    _remove_workspace_locks(root)
    return sorted(removed)


def _ended_at(directory: ExecutionDirectory) -> float | None:
    """When it ended, in seconds since the epoch; None while it has not, and where that cannot be believed."""
    execution = _readable(directory)
    if execution is None or not execution.is_over:
        return None
    try:
        return datetime.fromisoformat(execution.document["finished_at"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


def _readable(directory: ExecutionDirectory) -> Execution | None:
    try:
        return looked_at(directory)
    except (StateUnreadable, PermissionError):
        return None


def _remove(directory: ExecutionDirectory) -> bool:
    """Whether it is gone. A start of the same id waits for the lock, and then finds no execution."""
    if mounted_below(directory.path):
        return False
    try:
        lock = take(directory.run_lock)
    except OSError:
        return False
    if lock is None:
        return False
    try:
        return _remove_held(directory)
    except (StateUnreadable, OSError):
        return False  # what is left of it is still an execution that has ended
    finally:
        give_back(lock)


def _remove_held(directory: ExecutionDirectory) -> bool:
    place = os.open(directory.path, _DIRECTORY)
    try:
        if not _has_ended(directory):
            return False
        for name in os.listdir(place):
            if name not in _LAST:
                remove_entry(place, name)
        with directory.state.locked():
            if not _has_ended(directory) or not set(os.listdir(place)) <= set(_LAST):
                return False  # something in it cannot be removed
            _unlink(place, _LAST)
            os.rmdir(directory.path)
    finally:
        os.close(place)
    return True


def _has_ended(directory: ExecutionDirectory) -> bool:
    reading = directory.state.read()
    return reading is not None and state_in(reading.document, directory) is State.EXITED


def _remove_what_was_never_accepted(root: Path, before: float) -> None:
    """Directories of starts that were refused, or failed before anything was accepted: no state is in them."""
    for directory in (ExecutionDirectory.of(root, each) for each in ids_in(root)):
        try:
            if os.lstat(directory.path).st_mtime <= before and set(os.listdir(directory.path)) <= _OF_A_START:
                _remove_start(directory)
        except (StateUnreadable, OSError):
            continue  # somebody is at it


def _remove_start(directory: ExecutionDirectory) -> None:
    with directory.state.locked(timeout_seconds=0):
        lock = take(directory.run_lock)
        if lock is None:
            return
        place = os.open(directory.path, _DIRECTORY)
        try:
            names = set(os.listdir(place))
            if names <= _OF_A_START and directory.state.read() is None:  # nor does the record tell of an end
                for name in names - _LOCKS:
                    remove_entry(place, name)
                _unlink(place, (RUN_LOCK_NAME, LOCK_NAME))
                os.rmdir(directory.path)
        finally:
            os.close(place)
            give_back(lock)


def _unlink(place: int, names: Iterable[str]) -> None:
    for name in names:
        try:
            os.unlink(name, dir_fd=place)
        except FileNotFoundError:
            pass


def _remove_workspace_locks(root: Path) -> None:
    """Those that nobody holds. Whoever opened one before it was removed finds that out when it has the lock: `holding.take`."""
    for path in workspace_locks_in(root):
        try:
            lock = take(path)
        except OSError:
            continue
        if lock is None:
            continue
        try:
            if not _is_waited_for(root, path):
                os.unlink(path)
        except FileNotFoundError:
            pass
        finally:
            give_back(lock)


def _is_waited_for(root: Path, path: Path) -> bool:
    """Whether its last holder has not ended: then its file still tells who was there."""
    try:
        execution = _readable(ExecutionDirectory.of(root, path.read_text("ascii", "replace")))
    except ValueError:
        return False
    return execution is not None and not execution.is_over
