"""Programs that look at one process from two places: two time namespaces, two PID namespaces, two users."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

from fable_exec._launcher import kernel, linuxos, proctree
from fable_exec.procident import ProcessHandle, ProcessIdentity, compare, identify
from tests.procident.places import YEAR_SECONDS, enter, hide_strangers
from tests.procident.processes import a_tick_later, both_ways, child, end, outcome, without_number
from tests.waiting import until

INSIDE = [sys.executable, "-m", "tests.procident.inside"]
"""How one of these has another one run."""


def a_year_ahead() -> dict[str, Any]:
    """A process of here, looked at from a time namespace whose clocks are a year ahead, and a life there."""
    pid = child()
    recorded = identify(pid)
    shift = ["--boottime", str(YEAR_SECONDS), "--monotonic", str(YEAR_SECONDS)]
    there = ["unshare", "--time", *shift, "--fork", "--kill-child", *INSIDE]
    seen = ProcessIdentity.from_members(_answer([*there, "look", str(pid)]))
    answer = {
        "ticks ahead": int(seen.birth.moment) - int(recorded.birth.moment),
        "compared": both_ways(recorded, seen),
        "compared without the kernel's number": both_ways(without_number(recorded), without_number(seen)),
        "reopened there": _answer([*there, "reopen", json.dumps(recorded.to_members())]),
        "a life there": _answer([*there, "life_of_a_child", "ordinary"]),
    }
    end(pid)
    return answer


def _answer(argv: list[str]) -> Any:
    return json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout)


def look(pid: str) -> dict[str, Any]:
    return identify(int(pid)).to_members()


def reopen(members: str) -> str:
    return outcome(lambda: ProcessHandle.reopen(ProcessIdentity.from_members(json.loads(members))))


def from_two_pid_namespaces(mount_proc: str, place: str) -> dict[str, Any]:
    """One process, looked at from within a PID namespace and from outside of it."""
    options = ["--mount-proc"] if mount_proc == "own proc" else []
    argv = ["unshare", "--pid", "--fork", "--kill-child", *options, *INSIDE]
    with subprocess.Popen([*argv, "within", place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as inner:
        within = ProcessIdentity.from_members(json.loads(inner.stdout.readline()))
        numbers = {innermost(pid): pid for pid in proctree.pids_below(inner.pid)}
        outside = identify(numbers[within.pid])
        inner.stdin.write(json.dumps(outside.to_members()) + "\n")
        inner.stdin.flush()
        said_within = json.loads(inner.stdout.readline())
        inner.stdin.close()
    return {
        "numbers differ": within.pid != outside.pid,
        "namespaces differ": within.pid_namespace != outside.pid_namespace,
        "births": [str(within.birth), str(outside.birth)],
        "compared": both_ways(within, outside),
        "compared without the kernel's number": both_ways(without_number(within), without_number(outside)),
        "said within": said_within,
    }


def within(place: str) -> str:
    """The inner part: tells of a child of ours, hears of it from outside, and signals it."""
    enter(place)
    pid = child()
    print(json.dumps(identify(pid).to_members()), flush=True)
    outside = ProcessIdentity.from_members(json.loads(sys.stdin.readline()))
    with ProcessHandle.of(pid) as handle:
        by_number = [outcome(lambda number=number: reopen_as(outside, number)) for number in (outside.pid, os.getpid())]
        answer = [compare(outside, handle.identity).value, outcome(lambda: handle.send_signal(signal.SIGKILL)), *by_number]
    if answer[1] == "done":
        os.waitpid(pid, 0)
    print(json.dumps(answer), flush=True)
    return sys.stdin.read()


def reopen_as(outside: ProcessIdentity, number: int) -> ProcessHandle:
    """By a number that means nobody here, or somebody else."""
    return ProcessHandle.reopen(attrs.evolve(outside, pid=number))


def innermost(pid: int) -> int:
    """The number that a process has in its own PID namespace."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1])


def strangers_that_proc_hides() -> dict[str, Any]:
    """For root: what one user learns of another's process, and whom it may signal, where /proc hides the others."""
    hide_strangers()
    theirs = child(prepare=lambda: become(1001))
    older = child(prepare=lambda: become(1002))
    until(lambda: a_tick_later(str(identify(older).birth)))
    (to_looker, to_us), (heard, told) = os.pipe(), os.pipe()

    def look_around() -> None:
        until(lambda: a_tick_later(str(identify(os.getpid()).birth)))
        os.write(told, b"x")
        younger = int(os.read(to_looker, 20))
        handles = {name: ProcessHandle.of(pid) for name, pid in (("theirs", theirs), ("older", older), ("younger", younger))}
        asked = {name: outcome(functools.partial(handle.send_signal, 0)) for name, handle in handles.items()}
        os.write(told, json.dumps({"seen": handles["theirs"].identity.to_members(), "asked": asked}).encode())

    looker = child(prepare=lambda: become(1002), life=look_around)
    os.read(heard, 1)
    younger = child(prepare=lambda: become(1002))
    os.write(to_us, str(younger).encode())
    answer = json.loads(os.read(heard, 65536))
    seen = ProcessIdentity.from_members(answer["seen"])
    answer["compared"] = both_ways(identify(theirs), seen)
    os.waitpid(looker, 0)
    for pid in (theirs, older, younger):
        end(pid)
    return dict(answer)


def become(user: int) -> None:
    """An ordinary user who may look at its own processes, as after an execve."""
    os.setsid()
    linuxos.set_ids(user, user)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
