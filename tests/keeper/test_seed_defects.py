"""Each defect of the first supervisor (spec of supervision, section 11): keepers have none, and one that had it would be found.

A check is run twice: on keepers as they are, and on keepers whose code was given the defect, where it has to fail.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.executions.holding import is_held
from fable_exec.lifecycle import Health, State
from fable_exec.procident import identify
from fable_exec.procident import identity as identities
from fable_exec.supervisor import execution as looking
from fable_exec.supervisor.starting import Starts
from tests import disks, hosts
from tests.keeper import escapes
from tests.keeper.scenes import NEEDS, WITHOUT_GROUPS, Scene, ending, keeper_of, log, runs, supervising
from tests.waiting import until


@attrs.frozen(kw_only=True)
class Ground:
    """Where a check works: a directory, a rung, and what is done to the keepers' code."""

    directory: Path
    rung: str
    alteration: str

    @contextlib.contextmanager
    def scene(self) -> Iterator[Scene]:
        """With keepers that have been altered."""
        workspace = self.directory / "workspace"
        workspace.mkdir(mode=0o700)
        with supervising(self.directory, self.alteration) as supervisor:
            yield Scene(supervisor=supervisor, workspace=workspace, rung=self.rung)


# --- the checks ---


def fast_exits_are_no_failures_to_start(ground: Ground) -> None:
    with ground.scene() as scene:
        found = [scene.run("true") for _ in range(10)]
    assert [(ending(each), each.document["launch_error"]) for each in found] == [(("completed", 0, None), None)] * 10


def zombies_do_not_pile_up(ground: Ground) -> None:
    assert escapes.zombies_in_a_box(ground.rung, ground.directory, ground.alteration) == 0


def children_of_the_host_live_on(ground: Ground) -> None:
    answer = escapes.in_a_box(
        ground.rung, "setsid holder", cwd=ground.directory, count=5, max_pids=escapes.FEWER_PIDS, alteration=ground.alteration
    )
    assert answer["touched"] == []


_BLIND = """
from fable_exec._launcher import job_init
job_init._Init._members = lambda self: []
"""


def a_scan_that_saw_nobody_is_no_proof(ground: Ground) -> None:
    """The scan sees nobody, as one does now and then while a family hops from number to number."""
    blind = attrs.evolve(ground, alteration=_BLIND + ground.alteration)
    with blind.scene() as scene:
        marker = hosts.unique_sleep()
        script = f"setsid sleep {marker} >/dev/null 2>&1 & exit 0"
        document = scene.run("bash", "-c", script, descendant_grace_seconds=0.2).document
        left = hosts.alive_with(marker)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert not left, "a proof was told while somebody lived"
    assert document["quiescence_proof"] in ("pidns_dead", "echild")


_NO_BOOT_ID = """
from fable_exec._sys import processes
def hidden():
    raise FileNotFoundError(2, "hidden", "/proc/sys/kernel/random/boot_id")
processes.boot_id = hidden
"""


def a_stop_is_done_without_boot_id(ground: Ground) -> None:
    """As where /proc is mounted without the kernel's settings: the keeper cannot read it."""
    hidden = attrs.evolve(ground, alteration=_NO_BOOT_ID + ground.alteration)
    with hidden.scene() as scene:
        execution = scene.shell("echo go; sleep 60", stop_grace_seconds=1.0)
        scene.said(execution, b"go")
        assert re.fullmatch(r"proc::\d+", execution.document["runner_birth_token"])
        os.kill(keeper_of(execution), signal.SIGTERM)
        found = scene.ended(execution)
    assert (ending(found), found.document["stop_error"]) == (("stopped", None, signal.SIGTERM), None)


def nothing_is_started_again_by_the_same_request(ground: Ground) -> None:
    """The host forgets what it knows, so that the keeper alone decides."""
    with ground.scene() as scene, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Starts, "existing", lambda *_: None)
        spec = scene.spec("bash", "-c", "echo ran >>runs; echo go; sleep 60", execution_id="0e8a5ec5-0000-4000-8000-000000000001")
        execution = scene.supervisor.start(spec)
        scene.said(execution, b"go")
        os.kill(keeper_of(execution), signal.SIGKILL)
        until(lambda: not is_held(execution.directory / "run.lock") and not runs(execution.document["runner_pid"]))
        again = scene.supervisor.start(spec)
        if again.health is Health.RUNNING:
            scene.said(again, b"go\ngo\n")
            os.kill(keeper_of(again), signal.SIGTERM)
            scene.ended(again)
        assert (scene.workspace / "runs").read_text() == "ran\n"


_EARLY = """
import os, signal
from fable_exec.keeper import zygote
_keep = zygote.keep
def keep(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    _keep(*arguments)
zygote.keep = keep
"""


