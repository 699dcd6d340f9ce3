"""Programs that the tests of this room run in processes, and mostly in namespaces, of their own.

`python -m tests.procident.inside NAME ARGUMENT...` prints what the function NAME answers, as JSON.
"""

from __future__ import annotations

import collections
import ctypes
import errno
import functools
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import attrs

from fable_exec._launcher import confine_steps, kernel, linuxos, proctree
from fable_exec.confine.programs import assemble
from fable_exec.confine.seccomp import ARCHITECTURES, Condition, Rule, deny
from fable_exec.errors import IdentityLost, SignalRefused
from fable_exec.procident import GROUP_SIGNAL_REFUSED, ProcessHandle, ProcessIdentity, compare, guarding, identify
from fable_exec.procident import handle as handles
from tests.waiting import LONG_SECONDS, until

YEAR_SECONDS = 365 * 24 * 3600
NUMBER = 200

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


# --- processes ---


def child(*, prepare: Callable[[], object] = os.setsid, life: Callable[[], object] = signal.pause) -> int:
    """Fork one and wait until it is prepared: as the leader of a session of its own. Then it lives by `life`: until a signal."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            prepare()
            os.close(writing)
            life()
        finally:
            os._exit(0)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return pid


def end(pid: int) -> None:
    """End a child and take its status."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def in_a_child(act: Callable[[], Any]) -> Any:
    """What `act` answers in a forked child of ours."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            os.write(writing, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    answer = json.loads(os.read(reading, 65536) or b'"it failed"')
    os.close(reading)
    os.waitpid(pid, 0)
    return answer


def runs(pid: int) -> bool:
    """Whether our child has not ended."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def a_tick_later(birth: str) -> bool:
    """Whether a process that is born now is born in another clock tick than that of `birth`."""
    return bool(in_a_child(lambda: str(identify(os.getpid()).birth)) != birth)


def outcome(act: Callable[[], Any]) -> str:
    """In a few words what became of an act. A handle that it opened is closed."""
    try:
        answer = act()
    except IdentityLost as error:
        return "gone" if error.gone else "unproved"
    except SignalRefused as error:
        return f"refused: {error.reason}"
    if isinstance(answer, ProcessHandle):
        answer.close()
    return "done"


def to_group(handle: ProcessHandle, number: int, *, pgid: int | None = None, sid: int | None = None) -> None:
    """Recorded as the leader of its own group and session, unless said otherwise. All refusals have one text."""
    recorded = [handle.pid if given is None else given for given in (pgid, sid)]
    try:
        handle.send_signal_to_group(number, recorded_pgid=recorded[0], recorded_sid=recorded[1])
    except SignalRefused as error:
        assert str(error) == GROUP_SIGNAL_REFUSED, error
        raise


def descriptors() -> list[int]:
    """Those beyond the first three; found without /proc, which may be gone."""
    found = []
    for number in range(3, 64):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    return found


# --- kernels that lack something, and a /proc that hides something; each for good ---


def lose_descriptors() -> None:
    """As before Linux 5.3, or in a sandbox: no process can be opened."""
    _filter(Rule(("pidfd_open",), deny(errno.ENOSYS)))


def lose_group_signals() -> None:
    """As before Linux 6.9: the flag PIDFD_SIGNAL_PROCESS_GROUP is unknown."""
    _filter(Rule(("pidfd_send_signal",), deny(errno.EINVAL), (Condition(argument=3, values=(4,)),)))


def hide_system() -> None:
    """A /proc of processes only, which does not show the name of the boot."""
    kernel.mount("proc", "/proc", "proc", 0, "subset=pid")


def hide_strangers() -> None:
    """A /proc that shows to each user its own processes only."""
    kernel.mount("proc", "/proc", "proc", 0, "hidepid=invisible")


def lose_proc() -> None:
    """No /proc at all."""
    kernel.mount("tmpfs", "/proc", "tmpfs", 0)


