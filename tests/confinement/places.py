"""Brokers under strict confinement in each launch mode, and a digest of all that a command could have changed."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import BrokerPolicy, CommandResult, Confinement, EnvironmentPolicy, ExecutionBroker
from tests.doors import PATH, TOKEN, policy_for

MODES = ("slots", "namespace", "plain")
NEEDS: dict[str, tuple[str, ...]] = {
    "slots": ("userns", "own_proc", "landlock"),
    "namespace": ("userns", "landlock"),
    "plain": ("landlock",),
}
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b.c",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b.c",
}


def in_modes(*modes: str) -> pytest.MarkDecorator:
    """The parameter `mode`, skipped where the machine lacks what a mode needs."""
    return pytest.mark.parametrize(
        "mode", [pytest.param(mode, marks=pytest.mark.requires_ability(*NEEDS[mode])) for mode in modes or MODES]
    )


def confined_policy(workspace: Path, mode: str = "auto", **more: Any) -> BrokerPolicy:
    """Strict confinement, the known token, and the programs that these tests run."""
    more.setdefault("confinement", Confinement.strict())
    more.setdefault("allowed_executables", available("bash", "python3", "sh", "cat", "true"))
    more.setdefault("environment", EnvironmentPolicy(path=tuple(part for part in PATH if Path(part).is_dir()), set=GIT))
    return policy_for(workspace, launch=mode, **more)


@contextmanager
def confined(workspace: Path, mode: str = "auto", *, unlocked: bool = False, **more: Any) -> Iterator[ExecutionBroker]:
    """A broker under `confined_policy`."""
    with ExecutionBroker(confined_policy(workspace, mode, **more)) as broker:
        if unlocked:
            broker.unlock_writes(TOKEN)
        yield broker


def available(*names: str) -> tuple[str, ...]:
    """Those of the programs that are installed."""
    return tuple(name for name in names if any((Path(part) / name).exists() for part in PATH))


def states(broker: ExecutionBroker) -> dict[str, str]:
    """State by protection, as `probe` tells it."""
    return {each.protection: each.state for each in broker.probe().confinement}


def run(broker: ExecutionBroker, *argv: str, **more: Any) -> CommandResult:
    """A command that must succeed."""
    result = broker.execute_command(argv, **more)
    assert result.success, f"{argv}: {result.exit_code} {result.outcome} {result.stdout[-600:]} {result.stderr[-2000:]}"
    return result


def repository(place: Path) -> None:
    """A git repository with one commit, made by the host."""
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=place, check=True, env={**os.environ, **GIT}, stdout=subprocess.DEVNULL)


@attrs.frozen
class Tree:
    """What a tree is: for each path its kind, mode, owner, size, times and content."""

    entries: dict[str, tuple[object, ...]]

    @classmethod
    def of(cls, root: Path) -> Tree:
        """Access times are left out: to read is allowed."""
        return cls({str(path.relative_to(root)): _facts(path) for path in [root, *sorted(root.rglob("*"))]})

    def changes(self, other: Tree) -> list[str]:
        """Paths that are not the same in both."""
        names = sorted(self.entries.keys() | other.entries.keys())
        return [name for name in names if self.entries.get(name) != other.entries.get(name)]


def _facts(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    content: object = ""
    if path.is_symlink():
        content = os.readlink(path)
    elif path.is_file():
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    attributes = tuple(os.listxattr(path, follow_symlinks=False))
    return (
        status.st_mode,
        status.st_uid,
        status.st_gid,
        status.st_nlink,
        status.st_size,
        status.st_mtime_ns,
        content,
        attributes,
    )


def left_on_the_host(marks: Sequence[str]) -> list[str]:
    """Mounts of this process's namespace that mention any of `marks`."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if any(mark in line for mark in marks)]
