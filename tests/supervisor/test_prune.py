"""Executions that have ended go, whole; nothing that lives, that is not ours, or that cannot be told goes with them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import Conflict, UnknownExecution
from fable_exec.executions import holding
from fable_exec.executions.holding import is_held, take
from fable_exec.executions.names import workspace_locks_in
from fable_exec.supervisor import Supervisor
from fable_exec.testing.leaks import nothing_left, open_descriptors
from tests.supervisor.jobs import Jobs, kill_keeper, make_spec
from tests.waiting import LONG_SECONDS, until


@pytest.fixture
def supervisor(tmp_path: Path) -> Any:
    """A root of its own for each test: what `prune` removes is of all of it."""
    with Supervisor(tmp_path / "root") as opened:
        yield opened


def prune(jobs: Jobs, **more: Any) -> list[str]:
    return jobs.supervisor.prune(**{"older_than_seconds": 0, **more})


def test_what_has_ended_goes_and_what_lives_stays(jobs: Jobs) -> None:
    ended, live = jobs.ended("mkdir -p $XDG_CACHE_HOME/deep/er; echo x > $XDG_CACHE_HOME/deep/er/file"), jobs.sleeper()
    with nothing_left():
        assert prune(jobs) == [ended.execution_id]
    assert not ended.directory.exists()
    assert jobs.supervisor.get(ended.execution_id) is None
    with pytest.raises(UnknownExecution):
        jobs.supervisor.wait(ended.execution_id)
    assert not jobs.supervisor.get(live.execution_id).is_over
    assert prune(jobs) == []


def test_young_ones_and_the_newest_stay(jobs: Jobs) -> None:
    executions = [jobs.ended() for _ in range(4)]
    assert jobs.supervisor.prune() == []  # a week
    assert prune(jobs, older_than_seconds=60) == []
    assert prune(jobs, keep=3) == [executions[0].execution_id]
    assert prune(jobs, keep=3) == []
    assert prune(jobs, ids=[executions[2].execution_id.upper()]) == [executions[2].execution_id]
    assert prune(jobs) == sorted(each.execution_id for each in (executions[1], executions[3]))


@pytest.mark.parametrize(
    "wrong", [{"older_than_seconds": -1}, {"older_than_seconds": float("nan")}, {"keep": -1}, {"ids": ["x"]}]
)
def test_what_makes_no_sense_is_refused(jobs: Jobs, wrong: dict[str, Any]) -> None:
    ended = jobs.ended()
    with pytest.raises(ValueError, match="must be"):
        prune(jobs, **wrong)
    assert ended.directory.exists()


def test_one_that_is_lost_or_unreadable_stays(jobs: Jobs) -> None:
    lost, torn = jobs.sleeper(), jobs.ended()
    kill_keeper(lost)
    jobs.supervisor.wait(lost.execution_id, LONG_SECONDS)
    (torn.directory / "state.json").write_bytes(b"{")
    assert prune(jobs) == []
    jobs.supervisor.recover()
    assert prune(jobs) == [lost.execution_id]
    assert (torn.directory / "state.json").read_bytes() == b"{"


def test_one_whose_lock_is_held_stays(jobs: Jobs) -> None:
    ended = jobs.ended()
    lock = take(ended.directory / "run.lock")
    assert lock is not None
    try:
        assert prune(jobs) == []
        assert (ended.directory / "runner.log").exists()
    finally:
        os.close(lock)


def test_links_are_removed_and_never_followed(jobs: Jobs, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    ended = jobs.ended(f"ln -s {outside} $XDG_CACHE_HOME/link; ln -s {outside}/precious $XDG_CACHE_HOME/file")
    os.symlink(outside, ended.directory / "link")
    assert prune(jobs) == [ended.execution_id]
    assert (outside / "precious").read_text() == "kept"


def test_what_is_not_ours_below_the_root_stays(jobs: Jobs, tmp_path: Path) -> None:
    ended = jobs.ended()
    root = jobs.supervisor.root
    elsewhere = tmp_path / "elsewhere"
    ended.directory.rename(elsewhere)
    (root / "notes").mkdir()
    (root / "notes" / "text").write_text("kept")
    os.symlink(elsewhere, root / ended.execution_id)  # a whole execution, but by a link
    foreign = root / str(uuid.uuid4())
    foreign.mkdir(mode=0o700)
    (foreign / "state.json").write_text("{}\n")
    stranger = root / str(uuid.uuid4())
    stranger.mkdir(mode=0o700)
    (stranger / "data").write_text("kept")
    open_to_all = jobs.ended()
    open_to_all.directory.chmod(0o755)
    assert prune(jobs) == []
    assert sorted(os.listdir(elsewhere)) and (foreign / "state.json").exists() and (stranger / "data").exists()
    assert (root / "notes" / "text").exists() and open_to_all.directory.exists()
    open_to_all.directory.chmod(0o700)


@pytest.mark.requires_ability("root")
def test_what_is_mounted_below_is_not_emptied(tmp_path: Path) -> None:
    """In a mount namespace of its own: a file system that lies in an execution's directory."""
    program = f"""
set -e
mount --make-rprivate /
{shlex.quote(sys.executable)} - <<'END'
import os, subprocess
from pathlib import Path
from fable_exec.supervisor import Supervisor
from tests.supervisor.jobs import make_spec
workspace = Path({str(tmp_path)!r}) / "workspace"
workspace.mkdir()
with Supervisor({str(tmp_path)!r} + "/root") as supervisor:
    ended = supervisor.wait(supervisor.start(make_spec(workspace, "true")).execution_id)
    place = ended.directory / "host-runtime" / "a place"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    (place / "precious").write_text("kept")
    print(supervisor.prune(older_than_seconds=0), (place / "precious").read_text(), ended.runner_log.exists())
    subprocess.run(["umount", place], check=True)
    print(supervisor.prune(older_than_seconds=0) == [ended.execution_id])
END
"""
    argv = ["unshare", "--mount", "bash", "-c", program]
    finished = subprocess.run(argv, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60)
    assert finished.stdout.splitlines() == ["[] kept True", "True"], finished.stderr


