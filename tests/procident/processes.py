"""Processes that a test makes and ends, and in a few words what became of an act upon one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import attrs

from fable_exec.errors import IdentityLost, SignalRefused
from fable_exec.procident import GROUP_SIGNAL_REFUSED, ProcessHandle, ProcessIdentity, compare, identify


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


def both_ways(one: ProcessIdentity, other: ProcessIdentity) -> list[str]:
    return [compare(one, other).value, compare(other, one).value]


def without_number(identity: ProcessIdentity) -> ProcessIdentity:
    """As a kernel before 6.9 would have told it."""
    return attrs.evolve(identity, unique_id=None)
