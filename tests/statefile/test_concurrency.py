"""Many writers and readers of one state, in processes and threads, with and without writers that are killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from fable_exec.statefile import STATE_NAME, Condition, Source, StateFile
from tests.statefile.states import FORM, OLD, OUTCOME, state_in

SPAWN = multiprocessing.get_context("spawn")


def counted(number: int) -> dict[str, Any]:
    """A document whose parts belong together, of a size that changes with every write."""
    return {**FORM.members, "state": "running", "first": number, "pad": "x" * (number * 997 % 20_000), "last": number}


def count_up(directory: Path, times: int) -> None:
    state = StateFile(directory, FORM)
    for _ in range(times):
        with state.locked(60) as held:
            held.write(counted(held.require().document["first"] + 1))


def watch(directory: Path, over: Event, answers: Any) -> None:
    """Read until told that it is over; what is read is whole, and never older than what was read before."""
    state, last, reads = StateFile(directory, FORM), 0, 0
    while not over.is_set():
        reading = state.read()
        assert reading is not None
        assert reading.document == counted(reading.document["first"])
        assert reading.document["first"] >= last
        last, reads = reading.document["first"], reads + 1
    answers.put(reads)


def test_readers_see_whole_states_in_their_order_while_writers_take_turns(tmp_path: Path) -> None:
    storm(tmp_path, writers=3, times=40)


@pytest.mark.deep
def test_a_long_storm_of_readers_and_writers(tmp_path: Path) -> None:
    storm(tmp_path, writers=6, times=1500)


def storm(tmp_path: Path, writers: int, times: int) -> None:
    state = state_in(tmp_path, counted(0))
    over, answers = SPAWN.Event(), SPAWN.SimpleQueue()
    readers = [SPAWN.Process(target=watch, args=(state.directory, over, answers)) for _ in range(2)]
    counting = [SPAWN.Process(target=count_up, args=(state.directory, times)) for _ in range(writers)]
    for process in (*readers, *counting):
        process.start()
    for process in counting:
        process.join()
    over.set()
    for process in readers:
        process.join()
    assert [process.exitcode for process in (*readers, *counting)] == [0] * (2 + writers)
    assert min(answers.get() for _ in readers) > 0
    reading = state.read()
    assert reading is not None and reading.document["first"] == writers * times
    assert sorted(os.listdir(state.directory)) == [".lock", STATE_NAME]


def test_readers_in_threads_see_the_outcome_appear_once_and_stay(tmp_path: Path) -> None:
    """The record is overwritten in place while it is read: what is read of it is nothing or the whole."""
    for number in range(20):
        outcome = {**OUTCOME, "descendants": {"remaining_pids": list(range(2500))}}
        (tmp_path / str(number)).mkdir()
        state = state_in(tmp_path / str(number), OLD)
        seen: list[list[Any]] = [[], []]
        over = threading.Event()

        def look(found: list[Any], state: StateFile = state, over: threading.Event = over) -> None:
            while not over.is_set():
                found.append(state.read())

        threads = [threading.Thread(target=look, args=(found,)) for found in seen]
        for thread in threads:
            thread.start()
        with state.terminal_record() as record:
            assert state.conclude(record, outcome)
        over.set()
        for thread in threads:
            thread.join()
        for found in seen:
            ended = [reading.document == {**OLD, **outcome} for reading in found]
            assert ended == sorted(ended)
            assert all(reading.document in (OLD, {**OLD, **outcome}) for reading in found)
            assert all(reading.record is Condition.WHOLE for reading in found if reading.source is Source.TERMINAL_RECORD)


@pytest.mark.parametrize("times", [5, pytest.param(200, marks=pytest.mark.deep)])
def test_writers_that_are_killed_in_the_midst_leave_a_whole_state_and_a_free_lock(tmp_path: Path, times: int) -> None:
    state = state_in(tmp_path, counted(0))
    chance, last = random.Random(), 0
    for _ in range(times):
        writer = SPAWN.Process(target=count_up, args=(state.directory, 10**9))
        writer.start()
        before = state.read()
        while (reading := state.read()) == before and writer.is_alive():
            assert reading is not None
        time.sleep(chance.random() * 0.02)  # where it is then, is left to chance
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        with state.locked(0) as held:
            number = held.require().document["first"]
            assert held.require().document == counted(number) and number > last
            last = number
    count_up(state.directory, 1)
    assert sorted(os.listdir(state.directory)) == [".lock", STATE_NAME]