def an_early_sigterm_is_honoured(ground: Ground) -> None:
    early = attrs.evolve(ground, alteration=_EARLY + ground.alteration)
    with early.scene() as scene:
        try:
            found = ending(scene.ended(scene.shell("echo here >made")))
        except Exception as error:
            raise AssertionError("it was lost") from error
    assert found == ("launch_failed", None, None)


def a_full_disk_leaves_no_execution_running(ground: Ground) -> None:
    (ground.directory / "disk").mkdir()
    (ground.directory / "alteration").write_text(ground.alteration)
    answer = disks.on_tmpfs(ground.directory / "disk", "size=512k", _ON_A_FULL_DISK, str(ground.directory), ground.rung)
    assert (answer.stdout, answer.stderr) == ("crashed 3 exited\n", "")


_ON_A_FULL_DISK = """
    import os, sys
    from pathlib import Path
    from tests.keeper.scenes import Scene, supervising
    directory, rung = Path(sys.argv[1]), sys.argv[2]
    workspace = directory / "workspace"
    workspace.mkdir(mode=0o700)
    os.mkfifo(workspace / "end")
    with supervising(Path.cwd(), (directory / "alteration").read_text()) as supervisor:
        scene = Scene(supervisor=supervisor, workspace=workspace, rung=rung)
        execution = scene.shell("read <end; exit 3")
        with open("ballast", "ab", buffering=0) as ballast:
            for size in (4096, 1):
                try:
                    while ballast.write(bytes(size)):
                        pass
                except OSError:
                    pass
        (workspace / "end").write_text("\\n")
        found = scene.left(execution)
        print(found.termination_reason and found.termination_reason.value, found.exit_code, found.state.value)
"""


def one_number_and_one_tick_are_not_one_process(ground: Ground) -> None:
    """The record of a job that is gone, whose number a stranger got within one tick: only the kernel's own number differs."""
    with ground.scene() as scene:
        execution = scene.run("true")
        members: dict[str, Any] = identify(os.getpid()).to_members()
        document = {**execution.document, "runner_identity": {**members, "unique_id": members["unique_id"] - 1}}
    assert looking.liveness_of_runner(document).value == "dead"


def a_healthy_start_never_looks_lost(ground: Ground) -> None:
    """Looked at between two of its writes: it ends after its state was read and before its keeper is looked for."""
    with ground.scene() as scene, pytest.MonkeyPatch.context() as patch:
        execution = scene.shell("read -t 0.1 <> <(:)")
        held = is_held

        def after_the_end(path: Path) -> bool:
            until(lambda: not held(path))
            return held(path)

        patch.setattr(looking, "is_held", after_the_end)
        found = scene.look(execution)
    assert (found.health, found.state) == (Health.EXITED, State.EXITED)


_SLOWLY = """
import time
from fable_exec.keeper import recording
_write = recording.Recorder.write
def write(self, members):
    time.sleep(1.0)
    return _write(self, members)
recording.Recorder.write = write
"""


def the_gate_opens_after_the_record_is_durable(ground: Ground) -> None:
    """A job that is not confined reads in its own state that it runs, however slow the disk is."""
    slow = attrs.evolve(ground, alteration=_SLOWLY + ground.alteration)
    with slow.scene() as scene:
        execution = scene.run("sh", "-c", """grep '^  "state":' "$FABLE_EXEC_DIR/state.json\"""")
        assert log(execution) == b'  "state": "running",\n'


# --- the defects ---

_BY_ENVIRON = """
from fable_exec.keeper import job
from fable_exec._launcher.spawn import SpawnFailed
_take = job.Job.take_answer
def take_answer(self):
    _take(self)
    self.leader.wait(5.0)  # it is fast
    try:
        marked = open(f"/proc/{self.leader.pid}/environ", "rb").read()
    except OSError:
        marked = b""
    return None if marked else SpawnFailed("exec", 2, "no marker in its environment")
job.Job.take_answer = take_answer
"""
_REAPS_THE_LEADER = """
from fable_exec._launcher import job_init, reaping
def take_zombies(self):
    if not self._leader:
        return None
    pid, status, usage = reaping.wait_usage(self._leader, 1)
    if pid:
        self._leader = 0
        return status, usage
job_init._Init._take_zombies = take_zombies
"""
_KILLS_THE_HOSTS = """
import os
from fable_exec._launcher.proctree import children
from fable_exec.keeper import reconciling
_host = os.getppid()
_tell = reconciling.Reconciliation._tell
def tell(self, proof):
    for pid in children(_host):
        if pid not in (os.getpid(), os.getppid()):
            os.kill(pid, 15)
    _tell(self, proof)
reconciling.Reconciliation._tell = tell
"""
_SCAN_AS_PROOF = """
import os
from fable_exec.keeper import reconciling
def hear(self, message):
    if not message.get("members") and not self._is_over:
        self._is_over = True
        os.kill(self._job.init, 9)
        self._tell("echild")
reconciling.Reconciliation.hear = hear
"""
_WHOLE_TOKENS_ONLY = """
from fable_exec.procident import handle
_send = handle.ProcessHandle.send_signal_to_group
def send(self, number, **recorded):
    if not self.identity.boot_id:
        raise handle.SignalRefused(handle.GROUP_SIGNAL_REFUSED, reason="no boot id")
    _send(self, number, **recorded)
handle.ProcessHandle.send_signal_to_group = send
"""
_RUNS_AGAIN = """
from fable_exec.keeper import claiming
claiming._existing = lambda held, request: None
"""
_DEAF_AT_FIRST = """
import signal
signal.pthread_sigmask = lambda how, numbers: set()
"""
_NO_RECORD = """
from fable_exec.statefile import StateFile
def conclude(self, record, outcome, timeout_seconds=5.0):
    with self.locked() as held:
        held.write({**held.require().document, **outcome})
StateFile.conclude = conclude
"""
_OPENS_FIRST = """
from fable_exec.keeper import acting
from fable_exec.lifecycle import Action
_record = acting.ACTIONS[Action.RECORD_RUNNING]
def opened_first(course):
    course.job.open_gate()
    return _record(course)
acting.ACTIONS[Action.RECORD_RUNNING] = opened_first
"""


