"""Numbers of an execution's processes that become strangers' at the worst moments: at a stop, at `recover`, while survivors end.

For a PID namespace of its own, whose next number can be chosen.
"""

from __future__ import annotations

import collections
import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fable_exec.errors import IdentityLost
from fable_exec.policy import BrokerPolicy, Confinement
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor
from tests.supervision_runs.holding_up import held_up_at_its_signal
from tests.supervision_runs.jobs import await_handed_over, await_keeper
from tests.supervision_runs.strangers import Stranger, with_strangers
from tests.waiting import until

_STATUS = 7
# Ends when somebody has opened the FIFO. With two daemons: one that obeys SIGTERM, and one that does not.
_JOB = """
import os, signal, sys, time
if sys.argv[1] == "daemons":
    for number in (signal.SIG_DFL, signal.SIG_IGN):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, number)
            os.write(writing, b"!")
            time.sleep(60)
        os.read(reading, 1)
os.close(os.open("ready", os.O_CREAT | os.O_WRONLY))
open("end").read()
os._exit(7)
"""


class _Scene:
    """One workspace and one supervisor, round after round."""

    def __init__(self, directory: str, rung: str) -> None:
        self.root = Path(directory) / "root"
        self.workspace = Path(directory) / "workspace"
        self.workspace.mkdir(mode=0o700)
        os.mkfifo(self.workspace / "end")
        self.supervisor = Supervisor(self.root)
        self._launch: Any = "plain" if rung == "subreaper" else "auto"

    def start(self, kind: str) -> Execution:
        """A job that is ready."""
        argv = ("python3", "-I", "-S", "-c", _JOB, kind)
        policy = BrokerPolicy(
            workspace=self.workspace, allowed_executables=argv[:1], launch=self._launch, confinement=Confinement.off()
        )
        spec = ExecutionSpec(
            argv=argv,
            workspace=self.workspace,
            policy=policy,
            execution_id=str(uuid.uuid4()),
            descendant_grace_seconds=0.1,
            stop_grace_seconds=0.1,
        )
        (self.workspace / "ready").unlink(missing_ok=True)
        execution = self.supervisor.start(spec)
        until((self.workspace / "ready").exists)
        return execution

    def let_leader_end(self) -> None:
        """It exits with 7 then."""
        os.close(os.open(self.workspace / "end", os.O_WRONLY))

    def told(self, execution: Execution) -> str:
        """How it ended, once nobody keeps it."""
        await_keeper(self.root, execution.execution_id)
        document = self._read(execution)
        return f"{document['termination_reason']} {document['returncode']}"

    def _read(self, execution: Execution) -> dict[str, Any]:
        found = self.supervisor.get(execution.execution_id)
        assert found is not None
        return dict(found.document)


def _gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def at_stop(scene: _Scene) -> tuple[str, list[str]]:
    """A stop is asked for; when the keeper is about to signal the leader that ends by itself, and a stranger gets its number."""
    execution = scene.start("alone")
    keeper, leader = (execution.document[name] for name in ("supervisor_pid", "runner_pid"))
    await_handed_over(keeper)
    strangers: list[Stranger] = []

    def pass_number_on() -> None:
        scene.let_leader_end()
        until(lambda: _gone(leader))
        strangers.append(Stranger(leader))

    held_up_at_its_signal(keeper, lambda: scene.supervisor.request_stop(execution.execution_id), pass_number_on)
    told = scene.told(execution)
    return told, strangers[0].end()


def at_recover(scene: _Scene) -> tuple[str, list[str]]:
    """The keeper dies, and with it its job; strangers get both numbers; then somebody asks for a stop, and recovers."""
    execution = scene.start("alone")
    numbers = [execution.document[name] for name in ("supervisor_pid", "runner_pid")]
    os.kill(numbers[0], signal.SIGKILL)
    until(lambda: all(map(_gone, numbers)))

    def stop_and_recover() -> str:
        try:
            scene.supervisor.request_stop(execution.execution_id)
        except IdentityLost as lost:
            with Supervisor(scene.root) as fresh:
                (told,) = [each for each in fresh.recover() if each.execution_id == execution.execution_id]
            return f"stop refused, gone: {lost.gone}; {told.done.value}; {scene.told(execution)}"
        return "stop was taken"

    return with_strangers(numbers, stop_and_recover)


def at_reconcile(scene: _Scene) -> tuple[str, list[str]]:
    """Two outlive their leader; one obeys SIGTERM, and until the other is killed strangers have its number and the leader's."""
    execution = scene.start("daemons")
    leader = execution.document["runner_pid"]
    obeys, ignores = map(int, Path(f"/proc/{leader}/task/{leader}/children").read_text().split())
    scene.let_leader_end()
    until(lambda: _gone(leader) and _gone(obeys))
    came_in_time = not _gone(ignores)
    answer, signals = with_strangers([leader, obeys], lambda: scene.told(execution))
    assert _gone(ignores)
    return f"{answer}, {'in time' if came_in_time else 'too late'}", signals


MOMENTS: dict[str, Callable[[_Scene], tuple[str, list[str]]]] = {
    "stop": at_stop,
    "recover": at_recover,
    "reconcile": at_reconcile,
}


def reuse(directory: str, rung: str, moment: str, rounds: int) -> dict[str, Any]:
    """So many rounds; how they ended, counted, and every signal that a stranger got."""
    scene = _Scene(directory, rung)
    ends: collections.Counter[str] = collections.Counter()
    signals: collections.Counter[str] = collections.Counter()
    for _ in range(rounds):
        end, got = MOMENTS[moment](scene)
        ends[end] += 1
        signals.update(got)
    scene.supervisor.close()
    return {"ends": dict(ends), "signals": dict(signals)}
