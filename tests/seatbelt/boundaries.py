"""Boundaries on the disk for every shape that a profile can have, each with what it must mean.

The expectations are written from the layout alone, without the code that renders or decides.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from fable_exec.seatbelt import HostBoundary

Decisions = list[tuple[str, str, str]]


@attrs.frozen(kw_only=True)
class Case:
    """One boundary with its workspace and specification, and what is special about it."""

    boundary: HostBoundary
    workspace: Path
    spec: Path
    siblings: tuple[Path, ...] = ()
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    """Of read and write, those that are files."""


@contextmanager
def place() -> Iterator[Path]:
    """A directory right below /tmp, so that profiles sort alike wherever the tests run."""
    found = Path(tempfile.mkdtemp(prefix="fx-", dir="/tmp")).resolve()
    try:
        yield found
    finally:
        shutil.rmtree(found)


def case(root: Path, *, name: str = "one", read: Any = (), write: Any = (), files: Any = (), **more: Any) -> Case:
    """The common layout below `root`: projects/ws/{NAME,two}, spec.md, and directories or files by name."""
    workspace, sibling = root / "projects/ws" / name, root / "projects/ws/two"
    for directory in (workspace, sibling, root / "beside", *(root / each for each in (*read, *write) if each not in files)):
        directory.mkdir(parents=True, exist_ok=True)
    for file in ("spec.md", *files):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    settings = {
        "workspace_roots": (root / "projects/ws",),
        "protected_root": root / "projects",
        "runtime_read_paths": tuple(root / each for each in read),
        "runtime_write_paths": tuple(root / each for each in write),
        "reserved_ports": (8080,),
        **more,
    }
    return Case(
        boundary=HostBoundary(**settings),
        workspace=workspace,
        spec=root / "spec.md",
        siblings=(sibling,),
        read=tuple(root / each for each in read),
        write=tuple(root / each for each in write),
        files=tuple(root / each for each in files),
    )


def _with_engine(root: Path) -> Case:
    (root / "engine").mkdir()
    found = case(root, engine_source=root / "engine")
    return attrs.evolve(found, read=(root / "engine",))


def _two_roots(root: Path) -> Case:
    (root / "projects/more/three").mkdir(parents=True)
    found = case(root, workspace_roots=(root / "projects/more", root / "projects/ws"))
    return attrs.evolve(found, siblings=(*found.siblings, root / "projects/more/three"))


def _with_tools(root: Path) -> Case:
    (root / "tools/bin").mkdir(parents=True)
    system = tuple(dict.fromkeys(Path(each).resolve() for each in ("/usr/bin", "/bin", "/usr/sbin", "/sbin")))
    return case(root, read=("tools",), child_path=(root / "tools/bin", *system))


def _spec_inside(root: Path) -> Case:
    found = case(root)
    (found.workspace / "task.md").touch()
    return attrs.evolve(found, spec=found.workspace / "task.md")


def _by_links(root: Path) -> Case:
    real = case(root, read=("lib",))
    (root / "link").symlink_to(root / "projects")
    (root / "lib-link").symlink_to(root / "lib")
    boundary = HostBoundary(
        workspace_roots=(root / "link/ws", root / "projects/ws"),
        protected_root=root / "link",
        runtime_read_paths=(root / "lib-link", root / "lib"),
        reserved_ports=(8080,),
    )
    return attrs.evolve(real, boundary=boundary)


def _everything(root: Path) -> Case:
    (root / "engine").mkdir()
    found = case(
        root,
        read=("lib", "opt/inner", "tool"),
        write=("cache", "settings.json"),
        files=("tool", "settings.json"),
        engine_source=root / "engine",
        reserved_ports=(3000, 1, 65535, 8080),
    )
    return attrs.evolve(found, read=(*found.read, root / "engine"))


CASES: dict[str, Callable[[Path], Case]] = {
    "minimal": lambda root: case(root),
    "engine": _with_engine,
    "read-paths": lambda root: case(root, read=("lib", "share/data")),
    "write-paths": lambda root: case(root, write=("cache", "state/x")),
    "files": lambda root: case(root, read=("tool",), write=("settings.json",), files=("tool", "settings.json")),
    "ports": lambda root: case(root, reserved_ports=(65535, 8080, 1, 443)),
    "deep": lambda root: case(root, name="a/b/c/d"),
    "two-roots": _two_roots,
    "tools": _with_tools,
    "quotes": lambda root: case(root, name='o"ne\\'),
    "parentheses": lambda root: case(root, name="one) (allow default", read=("li;b #|x|#",)),
    "unicode": lambda root: case(root, name="wörk ☃ 🚀", read=("bibliothèque",)),
    "spec-inside": _spec_inside,
    "links": _by_links,
    "everything": _everything,
}


def decisions(each: Case) -> Decisions:
    """What its profile must decide."""
    return [
        *_workspace(each),
        *_siblings(each),
        *_lists(each),
        *_specification(each),
        *SYSTEM,
        *DEVICES,
        *PROCESSES,
        *_network(each),
    ]


def _all(target: object, *, read: str, write: str) -> Decisions:
    return [
        ("file-read-data", str(target), read),
        ("file-read-xattr", str(target), read),
        ("file-map-executable", str(target), read),
        ("file-write-data", str(target), write),
        ("file-write-create", str(target), write),
        ("file-write-unlink", str(target), write),
    ]


def _workspace(each: Case) -> Decisions:
    inside = each.workspace / "src/module.py"
    return [
        *_all(inside, read="allow", write="allow"),
        ("file-read-data", str(each.workspace), "allow"),
        ("file-write-mode", str(each.workspace), "allow"),
        ("file-read-data", f"{each.workspace}/a/../b", "allow"),
        ("file-write-data", f"{each.workspace}/../escaped", "deny"),
        ("file-read-data", f"{each.workspace}x", "deny"),
        ("file-write-data", f"{each.workspace}.bak/file", "deny"),
    ]


def _siblings(each: Case) -> Decisions:
    found: Decisions = []
    for sibling in each.siblings:
        found += _all(sibling / "secret", read="deny", write="deny")
        found += [("file-read-metadata", str(sibling), "deny"), ("file-read-metadata", str(sibling / "secret"), "deny")]
    for above in (each.workspace.parent, each.boundary.protected_root, each.boundary.protected_root.parent):
        found += [
            ("file-read-metadata", str(above), "allow"),
            ("file-read-data", str(above), "deny"),
            ("file-write-create", str(above / "new"), "deny"),
        ]
    return found


def _lists(each: Case) -> Decisions:
    found: Decisions = _all(each.boundary.protected_root.parent / "beside/file", read="deny", write="deny")
    for paths, write in ((each.read, "deny"), (each.write, "allow")):
        for path in paths:
            found += _all(path, read="allow", write=write)
            if path in each.files:
                found += _all(path / "below", read="deny", write="deny")
            else:
                found += _all(path / "below", read="allow", write=write)
            found += _all(f"{path}-beside", read="deny", write="deny")
    return found


def _specification(each: Case) -> Decisions:
    inside = each.spec.is_relative_to(each.workspace)
    return [
        ("file-read-data", str(each.spec), "allow"),
        ("file-write-data", str(each.spec), "allow" if inside else "deny"),
        ("file-read-data", f"{each.spec}.orig", "allow" if inside else "deny"),
    ]


SYSTEM: Decisions = [
    ("file-read-data", "/", "allow"),
    ("file-read-metadata", "/", "allow"),
    ("file-write-create", "/new", "deny"),
    *[("file-read-metadata", path, "allow") for path in ("/tmp", "/var", "/etc", "/dev")],
    *[("file-read-data", path, "deny") for path in ("/tmp", "/var", "/etc", "/dev", "/etc/passwd", "/tmp/other")],
    *_all("/usr/lib/libSystem.dylib", read="allow", write="deny"),
    *_all("/System/Library/CoreServices/x", read="allow", write="deny"),
    *[("file-read-data", path, "allow") for path in ("/bin/sh", "/sbin/md5", "/Library/Apple/x", "/private/etc/hosts")],
    *[("file-read-data", path, "allow") for path in ("/private/var/db/timezone/tz", "/private/var/select/sh")],
    *[
        ("file-read-data", path, "deny")
        for path in ("/private/var/db/x", "/private/var/log/x", "/usrlocal", "/Library/Keychains")
    ],
    *[("file-read-data", path, "deny") for path in ("/Users/a/.ssh/id_ed25519", "/root/.aws/credentials", "/home/a/.netrc")],
    ("file-write-data", "/private/etc/hosts", "deny"),
]
DEVICES: Decisions = [
    *[
        (operation, f"/dev/{name}", "allow")
        for name in ("null", "random", "urandom", "zero", "fd/3")
        for operation in ("file-read-data", "file-write-data")
    ],
    *[("file-read-data", f"/dev/{name}", "deny") for name in ("disk0", "tty", "null0", "fdx")],
    ("file-map-executable", "/dev/zero", "deny"),
]
PROCESSES: Decisions = [
    ("process-exec", "/bin/sh", "allow"),
    ("process-exec-interpreter", "/usr/bin/env", "allow"),
    ("process-fork", "", "allow"),
    ("signal", "self", "allow"),
    ("signal", "same-sandbox", "allow"),
    ("signal", "others", "deny"),
    ("process-info-pidinfo", "same-sandbox", "allow"),
    ("process-info-pidinfo", "others", "deny"),
    ("sysctl-read", "", "allow"),
    ("sysctl-write", "", "deny"),
    ("mach-lookup", "", "allow"),
    ("mach-register", "", "deny"),
    ("ipc-posix-shm", "", "allow"),
    ("ipc-posix-sem", "", "allow"),
    ("iokit-open", "", "deny"),
    ("system-fsctl", "", "deny"),
]


def _network(each: Case) -> Decisions:
    found: Decisions = [
        ("network-outbound", "tcp:93.184.216.34:444", "allow"),
        ("network-outbound", "udp:[2001:db8::1]:53", "allow"),
        ("network-bind", "tcp:127.0.0.1:0", "allow"),
        ("network-bind", "udp:0.0.0.0:9999", "allow"),
        ("network-inbound", "tcp:127.0.0.1:9999", "deny"),
        *[
            ("network-outbound", f"unix:{path}", "deny")
            for path in ("/var/run/docker.sock", "/private/var/run/mDNSResponder2", each.workspace / "socket")
        ],
        ("network-outbound", "unix:/private/var/run/mDNSResponder", "allow"),
        ("network-bind", f"unix:{each.workspace}/socket", "deny"),
    ]
    for port in each.boundary.reserved_ports:
        found += [
            (operation, f"{protocol}:{host}:{port}", "deny")
            for operation in ("network-outbound", "network-bind")
            for protocol, host in (("tcp", "127.0.0.1"), ("udp", "0.0.0.0"), ("tcp", "[::1]"), ("tcp", "10.0.0.9"))
        ]
    return found
