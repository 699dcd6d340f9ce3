"""The job of these runs, which bears witness itself, and what is read from its words.

It notes in its workspace that it ran, holds a lock there as long as anything of it lives, and appends a line every 5 ms. So a
second runner of one id, and one beside another in a workspace, are told by the kernel, and not by the library that is tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from fable_exec._launcher.proctree import children
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.holding import is_held
from fable_exec.policy import BrokerPolicy, Confinement
from fable_exec.supervisor import ExecutionSpec
from tests.keeper.scenes import NEEDS, PROOFS, RUNGS, runs
from tests.waiting import until

__all__ = ["NEEDS", "PROOFS", "RUNGS", "Evidence", "Word", "await_keeper", "runs", "spec_of", "until"]

_LINES, _LIVE, _RAN = "lines", "live", "ran-"

# A line ends with when, by CLOCK_MONOTONIC, which is one for all processes here. A family leaves a daemon that would go on.
_PROGRAM = f"""
import fcntl, os, sys, time
name, seconds, status, family = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "family"
lines = os.open("{_LINES}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def say(word):
    os.write(lines, b"%s %s %d\\n" % (name.encode(), word.encode(), time.monotonic_ns()))
try:
    ran = os.open("{_RAN}" + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    fcntl.flock(ran, fcntl.LOCK_EX)
except FileExistsError:
    say("twice")
live = os.open("{_LIVE}", os.O_RDWR | os.O_CREAT, 0o600)
try:
    fcntl.flock(live, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    say("beside")
say("began")
who = "leader"
if family and os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    who = "daemon"
give_up_at = time.monotonic() + seconds * (1 if who == "leader" else 100)
while time.monotonic() < give_up_at:
    say(who)
    time.sleep(0.005)
say("ended")
os._exit(status)
"""


def spec_of(
    workspace: Path, rung: str, *, execution_id: str, seconds: float, status: int = 0, family: bool = False, **more: Any
) -> ExecutionSpec:
    """One job that runs so long and exits with `status`; as a family it leaves a daemon that would go on much longer."""
    words = (execution_id, str(seconds), str(status), "family" if family else "alone")
    argv = ("python3", "-I", "-S", "-c", _PROGRAM, *words)
    policy = BrokerPolicy(
        workspace=workspace,
        allowed_executables=(argv[0],),
        launch="plain" if rung == "subreaper" else "auto",
        confinement=Confinement.off(),
    )
    return ExecutionSpec(argv=argv, workspace=workspace, policy=policy, execution_id=execution_id, **more)


@attrs.frozen
class Word:
    """One line of a job."""

    name: str
    what: str
    moment: float


@attrs.frozen
class Evidence:
    """What the jobs of one workspace said, in order."""

    words: tuple[Word, ...]

    @classmethod
    def of(cls, workspace: Path) -> Evidence:
        try:
            text = (workspace / _LINES).read_text("ascii")
        except FileNotFoundError:
            return cls(())
        split = (line.split() for line in text.splitlines())
        return cls(tuple(Word(name, what, int(moment) / 1e9) for name, what, moment in split))

    @staticmethod
    def is_alive(workspace: Path, name: str) -> bool:
        """Whether anything of that job lives: it holds a lock, which the kernel gives back at its end."""
        return is_held(workspace / (_RAN + name))

    def runners(self, name: str) -> int:
        """How many began under that id."""
        return sum(word.name == name and word.what == "began" for word in self.words)

    def says(self, name: str, what: str) -> bool:
        return any(word.name == name and word.what == what for word in self.words)

    def last(self, name: str) -> float:
        """The moment of its last word."""
        return max((word.moment for word in self.words if word.name == name), default=0.0)

    def faults(self) -> list[str]:
        """Second runners of an id, and runners beside others in the workspace, as they noticed it themselves."""
        return [f"{word.name} {word.what}" for word in self.words if word.what in ("twice", "beside")]


def await_handed_over(keeper: int) -> None:
    """Until the starter, which would end the job in its keeper's place, is gone."""
    until(lambda: len(children(keeper)) == 1)


def await_keeper(root: Path, execution_id: str, seconds: float = 30.0) -> None:
    """Wait until nobody keeps it any more."""
    lock = ExecutionDirectory.of(root, execution_id).run_lock
    until(lambda: not is_held(lock), seconds)
