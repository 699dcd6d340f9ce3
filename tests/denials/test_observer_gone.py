"""The observer is stuck or killed: what becomes of the commands whose calls it answers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from fable_exec import Confinement, ExecutionBroker, LaunchFailed
from fable_exec.outcome import EndedBy, Observed
from tests.confinement.places import confined, in_modes, run
from tests.denials.told import PROGRAMS, await_word
from tests.hosts import alive_with, unique_sleep
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("linux")


def observers_of(broker: ExecutionBroker, mode: str) -> list[int]:
    """Those who answer: the stagers, in plain mode the zygote."""
    zygotes = _children(os.getpid(), "-I")
    assert len(zygotes) == 1
    return zygotes if mode == "plain" else _children(zygotes[0], "-I")


def _children(pid: int, word: str) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found if word in Path(f"/proc/{each}/cmdline").read_text().split("\0")]


@in_modes()
def test_a_stuck_observer_holds_a_command_no_longer_than_its_deadline(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        run(broker, "true")
        stopped = observers_of(broker, mode)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert run(broker, "true").denials == ()  # who asks for nothing does not wait
            began = time.monotonic()
            result = broker.execute_command(("sh", "-c", "echo x > file; echo written"), timeout_seconds=0.5)
            assert time.monotonic() - began < 30
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        assert (result.outcome, result.stdout) == (EndedBy.TIMED_OUT, "")
        assert {each.protection: each.state for each in result.confinement}["whole_tree_end"] == "active"
        assert run(broker, "sh", "-c", "echo x > file; echo written").stdout == "written\n"


@in_modes()
def test_what_cannot_be_executed_fails_without_a_wait_for_a_stuck_observer(mode: str, workspace: Path, tmp_path: Path) -> None:
    """A child that posix_spawn(3) starts for it ends with 127, while the launcher waits."""
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with confined(workspace, mode, allowed_executables=(*PROGRAMS, str(broken))) as broker:
        run(broker, "true")
        stopped = observers_of(broker, mode)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(LaunchFailed):
                broker.execute_command((str(broken),), timeout_seconds=60)
            held = broker.execute_command(("sh", "-c", "exit 3"), timeout_seconds=2.0)
            assert held.outcome is (EndedBy.TIMED_OUT if mode == "plain" else EndedBy.EXITED)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        assert broker.execute_command(("sh", "-c", "exit 3")).exit_code == 3


@in_modes()
def test_a_killed_observer_takes_its_commands_with_it(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        run(broker, "true")
        started = broker.start_command(("sh", "-c", "echo started; sleep 0.3; while echo x > file; do :; done; echo $? > failed"))
        await_word(started, b"started")
        killed = observers_of(broker, mode)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        result = started.wait()
        assert result is not None and (result.outcome, result.observed) == (EndedBy.BROKER_LOST, Observed.OFF)
        assert not (workspace / "failed").exists()
        for _ in range(20):  # what dies may still take a request
            if broker.execute_command(("true",)).outcome is not EndedBy.BROKER_LOST:
                break
        assert run(broker, "sh", "-c", "echo x > file; mkdir /usr/x; true").denials != ()  # the next one has new ones


@pytest.mark.parametrize("observe", ["changes", "reads"])
@in_modes()
def test_nothing_outlives_a_killed_observer(mode: str, observe: str, workspace: Path) -> None:
    seconds = unique_sleep()
    text = f"setsid sleep {seconds} & sleep {seconds} & echo started; wait"
    with confined(workspace, mode, confinement=Confinement(observe=observe), allowed_executables=PROGRAMS) as broker:  # type: ignore[arg-type]  # a text from the table
        started = broker.start_command(("sh", "-c", text))
        await_word(started, b"started")
        for pid in observers_of(broker, mode):
            os.kill(pid, signal.SIGKILL)
        result = started.wait()
        assert result is not None and result.outcome is EndedBy.BROKER_LOST
        until(lambda: not alive_with(seconds))