def test_a_start_that_was_refused_leaves_nothing_for_long(jobs: Jobs) -> None:
    live = jobs.sleeper()
    wanted = str(uuid.uuid4())
    with pytest.raises(Conflict):
        jobs.supervisor.start(make_spec(Path(live.document["workspace"]), "true", execution_id=wanted))
    assert jobs.supervisor.get(wanted) is None
    assert prune(jobs) == []
    assert (jobs.supervisor.root / wanted).exists()  # it might be a start that is under way
    os.utime(jobs.supervisor.root / wanted, (time.time() - 61,) * 2)
    assert prune(jobs) == []
    assert not (jobs.supervisor.root / wanted).exists()


def test_locks_of_workspaces_go_where_nobody_needs_them(jobs: Jobs) -> None:
    jobs.ended()
    live, lost = jobs.sleeper(), jobs.sleeper()
    kill_keeper(lost)
    jobs.supervisor.wait(lost.execution_id, LONG_SECONDS)
    prune(jobs)
    assert sorted(path.read_text() for path in workspace_locks_in(jobs.supervisor.root)) == sorted(
        [live.execution_id, lost.execution_id]
    )


def test_a_lock_that_is_removed_while_another_waits_for_it_is_not_taken_by_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "_HOLDER_SECONDS", LONG_SECONDS)
    path = tmp_path / "lock"
    held = take(path)
    assert held is not None
    found: list[int | None] = []
    waiting = threading.Thread(target=lambda: found.append(take(path)))
    waiting.start()
    until(lambda: list(open_descriptors().values()).count(str(path)) == 2)
    path.unlink()
    os.close(held)
    waiting.join(LONG_SECONDS)
    (second,) = found
    assert second is not None and is_held(path)  # the one that has a name, which whoever comes next finds
    assert os.fstat(second).st_ino == path.stat().st_ino
    os.close(second)


def test_starts_and_removals_of_one_id_at_once_leave_one_whole_execution(jobs: Jobs) -> None:
    """Whoever starts gets an execution, however often it is removed meanwhile."""
    spec = jobs.spec("true", execution_id=str(uuid.uuid4()))
    is_over = threading.Event()
    removed: list[str] = []

    def remove() -> None:
        while not is_over.is_set():
            removed.extend(prune(jobs))

    removing = threading.Thread(target=remove)
    removing.start()
    try:
        give_up_at = time.monotonic() + LONG_SECONDS
        while len(removed) < 8 and time.monotonic() < give_up_at:
            assert jobs.supervisor.start(spec).execution_id == spec.execution_id
    finally:
        is_over.set()
        removing.join()
    assert len(removed) >= 8, "too little was removed: the test shows nothing"
    found = jobs.supervisor.start(spec)
    assert jobs.supervisor.wait(found.execution_id, LONG_SECONDS).exit_code == 0


def test_a_directory_that_loses_a_file_at_any_moment_is_an_ended_execution_or_none(jobs: Jobs) -> None:
    """What a removal that was killed leaves: the files go in an order in which each rest can be read, and removed later."""
    ended = jobs.ended()
    last = ("terminal.rec", "state.json", "run.lock", ".lock")
    for name in set(os.listdir(ended.directory)) - set(last):
        subprocess.run(["rm", "-r", ended.directory / name], check=True)
    for name in last:
        found = jobs.supervisor.get(ended.execution_id)
        assert found is None or found.is_over
        (ended.directory / name).unlink()
    assert jobs.supervisor.get(ended.execution_id) is None
    os.utime(ended.directory, (time.time() - 61,) * 2)
    prune(jobs)
    assert not ended.directory.exists()