def _filter(rule: Rule) -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    confine_steps.load_filter(assemble([rule], platform.machine()).to_wire())


PLACES: dict[str, tuple[Callable[[], None], ...]] = {
    "ordinary": (),
    "no descriptors": (lose_descriptors,),
    "no group signals": (lose_group_signals,),
    "processes only": (hide_system,),
    "no proc": (lose_proc,),
    "processes only, no descriptors": (hide_system, lose_descriptors),
    "no proc, no descriptors": (lose_proc, lose_descriptors),
}


def enter(place: str) -> None:
    for lose in PLACES[place]:
        lose()


# --- the programs ---


@program
def life_of_a_child(place: str) -> dict[str, Any]:
    """A child of ours, from its start to its end, as this room sees it from a place."""
    enter(place)
    pid = child()
    with ProcessHandle.of(pid) as handle:
        recorded = handle.identity
        answer: dict[str, Any] = {
            "recorded": recorded.to_members(),
            "weaker": handle.weaker,
            "again": compare(recorded, identify(pid)).value,
            "reopened": outcome(lambda: ProcessHandle.reopen(recorded)),
            "asked": outcome(lambda: handle.send_signal(0)),
            "group of another session": outcome(lambda: to_group(handle, signal.SIGKILL, sid=os.getsid(0))),
            "ran on": runs(pid),
            "group": outcome(lambda: to_group(handle, signal.SIGKILL)),
        }
        if answer["group"] != "done":
            os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        answer["waited for"] = outcome(lambda: handle.wait(LONG_SECONDS))
        answer["signal to the zombie"] = outcome(lambda: handle.send_signal(signal.SIGKILL))
        answer["looked at as a zombie"] = outcome(lambda: identify(pid))
        answer["reopened as a zombie"] = outcome(lambda: ProcessHandle.reopen(recorded))
        os.waitpid(pid, 0)
        answer["signal to nobody"] = outcome(lambda: handle.send_signal(signal.SIGKILL))
        answer["reopened as nobody"] = outcome(lambda: ProcessHandle.reopen(recorded))
    return {**answer, "left open": descriptors()}


@program
def signal_to_an_orphan(place: str) -> str:
    """The end of one that is neither our child nor our ancestor, by its record."""
    enter(place)
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        os.write(writing, str(child()).encode())
        os._exit(0)
    os.waitpid(between, 0)
    with ProcessHandle.of(int(os.read(reading, 20))) as handle:
        said = outcome(lambda: handle.send_signal(signal.SIGKILL))
        return "done, and it ended" if said == "done" and handle.wait(LONG_SECONDS) else said


def fork_as(number: int) -> None:
    """A child that has just this number, in a PID namespace of ours."""
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(number - 1))
    assert child() == number


@program
def reuse(rounds: str) -> dict[str, int]:
    """Give one number to one process after the other, and try every way to reach the former by it."""
    counts: collections.Counter[str] = collections.Counter()
    for _ in range(int(rounds)):
        fork_as(NUMBER)
        with ProcessHandle.of(NUMBER) as handle:
            recorded = handle.identity
            end(NUMBER)
            fork_as(NUMBER)
            live = identify(NUMBER)
            counts["born in one tick"] += recorded.birth == live.birth
            counts[f"compared: {compare(recorded, live).value}"] += 1
            counts[f"alive: {handle.is_alive()}"] += 1
            _try_to_reach(handle, counts)
    return dict(counts)


@program
def reuse_without_descriptors(rounds: str) -> dict[str, int]:
    """The same without descriptors, where each stranger is born in a later tick than the one whose number it gets."""
    lose_descriptors()
    counts: collections.Counter[str] = collections.Counter()
    for _ in range(int(rounds)):
        fork_as(NUMBER)
        with ProcessHandle.of(NUMBER) as handle:
            end(NUMBER)
            fork_as(NUMBER)
            while identify(NUMBER).birth == handle.identity.birth:
                end(NUMBER)
                fork_as(NUMBER)
            _try_to_reach(handle, counts)
    return dict(counts)


