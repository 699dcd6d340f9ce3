"""Row X17: a writer that is killed at any of its system calls leaves old or new content whole; the next start tidies up."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fable_exec.errors import PathError
from fable_exec.pathguard import Workspace, WorkspacePath
from fable_exec.pathguard.replacing import temporary_name
from tests.pathguard import scenes

pytestmark = pytest.mark.requires_ability("openat2")


@pytest.mark.parametrize("resolver", scenes.RESOLVERS)
@pytest.mark.parametrize(("scene", "before"), [("replace", "whole old"), ("create", "absent")])
def test_a_writer_killed_at_any_system_call_leaves_old_or_new_content(
    scene: str, before: str, resolver: str, workspace: Path
) -> None:
    program = Path(__file__).with_name("crash_at_system_calls.py")
    argv = [sys.executable, str(program), str(workspace), resolver, scene]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    if "ptrace" in answer.stderr:
        pytest.skip(f"ability ptrace is missing: {answer.stderr.splitlines()[-1]}")
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert set(report["outcomes"]) == {before, "whole new"}
    assert report["stops"] > 20
    assert report["most_leftovers"] == 1
    assert report["with_leftover"] > 5


@pytest.fixture
def small_files() -> object:
    """Files of this process cannot grow beyond 64 KiB: a write that fails half way, from the kernel itself."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, old[1]))
    yield None
    resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.mark.parametrize("text", ["f", "new", "a/b/new"])
def test_a_write_that_fails_half_way_changes_nothing_and_leaves_nothing(text: str, small_files: object, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"old")
    before = scenes.snapshot(workspace)
    for resolver in scenes.RESOLVERS:
        with Workspace.open(workspace, resolver=resolver) as held:
            with pytest.raises(PathError) as failure:
                held.write_replace(WorkspacePath.parse(text), b"x" * 100_000)
            assert failure.value.reason == "too-large"
    assert scenes.snapshot(workspace) == before


def test_the_temporary_file_of_a_living_writer_stays(workspace: Path) -> None:
    with Workspace.open(workspace) as mine, Workspace.open(workspace) as another:
        removed = []

        def name_and_clean() -> str:
            removed.append(another.remove_leftovers())
            return temporary_name()

        mine._fresh_name = name_and_clean
        mine.write_replace(WorkspacePath.parse("f"), b"new")
        fd = os.open(workspace / temporary_name(), os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX)
            assert another.remove_leftovers() == 0
        finally:
            os.close(fd)
        assert another.remove_leftovers() == 1
    assert removed == [0]
    assert os.listdir(workspace) == ["f"]


def test_only_files_with_a_name_of_ours_are_cleaned_up(workspace: Path) -> None:
    keep = [".fable-tmp-", ".fable-tmp-0123456789abcde", ".fable-tmp-0123456789ABCDEF", ".fable-tmp-0123456789abcdef.txt"]
    for name in keep:
        (workspace / name).touch()
    (workspace / temporary_name()).mkdir()
    (workspace / temporary_name()).symlink_to(keep[0])
    (workspace / "deep" / "er").mkdir(parents=True)
    (workspace / "deep" / "er" / temporary_name()).touch()
    with Workspace.open(workspace) as held:
        assert held.remove_leftovers() == 1
    assert set(keep) < set(os.listdir(workspace))
    assert len(os.listdir(workspace)) == len(keep) + 3
    assert os.listdir(workspace / "deep" / "er") == []
