"""One supervisor: listing, threads, forks, and what becomes of its zygote when it is lost, closed or dropped."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from fable_exec._launcher import proctree
from fable_exec.errors import BrokerGone, Conflict, InvalidRequest
from fable_exec.lifecycle import Health, TerminalReason
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor, UnreadableExecution
from fable_exec.testing.leaks import children, nothing_left
from tests import hosts
from tests.supervisor.jobs import Jobs, make_spec
from tests.waiting import LONG_SECONDS, until

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def supervisor(tmp_path: Path) -> Any:
    with Supervisor(tmp_path / "root") as opened:
        yield opened


def test_who_only_looks_loads_nothing_that_a_start_needs(tmp_path: Path) -> None:
    looking = f"import sys; from fable_exec.supervisor import Supervisor; Supervisor({str(tmp_path)!r}).list()"
    program = (
        f"{looking}; print({{'asyncio', 'fable_exec.policy', 'fable_exec.runner', 'fable_exec.confine'}} & {{*sys.modules}})"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PROJECT, timeout=30)
    assert told.stdout == "set()\n", told.stderr


def test_records_within_reach_of_a_job_are_refused(tmp_path: Path) -> None:
    """The directory of all executions in the workspace, or one with it."""
    for root in (tmp_path, tmp_path / "state" / "executions"):
        with Supervisor(root) as supervisor, pytest.raises(InvalidRequest, match="could change its own record"):
            supervisor.start(make_spec(tmp_path, "true"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", [str(uuid.UUID(int=7)), uuid.UUID(int=7).hex, ".workspaces", f"{uuid.UUID(int=7)}/deep"])
def test_a_workspace_among_the_records_is_refused(tmp_path: Path, place: str) -> None:
    workspace = tmp_path / "root" / place
    workspace.mkdir(parents=True)
    with Supervisor(tmp_path / "root") as supervisor, pytest.raises(InvalidRequest, match="among the records"):
        supervisor.start(make_spec(workspace.resolve(), "true"))


def test_a_root_behind_a_link_is_the_root(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(jobs.supervisor.root)
    execution = jobs.ended()
    with Supervisor(tmp_path / "link") as supervisor:
        assert supervisor.wait(execution.execution_id).document == execution.document


@pytest.mark.parametrize("spoil", ["closed", "lock is a link", "lock is a directory"])
def test_a_directory_that_cannot_be_looked_into_hides_no_other(jobs: Jobs, spoil: str) -> None:
    execution, spoilt = jobs.ended(), jobs.supervisor.root / str(uuid.uuid4())
    spoilt.mkdir(0o700)
    if spoil == "closed":
        if os.geteuid() == 0:
            pytest.skip("root looks into everything")
        spoilt.chmod(0)
    else:
        (spoilt / "state.json").write_bytes((execution.directory / "state.json").read_bytes())
        (spoilt / "run.lock").symlink_to("elsewhere") if spoil == "lock is a link" else (spoilt / "run.lock").mkdir()
    try:
        found = {each.execution_id: each.health for each in jobs.supervisor.list()}
        assert found[execution.execution_id] is Health.EXITED
        assert found[spoilt.name] == "unreadable"
        assert [each.execution_id for each in jobs.supervisor.recover()] == [spoilt.name]
    finally:
        spoilt.chmod(0o700)
        shutil.rmtree(spoilt)


def test_two_roots_know_nothing_of_each_other(jobs: Jobs, tmp_path: Path) -> None:
    one = jobs.sleeper()
    with Supervisor(tmp_path / "another root") as supervisor:
        other = supervisor.start(make_spec(Path(one.document["workspace"]), "true"))
        assert supervisor.wait(other.execution_id, LONG_SECONDS).exit_code == 0
    assert jobs.supervisor.get(one.execution_id).health is Health.RUNNING


def test_a_keeper_that_is_stopped_is_running_with_an_old_heartbeat(jobs: Jobs) -> None:
    execution = jobs.start("sleep", "600", heartbeat_seconds=0.05)
    keeper = execution.document["supervisor_pid"]
    until(lambda: len(proctree.children(keeper)) == 1)  # its starter has handed over to it
    os.kill(keeper, signal.SIGSTOP)
    try:
        until(lambda: Path(f"/proc/{keeper}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T")
        first = jobs.supervisor.request_stop(execution.execution_id)
        with pytest.raises(TimeoutError):
            jobs.supervisor.wait(execution.execution_id, 0.3)
        found = jobs.supervisor.get(execution.execution_id)
        assert (found.health, found.document["heartbeat"]) == (Health.RUNNING, first.document["heartbeat"])
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert jobs.supervisor.wait(execution.execution_id, LONG_SECONDS).termination_reason is TerminalReason.STOPPED


def zygotes() -> set[int]:
    """The children of this process that fork keepers."""
    return {pid for pid in children() if b"keeper/__main__.py" in Path(f"/proc/{pid}/cmdline").read_bytes()}


class TestList:
    def test_all_are_listed_by_id_each_as_it_fares(self, jobs: Jobs) -> None:
        live, ended = jobs.sleeper(), jobs.ended()
        found = {each.execution_id: each.health for each in jobs.supervisor.list()}
        assert found == {live.execution_id: Health.RUNNING, ended.execution_id: Health.EXITED}
        assert list(found) == sorted(found)

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"\0" * 100, b'{"schema_version": 9, "execution_id": "x"}\n', None],
        ids=["empty", "cut", "zeros", "newer", "missing"],
    )
    def test_one_that_cannot_be_read_hides_no_other(self, jobs: Jobs, content: bytes | None) -> None:
        torn, whole = jobs.ended(), jobs.ended()
        state = torn.directory / "state.json"
        state.unlink() if content is None else state.write_bytes(content)
        found = {each.execution_id: each for each in jobs.supervisor.list()}
        unreadable = found[torn.execution_id]
        assert isinstance(unreadable, UnreadableExecution)
        assert isinstance(found[whole.execution_id], Execution)
        members = unreadable.to_members()
        assert (members["health"], members["state"], members["reason"]) == ("unreadable", None, unreadable.error.reason)
        assert members["outcome"]["exit_code"] == 0, "the record tells the outcome all the same"

    def test_a_word_that_is_no_state_is_unreadable(self, jobs: Jobs) -> None:
        ended = jobs.ended()
        (ended.directory / "terminal.rec").unlink()
        jobs.rewrite(ended, state="paused")
        (found,) = jobs.supervisor.list()
        assert isinstance(found, UnreadableExecution) and found.error.reason == "foreign"

    def test_a_root_that_is_not_there_has_none(self, tmp_path: Path) -> None:
        assert Supervisor(tmp_path / "nothing").list() == []
        assert not (tmp_path / "nothing").exists()

    def test_an_unreadable_state_is_a_conflict_for_a_start(self, jobs: Jobs) -> None:
        spec = jobs.spec("true", execution_id=str(uuid.uuid4()))
        ended = jobs.supervisor.wait(jobs.supervisor.start(spec).execution_id)
        (ended.directory / "state.json").write_bytes(b"{")
        with pytest.raises(Conflict) as caught:
            jobs.supervisor.start(spec)
        assert caught.value.reason == "unreadable"
        assert (ended.directory / "state.json").read_bytes() == b"{"


class TestThreads:
    def test_fifty_threads_use_one_supervisor(self, jobs: Jobs) -> None:
        failures: list[BaseException] = []
        spec = jobs.spec("sleep", "600", execution_id=str(uuid.uuid4()))

        def use() -> None:
            try:
                for _ in range(3):
                    assert jobs.supervisor.start(spec).execution_id == spec.execution_id
                    (found,) = jobs.supervisor.list()
                    assert found.health in (Health.STARTING, Health.RUNNING)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=use) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_SECONDS)
        jobs.note(jobs.supervisor.start(spec))
        assert failures == []
        assert len(zygotes()) == 1

    def test_a_zygote_that_is_killed_under_many_starts_costs_none_of_them(self, jobs: Jobs) -> None:
        """Each start is retried once; none is done twice, and none of the threads sees another one's closed socket."""
        jobs.ended()
        failures: list[BaseException] = []
        started: list[Execution] = []

        def start() -> None:
            try:
                started.append(jobs.supervisor.start(jobs.spec("bash", "-c", "echo ran")))
            except BaseException as error:
                failures.append(error)

        for _ in range(5):
            threads = [threading.Thread(target=start) for _ in range(8)]
            for thread in threads:
                thread.start()
            for pid in zygotes():
                os.kill(pid, signal.SIGKILL)
            for thread in threads:
                thread.join(LONG_SECONDS)
        assert [error for error in failures if not isinstance(error, BrokerGone)] == []
        assert len(started) > 20
        for execution in started:
            found = jobs.supervisor.wait(execution.execution_id, LONG_SECONDS)
            if found.is_over:
                assert found.runner_log.read_bytes() == b"ran\n"


