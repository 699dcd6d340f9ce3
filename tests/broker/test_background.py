"""Background commands by themselves: bounded in number and memory, drained without a reader, ended with the broker."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from fable_exec import Conflict, ExecutionBroker, InvalidRequest, Limits
from fable_exec.broker.background import _Unfetched
from fable_exec.outcome import EndedBy
from tests.doors import TOKEN, policy_for


def finished(broker: ExecutionBroker, handle: str) -> None:
    while broker.read_command(handle, 10).running:
        pass


@pytest.mark.requires_ability("confinement")
def test_a_command_that_nobody_reads_never_waits_for_a_reader(broker: ExecutionBroker, workspace: Path) -> None:
    program = "import os; print('x' * 500_000, flush=True); open('done', 'w')"
    handle = broker.start_background(["python3", "-c", program]).handle
    deadline = time.monotonic() + 60
    while not (workspace / "done").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (workspace / "done").exists()
    read = b""
    while (piece := broker.read_command(handle, 10)).running:
        read += piece.stdout_data
    assert len(read + piece.stdout_data) == 500_001


@pytest.mark.requires_ability("confinement")
def test_what_is_not_fetched_stays_within_the_cap(broker: ExecutionBroker) -> None:
    program = "import sys; sys.stdout.write('a' * 1_500_000 + 'z' * 1_000_000)"
    handle = broker.start_background(["python3", "-c", program], on_output_limit="truncate").handle
    summary = broker.list_commands
    while summary().commands[0].running:
        time.sleep(0.01)
    piece = broker.read_command(handle)
    assert (piece.stdout_data, piece.stdout_omitted_bytes) == (b"z" * 1_000_000, 1_500_000)
    assert piece.result is not None
    assert piece.result.stdout_total_bytes == 2_500_000


def test_unfetched_output_counts_what_it_lost_once() -> None:
    unfetched = _Unfetched(4)
    unfetched.put(b"abc")
    unfetched.put(b"def")
    assert unfetched.take(running=True) == (b"cdef", 2)
    assert unfetched.take(running=True) == (b"", 0)
    unfetched.put("é".encode()[:1])
    assert unfetched.take(running=True) == (b"", 0)
    assert unfetched.take(running=False) == ("é".encode()[:1], 0)


@pytest.mark.requires_ability("confinement")
def test_the_number_of_commands_is_bounded_and_ended_ones_make_room(workspace: Path) -> None:
    with ExecutionBroker(policy_for(workspace, limits=Limits(max_in_flight=2))) as broker:
        broker.unlock_writes(TOKEN)
        first, second = (broker.start_background(["sleep", "600"]).handle for _ in range(2))
        with pytest.raises(Conflict, match="2 background commands"):
            broker.start_background(["true"])
        broker.cancel_command(first)
        finished(broker, first)
        names = [broker.start_background(["true"]).handle for _ in range(1)]
        for _ in range(6):
            finished(broker, names[-1])
            names.append(broker.start_background(["true"]).handle)
        known = [each.handle for each in broker.list_commands().commands]
        assert len(known) == 4
        assert second in known  # it runs
        with pytest.raises(InvalidRequest):
            broker.read_command(first)


def test_a_refused_start_is_known_by_no_name(broker: ExecutionBroker) -> None:
    with pytest.raises(PermissionError):
        broker.start_background(["ls"])
    assert broker.list_commands().commands == ()


@pytest.mark.requires_ability("confinement")
def test_a_command_that_never_started_says_why_to_whoever_reads(broker: ExecutionBroker) -> None:
    handle = broker.start_background(["true"], "missing").handle
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            broker.read_command(handle, 10)
    assert [each.running for each in broker.list_commands().commands] == [False]


@pytest.mark.requires_ability("confinement")
def test_a_read_waits_for_output_and_no_longer(broker: ExecutionBroker) -> None:
    handle = broker.start_background(["bash", "-c", "sleep 0.3; echo x; sleep 600"]).handle
    assert broker.read_command(handle, 600).stdout_data == b"x\n"
    assert broker.read_command(handle, 0.05).running


@pytest.mark.requires_ability("confinement")
def test_closing_wakes_those_who_read_and_leaves_no_thread(workspace: Path) -> None:
    broker = ExecutionBroker(policy_for(workspace))
    broker.unlock_writes(TOKEN)
    handle = broker.start_background(["sleep", "600"]).handle
    found = []
    reader = threading.Thread(target=lambda: found.append(broker.read_command(handle, 600)))
    reader.start()
    broker.close()
    reader.join(30)
    assert found[0].running is False
    assert found[0].result.outcome in (EndedBy.CANCELLED, EndedBy.BROKER_LOST)


@pytest.mark.requires_ability("confinement")
def test_a_command_that_does_not_read_takes_what_its_pipe_holds(broker: ExecutionBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fable_exec.broker.background._TAKE_SECONDS", 0.2)
    handle = broker.start_background(["sleep", "600"], keep_stdin_open=True).handle
    taken = broker.write_stdin(handle, b"x" * 1_000_000, close=True)
    assert 0 < taken.accepted_bytes < 1_000_000
    assert taken.open  # not all of it was taken, so the end was not sent
