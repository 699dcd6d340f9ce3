"""Start one command: reopen what the host checked, compare, enter the directory, execute.

Directories and executables are reopened by name in the launcher's own mount namespace and compared with the device and inode that
the host saw: a descriptor from the host would bypass every mount made here. It decides nothing about what may run.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from functools import partial

from .descriptor_limit import inherited_descriptor_limit
from .kernel_confine import launcher_key
from .kernel_fs import RESOLVE_STRICT, openat2
from .linuxos import O_PATH
from .resource_limits import Limit, fork_limited
from .typed import Any, NamedTuple

_SCRIPT_DESCRIPTOR = 3
_EVERY_SIGNAL = signal.valid_signals()
"""Set to its default without a look; of those that are not named posix_spawn(3) asks the kernel one by one."""


class SpawnFailed(Exception):
    """The command was not started; `stage` names the step, `number` is the kernel's errno, `what` the thing it was about."""

    def __init__(self, stage: str, number: int, what: str) -> None:
        super().__init__(stage, number, what)
        self.stage, self.number, self.what = stage, number, what


class Workspace(NamedTuple):
    """The directory all commands run beneath, as the host pinned it."""

    path: str
    device: int
    inode: int


class Streams(NamedTuple):
    """Descriptors of the command's standard streams; they stay the caller's."""

    stdin: int
    stdout: int
    stderr: int


def spawn(
    request: dict[str, Any],
    workspace: Workspace,
    environment: dict[str, str],
    streams: Streams,
    limits: Sequence[Limit] = (),
) -> int:
    """Start the requested command in its own session, under `limits` besides our own, and return its process id.

    Raises SpawnFailed. Afterwards the current directory of this process is the command's.
    """
    for number in streams:
        _refuse_directory(number)
    executable = prepare(request, workspace)
    try:
        return _execute(request, executable, {**environment, **request["environment"]}, streams, limits)
    finally:
        os.close(executable)


def prepare(request: Mapping[str, Any], workspace: Workspace) -> int:
    """Enter the requested directory and open the executable, each as the host saw it; the descriptor is the caller's.

    Raises SpawnFailed.
    """
    _enter_directory(workspace, request["cwd"])
    return _reopen_executable(request["executable"])


def _refuse_directory(descriptor: int) -> None:
    # A directory as a standard stream would be a way around every mount.
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise SpawnFailed("stdio", errno.EISDIR, f"descriptor {descriptor}")


def _enter_directory(workspace: Workspace, below: str) -> None:
    root = _open("workspace", workspace.path, O_PATH | os.O_DIRECTORY)
    try:
        _compare("workspace", root, workspace.device, workspace.inode, workspace.path)
        os.fchdir(root)
        if below != ".":
            _enter_below(root, below)
    except OSError as error:
        raise SpawnFailed("cwd", error.errno or 0, below) from error
    finally:
        os.close(root)


def _enter_below(root: int, below: str) -> None:
    directory = _open_below(root, below)
    try:
        os.fchdir(directory)
    finally:
        os.close(directory)


def _open_below(root: int, below: str) -> int:
    try:
        return openat2(root, below, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, resolve=RESOLVE_STRICT, key=launcher_key())
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return _walk_below(root, below.split("/"))


def _walk_below(root: int, names: list[str]) -> int:
    """The same without openat2: one component at a time, never through a link."""
    current = os.dup(root)
    for name in names:
        try:
            following = os.open(name, O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
        finally:
            os.close(current)
        current = following
        if not stat.S_ISDIR(os.fstat(current).st_mode):
            os.close(current)
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
    return current


def _reopen_executable(wanted: dict[str, Any]) -> int:
    descriptor = _open("executable", wanted["path"], O_PATH)
    try:
        _compare("executable", descriptor, wanted["device"], wanted["inode"], wanted["path"])
    except SpawnFailed:
        os.close(descriptor)
        raise
    return descriptor


def _open(stage: str, path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise SpawnFailed(stage, error.errno or 0, path) from error


def _compare(stage: str, descriptor: int, device: int, inode: int, path: str) -> None:
    found = os.fstat(descriptor)
    if (found.st_dev, found.st_ino) != (device, inode):
        raise SpawnFailed(stage, errno.ESTALE, path)


def _execute(
    request: dict[str, Any], executable: int, environment: dict[str, str], streams: Streams, limits: Sequence[Limit]
) -> int:
    wanted = request["executable"]
    path, copies = path_and_copies(wanted, executable, streams)
    try:
        if limits:
            return fork_limited(limits, copies, partial(os.execve, path, request["argv"], environment))
        with inherited_descriptor_limit(max(executable, *streams)):
            return _posix_spawn(path, request["argv"], environment, copies)
    except OSError as error:
        raise SpawnFailed("exec", error.errno or 0, wanted["path"]) from error
    except ValueError as error:
        raise SpawnFailed("exec", errno.EINVAL, str(error)) from error


def path_and_copies(wanted: dict[str, Any], executable: int, streams: Streams) -> tuple[str, list[tuple[int, int]]]:
    """What to give to execve(2), and the copies of descriptors (from, to) that it needs."""
    copies = [(source, target) for target, source in enumerate(streams)]
    if not wanted["by_descriptor"]:
        return wanted["path"], copies
    if not wanted["script"]:
        return f"/proc/self/fd/{executable}", copies
    # Its interpreter opens it again, so this one descriptor has to outlive the exec.
    return f"/proc/self/fd/{_SCRIPT_DESCRIPTOR}", [*copies, (executable, _SCRIPT_DESCRIPTOR)]


def _posix_spawn(path: str, argv: list[str], environment: dict[str, str], copies: list[tuple[int, int]]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, source, target) for source, target in copies]
    return os.posix_spawn(path, argv, environment, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_EVERY_SIGNAL)
