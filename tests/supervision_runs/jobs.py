"""The job of these runs, which bears witness itself, and what is read from its words.

It notes in its workspace that it ran, holds a lock there as long as anything of it lives, and appends a line every 5 ms. So a second
runner of one id, and one beside another in a workspace, are told by the kernel, and not by the library that is tested.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.holding import is_held
from fable_exec.policy import BrokerPolicy, Confinement
from fable_exec.supervisor import ExecutionSpec

RUNGS = ("pidns", "subreaper")
NEEDS = {"pidns": ("pid_namespace", "own_proc", "pidfd"), "subreaper": ("linux", "pidfd")}
PROOFS = {"pidns": "pidns_dead", "subreaper": "echild"}
LONG_SECONDS = 30.0
"""For what must come at all."""

_LINES, _LIVE, _RAN = "lines", "live", "ran-"

# "tick" is the wall of evidence: who, when (CLOCK_MONOTONIC, one for all processes here), from which process of the family.
_PROGRAM = f"""
import fcntl, os, signal, sys, time
name, seconds, status, family = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "family"
lines = os.open("{_LINES}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def say(word):
    os.write(lines, b"%s %s %d\\n" % (name.encode(), word.encode(), time.monotonic_ns()))
try:
    os.close(os.open("{_RAN}" + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
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
give_up_at = time.monotonic() + seconds
while time.monotonic() < give_up_at:
    say(who)
    time.sleep(0.005)
if who == "leader":
    say("ended-%d" % status)
os._exit(status)
"""


def spec_of(
    workspace: Path, rung: str, *, execution_id: str, seconds: float, status: int = 0, family: bool = False, **more: Any
) -> ExecutionSpec:
    """One job that runs so long and exits with `status`; as a family it leaves a daemon that would go on as long."""
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


def until(condition: Callable[[], Any], seconds: float = LONG_SECONDS) -> Any:
    """Wait for what no descriptor tells, and return it."""
    give_up_at = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up_at, "it did not come"
        time.sleep(0.001)
    return found


def await_keeper(root: Path, execution_id: str, seconds: float = LONG_SECONDS) -> None:
    """Wait until nobody keeps it any more."""
    lock = ExecutionDirectory.of(root, execution_id).run_lock
    until(lambda: not is_held(lock), seconds)
