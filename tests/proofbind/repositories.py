"""Git repositories for tests, made and asked by git with no configuration of whoever runs the suite."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

BASE = "b6b765d62404317fd7828f9ac8f32187a5391ca8"
HEAD = "954af54b0a77cbab5a09970b64dbc10ae01597cf"
TREE = "1493a40e1b36e7f414979edf54b5ec9fbe23f3a36f026a0b6e74a4d19360813c"
RUN_ID = "run-20260102030405-1-1"

_IDENTITY = {"NAME": "fixture", "EMAIL": "fixture@example.invalid", "DATE": "2026-01-02T03:04:05Z"}
_ENVIRONMENT = {
    "PATH": os.defpath, "HOME": os.devnull, "LC_ALL": "C.UTF-8", "TZ": "UTC",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in _IDENTITY.items()},
}  # fmt: skip


def git(repository: Path, *arguments: str, may_differ: bool = False, given: bytes = b"", **environment: str) -> bytes:
    finished = subprocess.run(
        ["git", "-C", str(repository), *arguments],
        env={**_ENVIRONMENT, **environment}, input=given, capture_output=True, umask=0o022,
    )  # fmt: skip
    assert finished.returncode in ((0, 1) if may_differ else (0,)), (arguments, finished.stderr)
    return finished.stdout


def new_repository(directory: Path, *options: str) -> Path:
    directory.mkdir(parents=True)
    git(directory, "init", "-q", "-b", "main", "--template=", *options)
    for name in ("info", "hooks"):
        (directory / ".git" / name).mkdir()
    return directory


def commit_all(repository: Path, message: str = "all", **environment: str) -> str:
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "--allow-empty", "-m", message, may_differ=False, given=b"", **environment)
    return head_of(repository)


def head_of(repository: Path) -> str:
    return git(repository, "rev-parse", "HEAD").decode().strip()


def lines(count: int, changed: tuple[int, ...] = ()) -> str:
    """A text of so many lines; those with a number in `changed` are not what they would be."""
    return "".join(f"line {number}{'!' if number in changed else ''}\n" for number in range(count))


def make_fixture(directory: Path) -> Path:
    """The repository that the vectors in tests/data/proofs are about."""
    repository = new_repository(directory)
    (repository / "a.txt").write_text("one\n")
    (repository / ".gitignore").write_text("node_modules/\n*.log\n")
    commit_all(repository, "base")
    (repository / "a.txt").write_text("one\ntwo\nthree\n")
    (repository / "src").mkdir()
    (repository / "src/run.sh").write_text("#!/bin/sh\necho hi\n")
    (repository / "src/run.sh").chmod(0o755)
    (repository / "src/link").symlink_to("../a.txt")
    later = {f"GIT_{role}_DATE": "2026-01-02T03:05:05Z" for role in ("AUTHOR", "COMMITTER")}
    assert commit_all(repository, "second", **later) == HEAD
    (repository / "new.txt").write_text("untracked work\n")
    (repository / "debug.log").write_text("ignored\n")
    return repository


def asked_of_git(repository: Path, base: str) -> dict[str, Any]:
    """The numbers as the reference has them: one git process, and one more for each untracked file."""
    files = []
    for line in git(repository, "diff", "--numstat", "-z", "--no-renames", base, "--", ".", ":(exclude).loki").split(b"\0")[:-1]:
        added, deleted, path = line.split(b"\t", 2)
        files.append(_row(path, added, deleted, ""))
    others = git(repository, "ls-files", "--others", "--exclude-standard", "-z", "--", ".", ":(exclude).loki")
    for path in others.split(b"\0")[:-1]:
        told = git(repository, "diff", "--no-index", "--numstat", "-z", "--", os.devnull, os.fsdecode(path), may_differ=True)
        added, deleted = told.split(b"\t")[:2] if told else (b"0", b"0")
        files.append(_row(path, added, deleted, "untracked"))
    files.sort(key=lambda each: (each["path"], each["status"]))
    return {
        "count": len(files), "insertions": sum(each["insertions"] for each in files),
        "deletions": sum(each["deletions"] for each in files), "files": files,
    }  # fmt: skip


def _row(path: bytes, added: bytes, deleted: bytes, kind: str) -> dict[str, Any]:
    binary = added == b"-"
    status = "_".join(filter(None, [kind, "binary" if binary else ""])) or "modified"
    numbers = (0, 0) if binary else (int(added), int(deleted))
    return {"path": os.fsdecode(path), "insertions": numbers[0], "deletions": numbers[1], "status": status}
