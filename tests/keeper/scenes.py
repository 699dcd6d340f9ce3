"""Supervised executions of tests: the two rungs, real programs, and the end of each as its record tells it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from fable_exec.executions.holding import is_held
from fable_exec.policy import BrokerPolicy, Confinement, EnvironmentPolicy, Limits
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor
from fable_exec.supervisor import zygote as zygotes
from tests.commands import ENVIRONMENT, identity
from tests.waiting import LONG_SECONDS, until

RUNGS = ("pidns", "subreaper")
NEEDS = {"pidns": ("pid_namespace", "own_proc", "pidfd"), "subreaper": ("linux", "pidfd")}
PROOFS = {"cgroup": "cgroup_empty", "pidns": "pidns_dead", "subreaper": "echild"}
WITHOUT_GROUPS = """
from fable_exec.keeper import inits
inits.make_leaf = lambda name: None
"""
"""For the rungs below control groups, also where those can be had."""
_PROGRAM = """
import os, sys
sys.path[:0] = sys.argv[1:-1]
{alteration}
from fable_exec.keeper.zygote import serve
os.chdir("/")
serve(int(sys.argv[-1]))
"""


@contextmanager
def supervising(directory: Path, alteration: str = WITHOUT_GROUPS) -> Iterator[Supervisor]:
    """A supervisor with a root in `directory`, whose keepers begin with `alteration`: Python that changes their code."""
    program = directory / "keepers.py"
    program.write_text(_PROGRAM.format(alteration=alteration))
    usual, zygotes._PROGRAM = zygotes._PROGRAM, program
    try:
        with Supervisor(directory / "root") as supervisor:
            supervisor._zygotes.get(identity(directory).command_owner())
            yield supervisor
    finally:
        zygotes._PROGRAM = usual


@attrs.frozen(kw_only=True)
class Scene:
    """A supervisor, a workspace, and the rung that holds the jobs in it."""

    supervisor: Supervisor
    workspace: Path
    rung: str

    def policy(self, *programs: str, limits: Limits | None = None, confined: bool = False) -> BrokerPolicy:
        """One that allows these programs, unconfined but for what the rung is."""
        return BrokerPolicy(
            workspace=self.workspace,
            allowed_executables=programs,
            launch="plain" if self.rung == "subreaper" else "auto",
            confinement=Confinement.strict() if confined else Confinement.off(),
            limits=limits or Limits(),
            environment=EnvironmentPolicy(path=tuple(ENVIRONMENT["PATH"].split(":"))),
        )

    def spec(
        self,
        *argv: str,
        limits: Limits | None = None,
        confined: bool = False,
        more_programs: tuple[str, ...] = (),
        **more: Any,
    ) -> ExecutionSpec:
        """The specification of one job."""
        policy = self.policy(argv[0], *more_programs, limits=limits, confined=confined)
        return ExecutionSpec(argv=argv, workspace=self.workspace, policy=policy, **more)

    def start(self, *argv: str, **more: Any) -> Execution:
        """Start it."""
        return self.supervisor.start(self.spec(*argv, **more))

    def shell(self, script: str, **more: Any) -> Execution:
        """Start a bash script."""
        return self.start("bash", "-c", script, **more)

    def python(self, program: str, **more: Any) -> Execution:
        """Start a Python program, without site so that it starts fast."""
        return self.start("python3", "-I", "-S", "-c", program, **more)

    def look(self, execution: Execution) -> Execution:
        """The same as of now."""
        found = self.supervisor.get(execution.execution_id)
        assert found is not None
        return found

    def ended(self, execution: Execution, seconds: float = LONG_SECONDS) -> Execution:
        """The same once its keeper is gone; its end must be recorded then."""
        found = self.left(execution, seconds)
        assert found.is_over, found.to_members()
        return found

    def left(self, execution: Execution, seconds: float = LONG_SECONDS) -> Execution:
        """The same once nobody keeps it, whatever is recorded."""
        until(lambda: not is_held(execution.directory / "run.lock"), seconds)
        return self.look(execution)

    def run(self, *argv: str, **more: Any) -> Execution:
        """Start it and see it end."""
        return self.ended(self.start(*argv, **more))

    def said(self, execution: Execution, text: bytes) -> None:
        """Wait until it has said `text`."""
        until(lambda: text in log(execution))


def log(execution: Execution) -> bytes:
    """Both streams of the job, as kept."""
    return execution.runner_log.read_bytes()


def events(execution: Execution) -> list[dict[str, Any]]:
    """What its keeper noted."""
    return [json.loads(line) for line in (execution.directory / "supervisor.log").read_text().splitlines()]


def ending(execution: Execution) -> tuple[str, int | None, int | None]:
    """Why it ended, its status and its signal; that the two agree with `returncode` is looked at here."""
    document = execution.document
    status, signal = document["exit_code"], document["signal"]
    assert document["returncode"] == (status if signal is None else -signal)
    return document["termination_reason"], status, signal


def descendants(execution: Execution) -> dict[str, Any]:
    """What is said of those that outlived the leader, by the flags alone, and how many were found and remain."""
    told = execution.document["descendants"]
    flags = {name: told[name] for name in ("checked", "detected", "quiescent", "term_sent", "kill_sent")}
    assert told["error"] is None
    return {**flags, "found": len(told["detected_processes"]), "remaining": len(told["remaining_pids"])}


def keeper_of(execution: Execution) -> int:
    """Its number."""
    found: int = execution.document["supervisor_pid"]
    return found


def init_of(execution: Execution) -> int:
    """The number of the leader's parent."""
    stat = Path(f"/proc/{execution.document['runner_pid']}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def zygote_of(supervisor: Supervisor) -> int:
    """The child of ours that forks keepers."""
    (zygote,) = supervisor._zygotes._own().values()
    return zygote._program.pid


def runs(pid: int) -> bool:
    """Whether there is such a process, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def make_executable(path: Path, text: bytes) -> Path:
    """A program in a file, closed before anybody executes it."""
    path.write_bytes(text)
    os.chmod(path, 0o755)
    return path
