"""Which limit of the policy ended a job, told by its own name, and what a job that gets SIGXCPU is."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from fable_exec.keeper.processor_time import ended_for_processor_time
from fable_exec.policy import Limits
from tests.keeper.scenes import Scene, descendants, ending, events

ONE_SECOND = Limits(cpu_seconds=1)
BURN = "while True: pass"
CROWD = "import os, signal\nfor _ in range(60):\n    if os.fork() == 0: signal.pause()\nsignal.pause()"
THREE_BURN = "import os, signal\nfor _ in range(3):\n    if os.fork() == 0:\n        while True: pass\n"
"""Each has a third of the time when all together have used it up: the kernel's limit of one process is far away."""
WAIT = "signal.pause()"


def run(scene: Scene, program: str, limits: Limits) -> Any:
    return scene.ended(scene.python(program, limits=limits))


def limits_told(execution: Any) -> list[tuple[str, bool]]:
    return [(each["limit"], each["by_signal"]) for each in events(execution) if each["event"] == "LimitExceeded"]


def test_too_many_processes_are_called_so(scene: Scene) -> None:
    execution = run(scene, CROWD, Limits(processes=20))
    assert ending(execution) == ("pids_limited", None, signal.SIGKILL)
    assert limits_told(execution) == [("processes", False)]
    assert execution.document["usage"]["peak_processes"] > 20
    assert (descendants(execution)["quiescent"], descendants(execution)["remaining"]) == (True, 0)


def test_more_are_counted_than_a_report_would_name(scene: Scene) -> None:
    """Survivors are named up to 64; what is counted for a limit is everybody."""
    crowd = CROWD.replace("60", "90")
    assert ending(run(scene, crowd, Limits(processes=80))) == ("pids_limited", None, signal.SIGKILL)


def test_a_leader_that_the_kernel_ends_for_its_time_is_cpu_limited(scene: Scene) -> None:
    assert ending(run(scene, BURN, ONE_SECOND)) == ("cpu_limited", None, signal.SIGXCPU)


def test_a_leader_whose_tree_used_the_time_gets_the_same_signal_and_left_nobody_behind(scene: Scene) -> None:
    execution = run(scene, THREE_BURN + WAIT, ONE_SECOND)
    assert ending(execution) == ("cpu_limited", None, signal.SIGXCPU)
    assert limits_told(execution) == [("cpu", True)]
    told = descendants(execution)
    assert (told["detected"], told["quiescent"], told["found"], told["remaining"]) == (False, True, 3, 0)


def test_a_leader_that_does_not_heed_it_is_ended(scene: Scene) -> None:
    execution = run(scene, f"import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n{THREE_BURN}{WAIT}", ONE_SECOND)
    assert ending(execution) == ("cpu_limited", None, signal.SIGKILL)
    assert limits_told(execution)[0] == ("cpu", False)


def test_one_that_fails_for_it_is_cpu_limited_with_its_own_status(scene: Scene) -> None:
    answering = "import os, signal\nsignal.signal(signal.SIGXCPU, lambda *_: os._exit(7))\n"
    assert ending(run(scene, answering + THREE_BURN + WAIT, ONE_SECOND)) == ("cpu_limited", 7, None)


def test_one_that_has_done_its_work_by_then_is_complete(scene: Scene) -> None:
    done = "import os, signal\nsignal.signal(signal.SIGXCPU, lambda *_: os._exit(0))\n"
    assert ending(run(scene, done + BURN, ONE_SECOND)) == ("completed", 0, None)


def test_one_that_sends_it_to_itself_with_time_left_has_crashed(scene: Scene) -> None:
    execution = scene.ended(scene.shell("kill -XCPU $$; sleep 30", limits=Limits(cpu_seconds=20)))
    assert ending(execution) == ("crashed", None, signal.SIGXCPU)
    assert limits_told(execution) == []


EXITED_7, XCPU, KILLED, SEGV = 7 << 8, int(signal.SIGXCPU), int(signal.SIGKILL), int(signal.SIGSEGV)


@pytest.mark.parametrize(
    ("limits", "status", "used", "warned", "for_it"),
    [
        ([], XCPU, 100.0, True, False),
        ([["open_files", 20, 20]], XCPU, 100.0, True, False),
        ([["cpu", 10, 11]], XCPU, 8.2, False, True),
        ([["cpu", 10, 11]], XCPU, 4.9, False, False),
        ([["cpu", 10, 11]], XCPU, 0.0, True, True),
        ([["cpu", 10, 11]], KILLED, 10.0, False, True),
        ([["cpu", 10, 11]], KILLED, 9.9, False, False),
        ([["cpu", 10, 11]], KILLED, 1.0, True, True),
        ([["cpu", 10, 11]], SEGV, 50.0, False, False),
        ([["cpu", 10, 11]], EXITED_7, 50.0, False, False),
        ([["cpu", 10, 11]], EXITED_7, 0.1, True, True),
        ([["cpu", 10, 11]], 0, 50.0, True, False),
    ],
)
def test_what_the_signal_and_the_time_together_say(limits: Any, status: int, used: float, warned: bool, for_it: bool) -> None:
    assert ended_for_processor_time({"command_limits": limits}, status, used, warned=warned) is for_it
