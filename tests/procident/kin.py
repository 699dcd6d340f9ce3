"""Programs that ask who may be signalled of those that they descend from, or belong to."""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Callable
from typing import Any

from fable_exec.procident import ProcessHandle, guarding
from tests.procident.processes import child, end, in_a_child, outcome, to_group
from tests.waiting import until


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