class TestLifetime:
    def test_a_zygote_that_died_is_replaced_and_its_executions_go_on(self, jobs: Jobs) -> None:
        live = jobs.sleeper()
        (pid,) = zygotes()
        os.kill(pid, signal.SIGKILL)
        assert jobs.ended("exit 5").exit_code == 5
        assert zygotes() != {pid}
        assert jobs.supervisor.get(live.execution_id).health is Health.RUNNING

    def test_looking_starts_no_process(self, tmp_path: Path) -> None:
        with nothing_left():
            supervisor = Supervisor(tmp_path / "root")
            assert (supervisor.list(), supervisor.recover(), supervisor.prune()) == ([], [], [])

    def test_closing_leaves_nothing_but_the_job(self, jobs: Jobs) -> None:
        with nothing_left():
            supervisor = Supervisor(jobs.supervisor.root)
            execution = jobs.note(supervisor.start(jobs.spec("sleep", "600")))
            supervisor.close()
            supervisor.close()
        assert jobs.supervisor.get(execution.execution_id).health is Health.RUNNING

    def test_a_closed_one_starts_nothing_and_finds_everything(self, jobs: Jobs) -> None:
        ended = jobs.ended()
        jobs.supervisor.close()
        with pytest.raises(BrokerGone, match="closed"):
            jobs.supervisor.start(jobs.spec("true"))
        assert jobs.supervisor.wait(ended.execution_id).is_over

    def test_one_that_is_dropped_leaves_nothing_and_says_so(self, jobs: Jobs) -> None:
        with nothing_left():
            supervisor = Supervisor(jobs.supervisor.root)
            supervisor.wait(supervisor.start(jobs.spec("true")).execution_id)
            with pytest.warns(ResourceWarning, match="a Supervisor was dropped"):
                del supervisor
                gc.collect()

    def test_one_that_started_nothing_is_dropped_without_a_word(self, tmp_path: Path) -> None:
        with nothing_left():
            supervisor = Supervisor(tmp_path / "root")
            del supervisor
            gc.collect()


