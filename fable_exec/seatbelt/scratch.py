"""What a smoke probe needs: a workspace in a root, a sibling with a secret, a listening socket, a reserved port that is free."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from fable_exec.errors import BoundaryUnproved
from fable_exec.seatbelt.boundary import HostBoundary, system_runtime_paths
from fable_exec.seatbelt.paths import enclosing

__all__ = ["Scratch", "free_reserved_port", "probe_argv", "scratch_workspace", "smoke_scratch"]

_PREFIX = ".fable-exec-probe-"
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
def scratch_workspace(boundary: HostBoundary) -> Iterator[Path]:
    """A directory in the first root that goes away again, with an empty workspace in it. It belongs to the root's owner."""
    root = boundary.workspace_roots[0]
    place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    try:
        workspace = place / "workspace"
        workspace.mkdir()
        _give(root, place, workspace)
        yield workspace
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def smoke_scratch(boundary: HostBoundary) -> Iterator[Scratch]:
    """All that a smoke probe needs. Raises BoundaryUnproved when no reserved port is free; nothing is made then."""
    port = free_reserved_port(boundary)
    with ExitStack() as stack:
        workspace = stack.enter_context(scratch_workspace(boundary))
        sibling, spec = workspace.parent / "sibling", workspace.parent / "spec.md"
        sibling.mkdir()
        secret = sibling / "secret"
        secret.write_text("secret\n")
        spec.write_text("probe\n")
        _give(boundary.workspace_roots[0], sibling, secret, spec)
        parent = stack.enter_context(tempfile.TemporaryDirectory(prefix="fable-exec-probe-", dir=_socket_parent()))
        os.chmod(parent, 0o755)
        socket_path = Path(parent, "socket")
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(socket_path))
        socket_path.chmod(0o777)
        listener.listen()
        yield Scratch(workspace=workspace, spec=spec, secret=secret, socket_path=socket_path, port=port)


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


def _give(root: Path, *paths: Path) -> None:
    """Make `paths` those of the root's owner, and readable for everybody: the boundary is to refuse, not their modes."""
    owner = root.stat()
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)
        if os.geteuid() == 0:
            os.chown(path, owner.st_uid, owner.st_gid)
