"""A handle's signals reach the process that it was opened for, or nobody; some are never signalled at all."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from fable_exec.errors import IdentityLost, SignalRefused
from fable_exec.procident import GROUP_SIGNAL_REFUSED, ProcessHandle, guarding, identify

pytestmark = pytest.mark.requires_ability("pidfd")

# A leader of its own session with a member in its group; both are gone when the pipe ends.
LEADER = [sys.executable, "-c", "import os, signal; os.fork(); os.write(1, b'x'); signal.pause()"]


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(LEADER, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout and os.read(process.stdout.fileno(), 1) + os.read(process.stdout.fileno(), 1) == b"xx"
    yield process
    os.killpg(process.pid, signal.SIGKILL)  # not waited for yet, so the group is still this one
    process.wait()
    process.stdout.close()


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def members_are_gone(process: subprocess.Popen[bytes]) -> bool:
    """Whether the leader and its member have closed the pipe; waits for it."""
    assert process.stdout
    return os.read(process.stdout.fileno(), 1) == b""


def processes_of_root() -> Iterator[int]:
    """Those that are there while one looks."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError):
            if os.stat(f"/proc/{name}").st_uid == 0:
                yield int(name)


def test_a_signal_reaches_the_process_and_its_end_is_waited_for(leader: subprocess.Popen[bytes]) -> None:
    with ProcessHandle.of(leader.pid) as handle:
        assert handle.is_alive() and not handle.wait(0.01)
        handle.send_signal(signal.SIGTERM)
        assert handle.wait(30) and not handle.is_alive()
    status = os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    assert status and status.si_status == signal.SIGTERM


def test_a_record_is_enough_to_find_the_process_again(leader: subprocess.Popen[bytes]) -> None:
    recorded = identify(leader.pid)
    with ProcessHandle.reopen(recorded) as handle:
        assert handle.identity == recorded and handle.pid == leader.pid
        handle.send_signal(signal.SIGKILL)
        assert handle.wait(30)


@pytest.mark.parametrize(("timeout_seconds", "least"), [(0, 0), (-1, 0), (0.05, 0.05)])
def test_waiting_is_bounded(leader: subprocess.Popen[bytes], timeout_seconds: float, least: float) -> None:
    with ProcessHandle.of(leader.pid) as handle:
        started = time.monotonic()
        assert not handle.wait(timeout_seconds)
        assert least <= time.monotonic() - started < 30


def test_waiting_ends_when_the_process_does(leader: subprocess.Popen[bytes]) -> None:
    with ProcessHandle.of(leader.pid) as handle:
        leader.kill()
        assert handle.wait(math.inf)


def test_a_group_is_signalled_with_all_its_members(leader: subprocess.Popen[bytes]) -> None:
    with ProcessHandle.of(leader.pid) as handle:
        handle.send_signal_to_group(signal.SIGKILL, recorded_pgid=leader.pid, recorded_sid=leader.pid)
        assert handle.wait(30)
    assert members_are_gone(leader)


@pytest.mark.parametrize("wrong", ["group", "session", "both", "minus one", "our group", "one", "nought"])
def test_a_group_that_is_not_as_recorded_is_not_signalled(leader: subprocess.Popen[bytes], wrong: str) -> None:
    pid = leader.pid
    pgid, sid = {
        "group": (pid + 1, pid),
        "session": (pid, pid + 1),
        "both": (os.getpgrp(), os.getsid(0)),
        "minus one": (-1, -1),
        "our group": (os.getpgrp(), pid),
        "one": (1, 1),
        "nought": (0, 0),
    }[wrong]
    with ProcessHandle.of(pid) as handle:
        with pytest.raises(SignalRefused, match=f"^{GROUP_SIGNAL_REFUSED}$") as caught:
            handle.send_signal_to_group(signal.SIGKILL, recorded_pgid=pgid, recorded_sid=sid)
        assert str(pgid) in caught.value.reason and str(sid) in caught.value.reason
        assert not handle.wait(0.05)


def test_the_text_of_the_refusal_is_the_recorded_one() -> None:
    assert GROUP_SIGNAL_REFUSED == "group identity changed or is imprecise; signal refused"


@pytest.mark.parametrize("options", [{}, {"process_group": 0}], ids=["a member of our group", "a leader in our session"])
def test_one_that_does_not_lead_its_session_has_no_group_to_signal(options: dict[str, Any]) -> None:
    """S13: a child that is no leader must not cost the group that it is in, which is ours."""
    with subprocess.Popen(["sleep", "300"], **options) as process:
        try:
            with ProcessHandle.of(process.pid) as handle:
                for pgid, sid in ((process.pid, process.pid), (os.getpgid(process.pid), os.getsid(process.pid))):
                    with pytest.raises(SignalRefused, match=f"^{GROUP_SIGNAL_REFUSED}$"):
                        handle.send_signal_to_group(signal.SIGKILL, recorded_pgid=pgid, recorded_sid=sid)
                assert not handle.wait(0.05)
        finally:
            process.kill()


def test_the_group_of_a_leader_that_has_ended_is_not_signalled(leader: subprocess.Popen[bytes]) -> None:
    """S12: that a group has members says nothing of whose they are."""
    with ProcessHandle.of(leader.pid) as handle:
        leader.kill()
        assert handle.wait(30)
        os.killpg(leader.pid, 0)  # its member is there
        with pytest.raises(SignalRefused, match=f"^{GROUP_SIGNAL_REFUSED}$"):
            handle.send_signal_to_group(signal.SIGKILL, recorded_pgid=leader.pid, recorded_sid=leader.pid)
        os.killpg(leader.pid, 0)


