"""Try to break out, in a child that is confined like a command, and report what the kernel answered.

It is a fork of the launcher without its capabilities: mounts, Landlock and the system-call filter are those of every command.
Which attempts must fail is the host's to know.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
from collections.abc import Callable

from . import kernel
from .proctree import started_at
from .typed import Any, NoReturn

_MARK = ".fable-exec-canary"
_CONNECT_SECONDS = 0.5
# Arguments are invalid on purpose: without a filter the kernel gets as far as complaining about them.
_SURFACE = {
    "x86_64": {"io_uring_setup": 425, "bpf": 321, "keyctl": 250, "perf_event_open": 298, "userfaultfd": 323, "add_key": 248},
    "aarch64": {"io_uring_setup": 425, "bpf": 280, "keyctl": 219, "perf_event_open": 241, "userfaultfd": 282, "add_key": 217},
}
_FILTERED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
_REFUSED = (errno.EPERM, errno.EACCES)


def fork_canary(bait: dict[str, Any], workspace: str, output: int) -> int:
    """Fork the canary with a session of its own. Returns its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
        finally:
            be_canary(bait, workspace, output)
    return pid


def be_canary(bait: dict[str, Any], workspace: str, output: int) -> NoReturn:
    """Write a JSON object {attempt: errno, 0 for success} to `output`, and exit."""
    status = 1
    try:
        kernel.drop_capabilities()
        answers = {name: _errno_of(attempt) for name, attempt in _attempts(bait, workspace).items()}
        os.write(output, json.dumps(answers).encode())
        status = 0
    finally:
        os._exit(status)


def _errno_of(attempt: Callable[[], object]) -> int:
    try:
        attempt()
    except OSError as error:
        return error.errno or errno.ETIMEDOUT
    return 0


def _attempts(bait: dict[str, Any], workspace: str) -> dict[str, Callable[[], object]]:
    directory = bait["directory"]
    return {
        "write_outside": lambda: _create(os.path.join(directory, "written")),
        "read_secret": lambda: _read(bait["secret"]),
        "change_times": lambda: os.utime(bait["secret"]),
        "write_workspace": lambda: _create(os.path.join(workspace, _MARK)),
        "connect_tcp": lambda: _connect(socket.AF_INET, ("127.0.0.1", bait["tcp_port"])),
        **_attempts_on(bait["reserved_port"]),
        "connect_socket_file": lambda: _connect(socket.AF_UNIX, bait["socket_file"]),
        "connect_abstract": lambda: _connect(socket.AF_UNIX, "\0" + bait["abstract_name"]),
        "signal_host": lambda: _signal(bait["host_pid"], bait["host_started"]),
        "read_host_environment": lambda: _read_environment(bait["host_pid"], bait["host_started"]),
        "new_user_namespace": lambda: kernel.unshare(kernel.CLONE_NEWUSER),
        **{f"call_{name}": _surface_call(name) for name in _SURFACE.get(os.uname().machine, {})},
    }


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.unlink(path)


def _read(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.read(descriptor, 1)
    finally:
        os.close(descriptor)


def _connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_CONNECT_SECONDS)
        connection.connect(address)


def _attempts_on(port: int | None) -> dict[str, Callable[[], object]]:
    """On a reserved port, if there is one. Only the kernel's no counts: that somebody has the port or nobody proves nothing."""
    if port is None:
        return {}
    address = ("127.0.0.1", port)
    return {
        "connect_reserved": lambda: _unless_not_refused(lambda: _connect(socket.AF_INET, address)),
        "bind_reserved": lambda: _unless_not_refused(lambda: _bind(address)),
    }


def _unless_not_refused(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except OSError as error:
        if error.errno in _REFUSED:
            raise


def _bind(address: tuple[str, int]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(address)


def _signal(pid: int, started: str) -> None:
    _require_host(pid, started)
    os.kill(pid, 0)


def _read_environment(pid: int, started: str) -> None:
    _require_host(pid, started)
    _read(f"/proc/{pid}/environ")


def _require_host(pid: int, started: str) -> None:
    """In a PID namespace the number may be another process's: then the host is out of reach."""
    try:
        found = started_at(pid)
    except OSError:
        return  # unreadable is no proof either way: let the attempt itself answer
    if found != started:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def _surface_call(name: str) -> Callable[[], None]:
    number = _SURFACE[os.uname().machine][name]
    library = ctypes.CDLL(None, use_errno=True)

    def call() -> None:
        arguments = (ctypes.c_long(-1),) * 5
        if library.syscall(ctypes.c_long(number), *arguments) == -1 and ctypes.get_errno() in _FILTERED:
            raise OSError(ctypes.get_errno(), name)

    return call