@program
def reuse_at_the_last_moment(place: str) -> dict[str, Any]:
    """The process ends, and a stranger gets its number, after the handle has found it alive and before it signals."""
    enter(place)
    answers: dict[str, Any] = {}
    for name, act in (("signal", lambda handle: handle.send_signal(signal.SIGKILL)), ("group", _signal_group)):
        fork_as(NUMBER)
        with ProcessHandle.of(NUMBER) as handle, mock.patch.object(handles, "why_protected", functools.partial(_pass_on, handle)):
            answers[name] = outcome(functools.partial(act, handle))
        answers[f"stranger after {name}"] = runs(NUMBER)
        end(NUMBER)
    return answers


def _signal_group(handle: ProcessHandle) -> None:
    to_group(handle, signal.SIGKILL)


def _pass_on(handle: ProcessHandle, *_: Any, **__: Any) -> str:
    """Instead of the last question before a signal: nothing speaks against it."""
    end(NUMBER)
    fork_as(NUMBER)
    while identify(NUMBER).birth == handle.identity.birth and handle.identity.unique_id is None:
        end(NUMBER)
        fork_as(NUMBER)
    return ""


@program
def reuse_while_reopening() -> dict[str, Any]:
    """The process ends, and a stranger gets its number, between the steps of reopening it, whichever comes first."""
    steps = {name: getattr(handles, name) for name in ("open_descriptor", "identify_by", "identify")}
    was_passed_on = False

    def then_pass_on(step: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal was_passed_on
        answer = step(*arguments)
        if not was_passed_on:
            was_passed_on = True
            end(NUMBER)
            fork_as(NUMBER)
        return answer

    fork_as(NUMBER)
    recorded = identify(NUMBER)
    passing_on: dict[str, Any] = {name: functools.partial(then_pass_on, step) for name, step in steps.items()}
    with mock.patch.multiple(handles, **passing_on):
        answer = outcome(lambda: ProcessHandle.reopen(recorded))
    assert was_passed_on
    end(NUMBER)
    return {"reopened": answer, "left open": descriptors()}


def _try_to_reach(former: ProcessHandle, counts: collections.Counter[str]) -> None:
    """By every way; then end the stranger."""
    counts[f"reopened: {outcome(lambda: ProcessHandle.reopen(former.identity))}"] += 1
    counts[f"signal: {outcome(lambda: former.send_signal(signal.SIGKILL))}"] += 1
    counts[f"group: {outcome(lambda: to_group(former, signal.SIGKILL)).partition(':')[0]}"] += 1
    counts["strangers that live on"] += runs(NUMBER)
    end(NUMBER)


@program
def ancestors() -> dict[str, str]:
    """Asked for by a great-grandchild of ours, all of its line leading sessions, and itself.

    Only the signal 0 is sent, which asks: nobody is hurt by a defect.
    """
    return dict(_in_a_session(lambda: _in_a_session(lambda: _in_a_session(_ask_the_whole_line))))


def _in_a_session(act: Callable[[], Any]) -> Any:
    """What `act` answers in a child that leads a group and session of its own."""

    def lead() -> Any:
        os.setsid()
        return act()

    return in_a_child(lead)


def _ask_the_whole_line() -> dict[str, str]:
    line = guarding.own_line()
    assert line.is_whole and {1, os.getppid(), os.getpid()} < line.numbers
    answers = {}
    for number in line.numbers:
        with ProcessHandle.of(number) as handle:
            answers[str(number)] = outcome(functools.partial(handle.send_signal, 0))
            answers[f"group of {number}"] = outcome(functools.partial(to_group, handle, 0))
    return answers


@program
def groups_we_are_in() -> dict[str, str]:
    """The group of a leader that is no ancestor, asked for from within it, and by one whose parent is within."""
    reading, writing = os.pipe()

    def lead() -> None:
        leader = os.getpid()
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork() == 0:
                until(lambda: os.getppid() != between)
                asked = {"by a member": _ask(leader), "by a child of one": in_a_child(lambda: _leave_and_ask(leader))}
                os.write(writing, json.dumps(asked).encode())
            os._exit(0)
        os.waitpid(between, 0)
        signal.pause()

    leader = child(life=lead)
    answer = json.loads(os.read(reading, 65536))
    end(leader)
    return dict(answer)


def _ask(leader: int) -> str:
    assert leader not in guarding.own_line().numbers
    with ProcessHandle.of(leader) as handle:
        return outcome(lambda: to_group(handle, 0))


def _leave_and_ask(leader: int) -> str:
    os.setpgid(0, 0)
    return _ask(leader)


@program
def a_year_ahead() -> dict[str, Any]:
    """A process of here, looked at from a time namespace whose clocks are a year ahead, and a life there."""
    pid = child()
    recorded = identify(pid)
    shift = ["--boottime", str(YEAR_SECONDS), "--monotonic", str(YEAR_SECONDS)]
    there = ["unshare", "--time", *shift, "--fork", "--kill-child", sys.executable, "-m", "tests.procident.inside"]
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


@program
def look(pid: str) -> dict[str, Any]:
    return identify(int(pid)).to_members()


@program
def reopen(members: str) -> str:
    return outcome(lambda: ProcessHandle.reopen(ProcessIdentity.from_members(json.loads(members))))


def both_ways(one: ProcessIdentity, other: ProcessIdentity) -> list[str]:
    return [compare(one, other).value, compare(other, one).value]


def without_number(identity: ProcessIdentity) -> ProcessIdentity:
    """As a kernel before 6.9 would have told it."""
    return attrs.evolve(identity, unique_id=None)


@program
def from_two_pid_namespaces(mount_proc: str, place: str) -> dict[str, Any]:
    """One process, looked at from within a PID namespace and from outside of it."""
    options = ["--mount-proc"] if mount_proc == "own proc" else []
    argv = ["unshare", "--pid", "--fork", "--kill-child", *options, sys.executable, "-m", "tests.procident.inside"]
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


@program
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


@program
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


@program
def first_thread_ended() -> dict[str, Any]:
    """A process whose first thread has ended while another one lives on: /proc calls it a zombie."""
    pid = child(life=_live_on_in_a_thread)
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    with ProcessHandle.of(pid) as handle:
        lose_descriptors()
        answer = {
            "alive": handle.is_alive(),
            "looked at without descriptors": identify(pid).birth == handle.identity.birth,
            "signal": outcome(lambda: handle.send_signal(signal.SIGKILL)),
            "ended": handle.wait(LONG_SECONDS),
            "dead without descriptors": outcome(lambda: identify(pid)),
        }
    os.waitpid(pid, 0)
    return answer


def _live_on_in_a_thread() -> None:
    threading.Thread(target=signal.pause).start()
    ctypes.CDLL(None).syscall(ctypes.c_long(ARCHITECTURES[platform.machine()].numbers["exit"]), ctypes.c_long(0))


@program
def descriptors_used_up() -> dict[str, str]:
    """Neither a look nor a handle may get weaker in silence when the process has no descriptor left."""
    pid = child()
    used = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (used[0] + 1, used[0] + 1))
    answers = {}
    for name, act in (("identify", identify), ("of", ProcessHandle.of)):
        try:
            act(pid)
        except OSError as error:
            answers[name] = errno.errorcode[error.errno or 0]
    end(pid)
    return answers


def main() -> None:
    name, *arguments = sys.argv[1:]
    print(json.dumps(PROGRAMS[name](*arguments)))


if __name__ == "__main__":
    main()