def test_process_1_and_we_ourselves_and_our_parent_are_never_signalled() -> None:
    for pid in (1, os.getpid(), os.getppid()):
        with ProcessHandle.of(pid) as handle:
            with pytest.raises(SignalRefused, match=f"process {pid} is never signalled"):
                handle.send_signal(0)
            with pytest.raises(SignalRefused, match=f"^{GROUP_SIGNAL_REFUSED}$") as caught:
                handle.send_signal_to_group(0, recorded_pgid=pid, recorded_sid=pid)
            assert caught.value.reason
            assert handle.is_alive()  # looking and waiting are nobody's harm


@pytest.mark.requires_ability("userns")
def test_no_ancestor_is_ever_signalled_nor_the_group_that_it_leads(inside: Callable[..., Any]) -> None:
    answers = inside("ancestors")
    reasons = ["process 1 is everybody's", *["it is an ancestor of this process"] * 2, "it is the parent of this process"]
    expected = [f"refused: {reason}" for reason in [*reasons, "it is this process"]]
    line = sorted(int(name) for name in answers if name.isdigit())
    assert [answers[str(number)] for number in line] == expected
    # The first two lead no group; the others do.
    groups = [answers[f"group of {number}"] for number in line]
    assert groups[2:] == expected[2:] and all(answer.startswith("refused: ") for answer in groups)


@pytest.mark.requires_ability("userns")
def test_no_group_is_signalled_that_we_or_an_ancestor_are_in(inside: Callable[..., Any]) -> None:
    refused = "refused: this process or an ancestor of it is in the group"
    assert inside("groups_we_are_in") == {"by a member": refused, "by a child of one": refused}


def test_a_stranger_with_the_number_is_told_apart(leader: subprocess.Popen[bytes]) -> None:
    """S8, S17: as after a reuse of the number; real reuse is in test_reuse.py."""
    recorded = identify(leader.pid)
    if recorded.unique_id is None:
        pytest.skip("the kernel numbers no processes")
    with pytest.raises(IdentityLost, match="another than the recorded one") as caught:
        ProcessHandle.reopen(attrs.evolve(recorded, unique_id=recorded.unique_id - 1))
    assert caught.value.gone
    assert not has_ended(leader)


def test_what_cannot_be_proved_is_neither_signalled_nor_called_dead(leader: subprocess.Popen[bytes]) -> None:
    with pytest.raises(IdentityLost, match="cannot be proved") as caught:
        ProcessHandle.reopen(attrs.evolve(identify(leader.pid), birth=None, boot_id=""))
    assert not caught.value.gone
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.gone, str(again)) == (False, str(caught.value))


@pytest.mark.parametrize("number", [-1, signal.NSIG, 4096])
def test_what_is_no_signal_is_an_error(leader: subprocess.Popen[bytes], number: int) -> None:
    with ProcessHandle.of(leader.pid) as handle:
        with pytest.raises(ValueError, match="no signal"):
            handle.send_signal(number)
        with pytest.raises(ValueError, match="no signal"):
            handle.send_signal_to_group(number, recorded_pgid=leader.pid, recorded_sid=leader.pid)


@pytest.mark.requires_ability("ordinary_user")
def test_the_systems_own_no_is_not_ours() -> None:
    """A process of root's that is no ancestor, if there is one."""
    line = guarding.own_line().numbers
    foreign = [number for number in processes_of_root() if number not in line]
    if not foreign:
        pytest.skip("no process of root's is seen")
    with ProcessHandle.of(foreign[0]) as handle, pytest.raises(PermissionError) as caught:
        handle.send_signal(0)
    assert not isinstance(caught.value, SignalRefused)


def test_a_closed_handle_does_nothing(leader: subprocess.Popen[bytes]) -> None:
    handle = ProcessHandle.of(leader.pid)
    handle.close()
    handle.close()
    assert "closed" in repr(handle)
    group = {"recorded_pgid": leader.pid, "recorded_sid": leader.pid}
    for act in (
        handle.is_alive,
        lambda: handle.wait(0),
        lambda: handle.send_signal(signal.SIGKILL),
        lambda: handle.send_signal_to_group(signal.SIGKILL, **group),
    ):
        with pytest.raises(ValueError, match="closed"):
            act()
    assert not has_ended(leader)


def test_a_descriptor_that_somebody_closed_is_no_death(leader: subprocess.Popen[bytes]) -> None:
    """A host that closes every descriptor must not make a living process look ended."""
    with ProcessHandle.of(leader.pid) as handle:
        descriptor = handle._descriptor
        assert descriptor is not None
        kept = os.dup(descriptor)
        os.close(descriptor)
        with pytest.raises(OSError) as caught:
            handle.is_alive()
        assert caught.value.errno == errno.EBADF and not isinstance(caught.value, IdentityLost)
        os.dup2(kept, descriptor)
        os.close(kept)


def test_a_handle_is_not_inherited_by_programs(leader: subprocess.Popen[bytes]) -> None:
    with ProcessHandle.of(leader.pid) as handle:
        assert handle._descriptor is not None and not os.get_inheritable(handle._descriptor)
