"""An init is made before its execution is accepted: in its control group from its first moment, and gone with a refusal."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec._launcher.control_group import beside_own
from fable_exec.errors import Conflict
from fable_exec.keeper import leaf
from fable_exec.supervisor import Execution, Supervisor
from tests.keeper.scenes import NEEDS, Scene, supervising
from tests.waiting import until

MOST_KIBIBYTES = 2500


@pytest.fixture(scope="module")
def grouping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """One whose jobs get control groups where those can be had."""
    with supervising(tmp_path_factory.mktemp("executions"), alteration="") as opened:
        yield opened


@pytest.fixture
def grouped(grouping: Supervisor, workspace: Path) -> Scene:
    if not beside_own():
        pytest.skip("no control group is delegated to this user")
    return Scene(supervisor=grouping, workspace=workspace, rung="pidns")


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stopped(scene: Scene, execution: Execution) -> None:
    scene.supervisor.request_stop(execution.execution_id)
    scene.ended(execution)


def groups_of(execution_id: str) -> list[Path]:
    return list(Path(beside_own()).glob(f"fable-exec-{execution_id}*"))


def own_group(pid: int) -> str:
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line[3:] for line in lines if line.startswith("0::"))


@pytest.mark.requires_ability(*NEEDS["pidns"])
def test_init_and_leader_are_in_the_group_that_is_written_down_and_the_keeper_is_not(grouped: Scene) -> None:
    execution = grouped.start("sleep", "1000")
    keeper, leader = execution.document["supervisor_pid"], execution.document["runner_pid"]
    (group,) = groups_of(execution.execution_id)
    assert str(group) == execution.document["control_group"]
    (init,) = until(lambda: len(found := children(keeper)) == 1 and found)  # once its starter is gone
    assert own_group(init) == own_group(leader) != own_group(keeper)
    assert Path(own_group(init)).name == group.name
    stopped(grouped, execution)
    assert grouped.look(execution).document["quiescence_proof"] == "cgroup_empty"
    assert groups_of(execution.execution_id) == []


@pytest.mark.requires_ability(*NEEDS["pidns"])
def test_of_an_execution_that_was_not_accepted_neither_init_nor_group_is_left(grouped: Scene) -> None:
    first = grouped.start("sleep", "1000")
    zygote = int(Path(f"/proc/{first.document['supervisor_pid']}/stat").read_bytes().rpartition(b")")[2].split()[1])
    refused = str(uuid.uuid4())
    with pytest.raises(Conflict) as conflict:
        grouped.start("sleep", "999", execution_id=refused)
    assert conflict.value.reason == "workspace"
    until(lambda: children(zygote) == [first.document["supervisor_pid"]])
    assert groups_of(refused) == []
    assert grouped.supervisor.get(refused) is None
    stopped(grouped, first)


def test_who_waits_has_little_memory_of_its_own(scene: Scene) -> None:
    """Most of what a start takes went with the starter, and with the leader's program."""
    execution = scene.start("sleep", "1000")
    keeper = execution.document["supervisor_pid"]
    (init,) = until(lambda: len(found := children(keeper)) == 1 and found)
    until(lambda: os.readlink(f"/proc/{execution.document['runner_pid']}/exe").endswith(("sleep", "coreutils", "busybox")))
    assert own_kibibytes(keeper) < MOST_KIBIBYTES
    if os.geteuid() == 0:  # an init may not be looked into by its own user
        assert own_kibibytes(init) < MOST_KIBIBYTES
    stopped(scene, execution)


def own_kibibytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))


def test_a_broken_pipe_ends_no_keeper_and_a_job_has_its_default_again(scene: Scene) -> None:
    execution = scene.start("sleep", "1000")
    keeper, leader = execution.document["supervisor_pid"], execution.document["runner_pid"]
    assert is_ignored(keeper, signal.SIGPIPE)
    until(lambda: os.readlink(f"/proc/{leader}/exe").endswith(("sleep", "coreutils", "busybox")))
    assert not is_ignored(leader, signal.SIGPIPE)
    stopped(scene, execution)


def is_ignored(pid: int, number: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(line.split()[1] for line in lines if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_an_empty_group_that_nobody_recovers_is_removed_once_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    if not beside_own():
        pytest.skip("no control group is delegated to this user")
    mine = leaf.make_leaf(f"forgotten-{os.getpid()}")
    assert mine is not None
    monkeypatch.setattr(leaf, "leaves_of", lambda name: [mine])  # others' are not this test's to remove
    leaf.remove_forgotten()
    assert mine.path.exists()
    monkeypatch.setattr(leaf, "_FORGOTTEN_SECONDS", 0.0)
    leaf.remove_forgotten()
    assert not mine.path.exists()


@pytest.mark.requires_ability("root", "confinement", *NEEDS["pidns"])
def test_an_init_and_its_keeper_hold_no_inotify_instance(grouping: Supervisor, workspace: Path) -> None:
    """A user has 128 of them, and to close one takes the kernel up to 24 ms, which the end of a job would wait for."""
    scene = Scene(supervisor=grouping, workspace=workspace, rung="pidns")
    execution = scene.start("sleep", "1000", confined=True)
    (init,) = until(lambda: len(found := children(execution.document["supervisor_pid"])) == 1 and found)
    for process in (init, execution.document["supervisor_pid"]):
        held = [os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()]
        assert held and not [each for each in held if "inotify" in each]
    stopped(scene, execution)
