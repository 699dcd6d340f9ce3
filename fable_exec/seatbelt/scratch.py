"""What a smoke probe needs: a workspace in a root, a sibling with a secret, a listening socket, a reserved port that is free."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from fable_exec._launcher.removal import remove_tree
from fable_exec.errors import BoundaryUnproved
from fable_exec.seatbelt.boundary import HostBoundary, system_runtime_paths
from fable_exec.seatbelt.paths import enclosing

__all__ = ["Scratch", "free_reserved_port", "probe_argv", "scratch_workspace", "smoke_scratch", "temporary_directory"]

_PREFIX = ".fable-exec-probe-"
_WORKSPACE, _SIBLING = "workspace", "sibling"
_SYSTEM_FILE = "/usr/bin/env"
_LONGEST_SOCKET_PARENT = 60
"""sun_path holds 103 bytes on macOS (unix(4)): what is left is for names of ours."""


@attrs.frozen(kw_only=True)
class Scratch:
    """The places of one probe."""

    workspace: Path
    spec: Path
    secret: Path
    socket_path: Path
    port: int


@contextmanager
def scratch_workspace(boundary: HostBoundary, beside: Path | None = None) -> Iterator[Path]:
    """An empty workspace in a directory of the first root that goes away again. It belongs to the root's owner.

    Args:
        beside: a workspace of the boundary; then it is made in that one's root, and belongs to that one's owner.

    Raises:
        OSError: it could not be made there.
    """
    root = boundary.workspace_roots[0] if beside is None else boundary.root_of(beside)
    with _made(root, beside or root, (_WORKSPACE,), {}) as place:
        yield place / _WORKSPACE


@contextmanager
def smoke_scratch(boundary: HostBoundary) -> Iterator[Scratch]:
    """All that a smoke probe needs. Raises BoundaryUnproved when no reserved port is free; nothing is made then."""
    port = free_reserved_port(boundary)
    with ExitStack() as stack:
        files = {f"{_SIBLING}/secret": b"secret\n", "spec.md": b"probe\n"}
        root = boundary.workspace_roots[0]
        place = stack.enter_context(_made(root, root, (_WORKSPACE, _SIBLING), files))
        parent = stack.enter_context(tempfile.TemporaryDirectory(prefix="fable-exec-probe-", dir=_socket_parent()))
        socket_path = Path(parent, "socket")
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(socket_path))
        socket_path.chmod(0o777)  # the boundary is to refuse, not a mode
        os.chmod(parent, 0o755)
        listener.listen()
        yield Scratch(
            workspace=place / _WORKSPACE,
            spec=place / "spec.md",
            secret=place / _SIBLING / "secret",
            socket_path=socket_path,
            port=port,
        )


@contextmanager
def _made(root: Path, owned_like: Path, directories: Sequence[str], files: Mapping[str, bytes]) -> Iterator[Path]:
    """A directory in `root` with these in it, readable for everybody and of the other path's owner; removed afterwards.

    Nobody but us may enter until all of it is made and given away: with a root that belongs to somebody else, who can put
    a link in the place of each name, root would write and give away what that leads to.
    """
    with temporary_directory(_PREFIX, root) as place:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _require_ours(handle)
            _fill(handle, directories, files)
            owner = os.stat(owned_like)
            _give(handle, (*files, *directories), (owner.st_uid, owner.st_gid))
        finally:
            os.close(handle)
        yield place


@contextmanager
def temporary_directory(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A new directory for programs to fill, removed afterwards with what they took their own rights to away, and through no link.

    `tempfile` follows links there when it gives rights back, before Python 3.11.8 and 3.12.1 (CVE-2023-6597).
    """
    place = tempfile.mkdtemp(prefix=prefix, dir=parent)
    try:
        yield Path(place)
    finally:
        remove_tree(place)


def _require_ours(handle: int) -> None:
    """Refuse a directory that somebody put in the place of the one that was just made."""
    found = os.fstat(handle)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077 or os.listdir(handle):
        raise PermissionError(errno.EPERM, "the directory was replaced while it was made")


def _fill(handle: int, directories: Sequence[str], files: Mapping[str, bytes]) -> None:
    for name in directories:
        os.mkdir(name, 0o700, dir_fd=handle)
    for name, content in files.items():
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=handle)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)


def _give(handle: int, names: Sequence[str], owner: tuple[int, int]) -> None:
    """What lies in it first, itself last."""
    for name in names:
        is_directory = stat.S_ISDIR(os.stat(name, dir_fd=handle).st_mode)
        os.chmod(name, 0o755 if is_directory else 0o644, dir_fd=handle)
        if os.geteuid() == 0:
            os.chown(name, *owner, dir_fd=handle, follow_symlinks=False)
    os.fchmod(handle, 0o755)
    if os.geteuid() == 0:
        os.fchown(handle, *owner)


def free_reserved_port(boundary: HostBoundary) -> int:
    """The first reserved port that nobody holds. Raises BoundaryUnproved when there is none."""
    for port in boundary.reserved_ports:
        with socket.socket(socket.AF_INET) as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise BoundaryUnproved("a probe needs a reserved port that is free, and there is none among reserved_ports")


def probe_argv(boundary: HostBoundary, scratch: Scratch) -> tuple[str, ...]:
    """The smoke program by an interpreter that the boundary lets be read. Raises BoundaryUnproved when there is none."""
    program = Path(__file__).with_name("smoke.py").read_text(encoding="utf-8")
    places = (scratch.workspace, _SYSTEM_FILE, scratch.secret, scratch.socket_path, scratch.port)
    return (_interpreter(boundary), "-I", "-S", "-B", "-c", program, *map(str, places))


def _interpreter(boundary: HostBoundary) -> str:
    own = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    readable = (*map(Path, system_runtime_paths()), *boundary.runtime_read_paths)
    if enclosing(own, readable) and enclosing(Path(sys.base_prefix).resolve(), readable):
        return str(own)
    found = shutil.which("python3", path=os.pathsep.join(map(str, boundary.child_path)))
    if found is None:
        raise BoundaryUnproved(
            f"a probe needs a Python that can be read there: list {sys.base_prefix} in runtime_read_paths, or have python3 "
            "in a directory of child_path"
        )
    return found


def _socket_parent() -> str:
    parent = tempfile.gettempdir()
    return parent if len(os.fsencode(parent)) <= _LONGEST_SOCKET_PARENT else "/tmp"
