"""Programs in which a stranger gets the number of a process that ended, in a PID namespace of their own."""

from __future__ import annotations

import collections
import functools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from fable_exec.procident import ProcessHandle, compare, identify
from fable_exec.procident import handle as handles
from tests.procident.places import enter, lose_descriptors
from tests.procident.processes import child, descriptors, end, outcome, runs, to_group

NUMBER = 200


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


def fork_as(number: int) -> None:
    """A child that has just this number, in a PID namespace of ours."""
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(number - 1))
    assert child() == number
