"""Programs that the tests of this room run in processes, and mostly in namespaces, of their own.

`python -m tests.procident.inside NAME ARGUMENT...` prints what the function NAME answers, as JSON.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from fable_exec.confine.seccomp import ARCHITECTURES
from fable_exec.procident import ProcessHandle, compare, identify
from tests.procident import kin, reusing, views
from tests.procident.places import enter, lose_descriptors
from tests.procident.processes import child, descriptors, end, outcome, runs, to_group
from tests.waiting import LONG_SECONDS, until


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


PROGRAMS = {
    each.__name__: each
    for each in (
        life_of_a_child,
        signal_to_an_orphan,
        first_thread_ended,
        descriptors_used_up,
        reusing.reuse,
        reusing.reuse_without_descriptors,
        reusing.reuse_at_the_last_moment,
        reusing.reuse_while_reopening,
        kin.ancestors,
        kin.groups_we_are_in,
        views.a_year_ahead,
        views.look,
        views.reopen,
        views.from_two_pid_namespaces,
        views.within,
        views.strangers_that_proc_hides,
    )
}


def main() -> None:
    name, *arguments = sys.argv[1:]
    print(json.dumps(PROGRAMS[name](*arguments)))


if __name__ == "__main__":
    main()