def test_a_forked_child_has_a_zygote_of_its_own_and_leaves_the_parents_alone(tmp_path: Path) -> None:
    program = """
    import sys
    from fable_exec.supervisor import Supervisor
    from tests.supervisor.jobs import make_spec
    root = Path(sys.argv[1])
    def workspace(name):
        (root / name).mkdir()
        return root / name
    def end(supervisor, name, code):
        return supervisor.wait(supervisor.start(make_spec(workspace(name), "bash", "-c", f"exit {code}")).execution_id).exit_code
    supervisor = Supervisor(root / "executions")
    told = [end(supervisor, "before", 1)]
    reading, writing = os.pipe()
    stop = threading.Event()
    holding = threading.Thread(target=lambda: [supervisor.list() for _ in iter(stop.is_set, True)])
    holding.start()
    pid = os.fork()
    if pid == 0:
        os.write(writing, bytes([end(supervisor, "child", 2)]))
        supervisor.close()
        os._exit(len(list(Path("/proc/self/task").iterdir())))
    os.waitpid(pid, 0)
    told.append(os.read(reading, 1)[0])
    told.append(end(supervisor, "after", 3))
    stop.set()
    holding.join()
    supervisor.close()
    answer(told)
    """
    assert hosts.answer_of(program, str(tmp_path)) == [1, 2, 3]


def test_a_host_that_is_killed_leaves_its_job_running_and_no_zygote(tmp_path: Path) -> None:
    program = """
    import sys
    from fable_exec.supervisor import Supervisor
    from tests.supervisor.jobs import make_spec
    root = Path(sys.argv[1])
    (root / "workspace").mkdir()
    supervisor = Supervisor(root / "executions")
    execution = supervisor.start(make_spec(root / "workspace", "sleep", "600"))
    (zygote,) = supervisor._zygotes._own().values()
    answer([execution.execution_id, zygote._program.pid])
    time.sleep(600)
    """
    process, reading = hosts.start(program, str(tmp_path))
    execution_id, zygote = json.loads(os.read(reading, 4096))
    os.close(reading)
    process.kill()
    process.communicate()
    until(lambda: not Path(f"/proc/{zygote}").exists())
    with Supervisor(tmp_path / "executions") as supervisor:
        assert supervisor.get(execution_id).health is Health.RUNNING
        supervisor.request_stop(execution_id)
        assert supervisor.wait(execution_id, LONG_SECONDS).signal == signal.SIGTERM


def test_the_same_id_starts_once(jobs: Jobs) -> None:
    workspace = jobs.workspace()
    wanted = str(uuid.uuid4())
    spec = make_spec(workspace, "bash", "-c", "echo ran; sleep 600", execution_id=wanted)
    first = jobs.note(jobs.supervisor.start(spec))
    assert jobs.supervisor.start(spec).document["supervisor_pid"] == first.document["supervisor_pid"]
    with pytest.raises(Conflict):
        jobs.supervisor.start(make_spec(workspace, "bash", "-c", "echo other", execution_id=wanted))


@pytest.mark.requires_ability("root", "confinement")
def test_a_job_of_another_user_who_is_kept_out_of_the_workspace_never_runs_and_says_what_to_do(jobs: Jobs) -> None:
    above = jobs.workspace()
    (above / "workspace").mkdir()
    os.chown(above / "workspace", 1234, 1235)
    execution = jobs.note(jobs.supervisor.start(ExecutionSpec(argv=("true",), workspace=above / "workspace")))
    ended = jobs.supervisor.wait(execution.execution_id, 60)
    assert ended.termination_reason is TerminalReason.LAUNCH_FAILED
    assert "(user 1234), who may not enter '/" in ended.document["launch_error"]
