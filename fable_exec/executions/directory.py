"""The directory of one execution: made, opened as a state, and the small files beside the state in it."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from fable_exec import _sys
from fable_exec.errors import Conflict
from fable_exec.executions.names import RUN_LOCK_NAME, canonical_id, execution_directory
from fable_exec.privatefiles import directory_fault_of
from fable_exec.statefile import Form, StateFile

__all__ = ["SCHEMA_VERSION", "ExecutionDirectory", "make_root"]

SCHEMA_VERSION = 1
_MODE = 0o700


@attrs.frozen
class ExecutionDirectory:
    """One execution by its place.

    Args:
        path: absolute. Its last part is the canonical id.

    Attributes:
        state: its state file.
    """

    path: Path
    state: StateFile = attrs.field(init=False, eq=False, repr=False)

    @classmethod
    def of(cls, root: Path, execution_id: str) -> ExecutionDirectory:
        """The directory of that id below `root`; it need not exist. Raises InvalidRequest for what is no UUID."""
        return cls(execution_directory(root.absolute(), canonical_id(execution_id)))

    @property
    def execution_id(self) -> str:
        return self.path.name

    @state.default
    def _state(self) -> StateFile:
        return StateFile(self.path, Form(SCHEMA_VERSION, {"execution_id": self.execution_id}))

    @property
    def run_lock(self) -> Path:
        """The lock that the keeper holds for life; its last change is the keeper's last sign of life."""
        return self.path / RUN_LOCK_NAME

    def make(self) -> None:
        """Make it, private to this user, unless it is there; its root too. Afterwards its name is on the disk.

        Raises:
            Conflict: something is there that another user could have put there.
            OSError: the kernel's answer.
        """
        make_root(self.path.parent)
        _make_private(self.path)
        _sync(self.path.parent)  # also where it was there: whoever made it may not have come to that yet


def make_root(root: Path) -> None:
    """Make the directory of all executions, and those above it, unless they are there. Raises as `ExecutionDirectory.make`."""
    if root.is_dir():
        _require_private(root)
        return
    _make_above(root.parent)
    _make_private(root)
    _sync(root.parent)


def _make_above(path: Path) -> None:
    if path.is_dir():
        return
    _make_above(path.parent)
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        pass  # somebody else has just made it
    _sync(path.parent)


def _make_private(path: Path) -> None:
    try:
        os.mkdir(path, _MODE)
        os.chmod(path, _MODE)  # the umask may have taken even our own rights
    except FileExistsError:
        pass
    _require_private(path)


def _require_private(path: Path) -> None:
    fault = directory_fault_of(os.lstat(path))
    if fault is not None:
        raise Conflict(f"{ascii(str(path))[:400]} cannot hold executions: {fault.value}", reason="not-private")


def _sync(directory: Path) -> None:
    """Bring the names in it to the disk."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sys.sync_directory(fd)
    finally:
        os.close(fd)