def _ticks_alone(patch: pytest.MonkeyPatch) -> None:
    from fable_exec.procident import handle

    def by_tick(recorded: identities.ProcessIdentity, live: identities.ProcessIdentity) -> identities.Comparison:
        return identities.Comparison.SAME if recorded.birth == live.birth else identities.Comparison.OTHER

    patch.setattr(handle, "compare", by_tick)


def _looks_once(patch: pytest.MonkeyPatch) -> None:
    from fable_exec.lifecycle import health

    patch.setattr(looking, "health_by_looking", lambda state, keeper, job: health(state(), keeper(), job()))


@attrs.frozen(kw_only=True)
class Defect:
    """A check, how the defect comes into the keepers' code or into this process, and the rungs that do not mend it."""

    check: Callable[[Ground], None]
    alteration: str = ""
    here: Callable[[pytest.MonkeyPatch], None] = lambda patch: None
    rungs: tuple[str, ...] = ("pidns", "subreaper")


DEFECTS = {
    "false 127 on fast exits": Defect(check=fast_exits_are_no_failures_to_start, alteration=_BY_ENVIRON),
    "zombie floods": Defect(check=zombies_do_not_pile_up, alteration=_REAPS_THE_LEADER),
    "killing the host's unrelated children": Defect(check=children_of_the_host_live_on, alteration=_KILLS_THE_HOSTS),
    "calling a scan a proof": Defect(check=a_scan_that_saw_nobody_is_no_proof, alteration=_SCAN_AS_PROOF, rungs=("subreaper",)),
    "refusing stop without boot id": Defect(check=a_stop_is_done_without_boot_id, alteration=_WHOLE_TOKENS_ONLY),
    "a second runner after a crash": Defect(check=nothing_is_started_again_by_the_same_request, alteration=_RUNS_AGAIN),
    "losing an early SIGTERM": Defect(check=an_early_sigterm_is_honoured, alteration=_DEAF_AT_FIRST),
    "running for ever on a full disk": Defect(check=a_full_disk_leaves_no_execution_running, alteration=_NO_RECORD),
    "number and ticks taken as unique": Defect(check=one_number_and_one_tick_are_not_one_process, here=_ticks_alone),
    "a healthy start that looks lost": Defect(check=a_healthy_start_never_looks_lost, here=_looks_once),
    "the gate opened before the record": Defect(check=the_gate_opens_after_the_record_is_durable, alteration=_OPENS_FIRST),
}


def _case(name: str, rung: str) -> Any:
    needs = (*NEEDS[rung], "pid_namespace", "own_pid_max", "userns")
    return pytest.param(name, rung, id=f"{name}-{rung}", marks=pytest.mark.requires_ability(*needs))


@pytest.mark.parametrize(("name", "rung"), [_case(name, rung) for name in DEFECTS for rung in NEEDS])
def test_keepers_do_not_have_it(name: str, rung: str, tmp_path: Path) -> None:
    DEFECTS[name].check(Ground(directory=tmp_path, rung=rung, alteration=WITHOUT_GROUPS))


@pytest.mark.parametrize(("name", "rung"), [_case(name, rung) for name, defect in DEFECTS.items() for rung in defect.rungs])
def test_who_has_it_is_found(name: str, rung: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defect = DEFECTS[name]
    defect.here(monkeypatch)
    with pytest.raises(AssertionError):
        defect.check(Ground(directory=tmp_path, rung=rung, alteration=WITHOUT_GROUPS + defect.alteration))
