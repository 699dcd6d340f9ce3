"""What a job, its caller or somebody before it has left lying about must not open a way out, hold a keeper up, or lose an end."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec._launcher import kernel, wire
from fable_exec.executions import ExecutionDirectory
from fable_exec.keeper import zygote
from fable_exec.policy import PROTECTIONS, Confinement, Protections
from fable_exec.supervisor import ExecutionSpec
from tests.keeper.scenes import Scene, ending, log

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = ("sh", "mv", "ln", "cat", "touch", "ls", "rm", "dirname", "id")


def exchanged(scene: Scene, name: str, target: Path) -> bytes:
    """A job whose first attempt puts a link to `target` in place of its own directory `name`, and whose second uses it."""
    script = f"""
    runtime=$(dirname $XDG_CACHE_HOME)
    if [ ! -e second ]; then touch second; mv $runtime/{name} $runtime/{name}0; ln -s {target} $runtime/{name}; exit 1; fi
    cat {target}/secret; touch {target}/planted; exit 3
    """
    # Without namespaces not all can be strict; what is asked for is done all the same.
    degradable: dict[str, Any] = dict.fromkeys(PROTECTIONS, "degradable")
    weak = Protections(**degradable)
    confinement = Confinement.strict() if scene.rung == "pidns" else Confinement(protections=weak)
    policy = attrs.evolve(scene.policy(*PROGRAMS), confinement=confinement)
    spec = ExecutionSpec(argv=("sh", "-c", script), workspace=scene.workspace, policy=policy, restarts=1, restart_delay_seconds=0)
    execution = scene.ended(scene.supervisor.start(spec))
    assert ending(execution)[:2] == ("crashed", 3), execution.document
    return log(execution)


@pytest.mark.requires_ability("landlock")
@pytest.mark.parametrize("name", ["home", "tmp", "root", "cache"])
def test_a_second_attempt_gets_no_more_than_the_first(scene: Scene, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("SECRET")
    assert b"SECRET" not in exchanged(scene, name, outside)
    assert sorted(each.name for each in outside.iterdir()) == ["secret"]


def test_who_is_gone_a_moment_after_the_leader_was_not_left_behind(scene: Scene) -> None:
    execution = scene.ended(scene.shell("sleep 0.05 & exit 0"))
    assert ending(execution)[:2] == ("completed", 0)
    assert execution.document["descendants"]["detected"] is False


def test_a_limit_of_the_callers_files_ends_no_keeper(tmp_path: Path) -> None:
    program = f"""
import resource, sys
sys.path.insert(0, {str(PROJECT)!r})
from fable_exec.supervisor import Supervisor
from tests.supervisor.jobs import make_spec
from pathlib import Path
from typing import Any
resource.setrlimit(resource.RLIMIT_FSIZE, (100 * 1024, resource.RLIM_INFINITY))
workspace = Path({str(tmp_path.resolve())!r}) / "workspace"
workspace.mkdir()
with Supervisor(workspace.parent / "root") as supervisor:
    execution = supervisor.start(make_spec(workspace, "sh", "-c", "head -c 200000 /dev/zero; exit 5"))
    ended = supervisor.wait(execution.execution_id, 20)
    print(ended.exit_code, ended.document["output_bytes"], ended.document["output_dropped_bytes"] > 0)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert finished.stdout.split() == ["5", "200000", "True"], finished.stderr


@pytest.mark.parametrize("name", ["runner.log", "supervisor.log", "spec.md"])
def test_a_fifo_in_the_place_of_a_file_holds_nobody_up(scene: Scene, name: str) -> None:
    execution_id = str(uuid.uuid4())
    directory = ExecutionDirectory.of(scene.supervisor.root, execution_id)
    directory.make()
    os.mkfifo(directory.path / name, 0o600)
    execution = scene.ended(scene.shell("exit 4", execution_id=execution_id, spec_text="do it"))
    assert ending(execution)[:2] == ("crashed", 4)


def test_a_job_has_the_callers_limit_of_descriptors(tmp_path: Path) -> None:
    program = f"""
import resource, sys
sys.path.insert(0, {str(PROJECT)!r})
from fable_exec.supervisor import Supervisor
from tests.supervisor.jobs import make_spec
from pathlib import Path
from typing import Any
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
workspace = Path({str(tmp_path.resolve())!r}) / "workspace"
workspace.mkdir()
with Supervisor(workspace.parent / "root") as supervisor:
    execution = supervisor.start(make_spec(workspace, "sh", "-c", "ulimit -n"))
    print(supervisor.wait(execution.execution_id, 20).runner_log.read_text())
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert finished.stdout.split() == ["256"], finished.stderr


@pytest.mark.parametrize("umask", [0o777, 0o177])
def test_a_strange_umask_of_the_caller_fails_no_start(workspace: Path, tmp_path: Path, umask: int) -> None:
    """Also of the directory in which a plan is proved."""
    program = f"""
import os, sys
sys.path.insert(0, {str(PROJECT)!r})
from pathlib import Path
from typing import Any
from fable_exec.supervisor import ExecutionSpec, Supervisor
os.umask({umask})
with Supervisor({str(tmp_path / "root")!r}) as supervisor:
    execution = supervisor.start(ExecutionSpec(argv=["true"], workspace={str(workspace)!r}))
    print(supervisor.wait(execution.execution_id, 20).document["termination_reason"])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert finished.stdout.split() == ["completed"], finished.stderr


def test_the_record_says_that_members_had_to_be_killed(scene: Scene) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(100)"
    os.mkfifo(scene.workspace / "ready")
    script = f'setsid python3 -c "{program}" > ready & read -r _ < ready; exit 0'
    started = scene.shell(script, more_programs=("python3", "setsid"), descendant_grace_seconds=0.3)
    execution = scene.ended(started)
    assert ending(execution)[0] == "descendants_terminated"
    assert execution.document["kill_sent"] is execution.document["descendants"]["kill_sent"] is True
    assert [len(each) for each in execution.document["descendants"]["detected_processes"]] == [2]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("keep", {"answer": "failed", "reason": "fork", "errno": errno.EAGAIN, "text": "[Errno 11] no room"}),
        ("prove", {"failed": "fork", "errno": errno.EAGAIN, "what": ""}),
    ],
)
def test_a_zygote_that_cannot_fork_tells_each_asker_in_its_words(
    monkeypatch: pytest.MonkeyPatch, kind: str, told: dict[str, Any]
) -> None:
    """And outlives one that has gone."""

    def no_room(flags: int) -> int:
        raise OSError(errno.EAGAIN, "no room")

    monkeypatch.setattr(kernel, "clone", no_room)
    ours, theirs = wire.socket_pair()
    with ours:
        zygote._fork({kind: {}}, theirs.detach())
        assert wire.receive(ours)[0] == told
    gone, theirs = wire.socket_pair()
    gone.close()
    zygote._fork({kind: {}}, theirs.detach())
