"""Builds the trees of the corpora, performs their operations and checks the facts that must hold afterwards."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

from fable_exec.errors import FableExecError
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath

DATA = Path(__file__).resolve().parent.parent / "data"
RESOLVERS = ("openat2", "walk")

Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    """The rows of one corpus file."""
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines() if line.strip()]


def build(root: Path, steps: list[list[Any]]) -> None:
    """Run the setup steps of a row below `root`, which exists; `../out` is its sibling and `@OUT@` that sibling's absolute path.

    chmod comes last, or later steps could not work below the directory."""
    outside = str(root.parent / "out")
    for step in sorted(steps, key=lambda step: step[0] == "chmod"):
        action, name, *arguments = step
        path = os.path.join(os.fspath(root), name)
        arguments = [value.replace("@OUT@", outside) if isinstance(value, str) else value for value in arguments]
        _BUILDERS[action](path, *arguments, root=root)


def _deep(path: str, depth: int, *, root: Path) -> str:
    name = os.path.relpath(path, root)
    parent, own = os.path.split(name)
    deep = os.path.join(root, parent, *[own] * depth)
    os.makedirs(deep, exist_ok=True)
    return deep


def _write(path: str, content: str, **_: Any) -> None:
    # Exclusive: a step of a random tree must neither wait on a FIFO that is there nor write through a link.
    with open(path, "x", encoding="utf-8") as file:
        file.write(content)


def _socket(path: str, **_: Any) -> None:
    # A socket's address is limited to 108 bytes: bind the last name from inside its directory, through /proc.
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{fd}/{os.path.basename(path)}")
    finally:
        os.close(fd)


def _chmod(path: str, mode: str, **_: Any) -> None:
    os.chmod(path, int(mode, 8))


_BUILDERS: dict[str, Any] = {
    "dir": lambda path, **_: os.mkdir(path),
    "file": _write,
    "symlink": lambda path, target, **_: os.symlink(target, path),
    "hardlink": lambda path, source, root: os.link(os.path.join(root, source), path),
    "fifo": lambda path, **_: os.mkfifo(path),
    "sock": _socket,
    "chmod": _chmod,
    "deepdir": _deep,
    "deepfile": lambda path, depth, name, root: _write(os.path.join(_deep(path, depth, root=root), name), "deep"),
}


def parsed(row: Row) -> WorkspacePath:
    return WorkspacePath.parse(row["input"], PathProfile(row["policy"]["profile"]))


def perform(workspace: Workspace, op: str, text: str, to: str | None = None, profile: PathProfile = PathProfile.POSIX) -> Any:
    """One operation of the corpus, by its name."""
    path = WorkspacePath.parse(text, profile)
    if op == "rename":
        assert to is not None
        return workspace.rename(path, WorkspacePath.parse(to, profile))
    return _OPERATIONS[op](workspace, path)


_OPERATIONS: dict[str, Any] = {
    "open_read": lambda workspace, path: workspace.read(path),
    "list": lambda workspace, path: workspace.list(path),
    "stat": lambda workspace, path: workspace.stat(path),
    "write_replace": lambda workspace, path: workspace.write_replace(path, b"new"),
    "write_inplace": lambda workspace, path: workspace.write_inplace(path, b"new"),
    "create_excl": lambda workspace, path: workspace.create_exclusive(path, b"new"),
    "mkdir_all": lambda workspace, path: workspace.make_directories(path),
    "unlink": lambda workspace, path: workspace.remove(path),
    "remove_tree": lambda workspace, path: workspace.remove_tree(path),
}


def reason_of(error: FableExecError) -> str:
    return str(getattr(error, "reason", ""))


_KINDS = {
    "dir": stat.S_ISDIR,
    "file": stat.S_ISREG,
    "symlink": stat.S_ISLNK,
    "fifo": stat.S_ISFIFO,
    "socket": stat.S_ISSOCK,
}


def broken_facts(root: Path, facts: list[list[Any]]) -> list[str]:
    """The facts of an `after` list that do not hold."""
    return [f"{fact}: {found}" for fact in facts if (found := _check(root, *fact)) is not True]


def _check(root: Path, fact: str, name: str, *expected: Any) -> Any:
    path = os.path.join(os.fspath(root), name)
    if fact == "absent":
        return not os.path.lexists(path)
    status = os.lstat(path)
    if fact == "content":
        content = Path(path).read_text(encoding="utf-8")
        return content == expected[0] or content
    if fact == "type":
        return bool(_KINDS[expected[0]](status.st_mode)) or stat.filemode(status.st_mode)
    if fact == "mode":
        return stat.S_IMODE(status.st_mode) == int(expected[0], 8) or oct(status.st_mode)
    assert fact == "nlink", fact
    return status.st_nlink == expected[0] or status.st_nlink


def snapshot(root: Path) -> dict[str, tuple[int, int, str]]:
    """Every name below `root` with its mode, link count and content or link text: to say that nothing changed."""
    found = {}
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                content = Path(path).read_bytes().hex() if os.access(path, os.R_OK) else "?"
            else:
                content = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""
            found[os.path.relpath(path, root)] = (status.st_mode, status.st_nlink, content)
    return found
