"""The lock: between threads, processes, forked children and started programs, always within a bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fable_exec.statefile import LOCK_NAME, StateFile
from tests import hosts
from tests.statefile.states import FORM, NEW, OLD, state_in

BEFORE = """
    from fable_exec.statefile import *
    state = StateFile(Path(sys.argv[1]), Form(1, {"execution_id": sys.argv[2]}))
    def is_free():
        try:
            with state.locked(0):
                return True
        except TimeoutError:
            return False
"""


def answer_of(program: str, state: StateFile) -> object:
    return hosts.answer_of(BEFORE + program, str(state.directory), FORM.identity["execution_id"])


def test_a_holder_is_waited_for_within_the_bound_and_then_told(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.locked():
        for seconds in (0.0, 0.05):
            began = time.monotonic()
            with pytest.raises(TimeoutError, match="another process holds the lock") as caught, state.locked(seconds):
                raise AssertionError("two holders")
            assert caught.value.filename == str(state.directory / LOCK_NAME)
            assert seconds <= time.monotonic() - began < seconds + 30
    with state.locked(0):
        pass


def test_two_threads_keep_each_other_out(tmp_path: Path) -> None:
    state = state_in(tmp_path, {**OLD, "count": 0})
    inside: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            with state.locked() as held:
                inside.append(number)
                document = held.require().document
                held.write({**document, "count": document["count"] + 1})
                assert inside.pop() == number and not inside

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reading = state.read()
    assert reading is not None and reading.document["count"] == 80


def test_what_was_held_cannot_be_used_after_it_was_given_back(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.locked() as held:
        pass
    for act in (held.read, held.quarantine, lambda: held.write(NEW)):
        with pytest.raises(ValueError, match="given back"):
            act()


def test_an_exception_gives_the_lock_back(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with pytest.raises(KeyboardInterrupt), state.locked():
        raise KeyboardInterrupt
    with state.locked(0):
        pass


def test_a_forked_child_neither_uses_its_parents_lock_nor_gives_it_back(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    answered = answer_of(
        """
    told, telling = os.pipe()
    child = 0
    try:
        with state.locked() as held:
            child = os.fork()
            if not child:
                held.write({})
            os.waitpid(child, 0)
            while_held = is_free()
    except Conflict as error:  # of the child, which has left the block by now
        os.write(telling, str(error).encode())
        os._exit(0)
    answer([os.read(told, 200).decode(), while_held, is_free()])
    """,
        state,
    )
    assert isinstance(answered, list)
    assert answered[0].startswith("the lock of this state belongs to process ")
    assert answered[1:] == [False, True]
    assert state.read() is not None


def test_a_child_that_lives_on_does_not_keep_the_lock(tmp_path: Path) -> None:
    """Row S98: a daemonised child must not hold for ever what its parent gave back."""
    answered = answer_of(
        """
    waiting, gate = os.pipe()
    with state.locked():
        child = os.fork()
        if not child:
            os.close(gate)
            os.read(waiting, 1)
            os._exit(0)
        held = is_free()
    free = is_free()
    os.close(gate)
    os.waitpid(child, 0)
    answer([held, free])
    """,
        state_in(tmp_path, OLD),
    )
    assert answered == [False, True]


def test_a_program_that_is_started_meanwhile_does_not_have_it(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    with state.locked():
        sleeper = subprocess.Popen(["sleep", hosts.unique_sleep()], close_fds=False)
        links = [os.readlink(f"/proc/{sleeper.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{sleeper.pid}/fd")]
    try:
        assert not [link for link in links if link.startswith(str(state.directory))]
        with state.locked(0):
            pass
    finally:
        sleeper.kill()
        sleeper.wait()


def test_the_lock_of_a_holder_that_is_killed_is_free_and_that_of_a_stopped_one_is_not(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    program = (
        BEFORE
        + """
    with state.locked():
        answer(1)
        time.sleep(100)
    """
    )
    process, reading = hosts.start(program, str(state.directory), FORM.identity["execution_id"])
    try:
        assert os.read(reading, 1) == b"1"
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError), state.locked(0.05):
            raise AssertionError("two holders")
    finally:
        process.kill()
        process.communicate()
        os.close(reading)
    with state.locked() as held:
        held.write(NEW)


def test_a_removed_lock_file_does_not_let_two_in(tmp_path: Path) -> None:
    """A waiter that gets the lock of a file that is no longer there takes the new one's."""
    state = state_in(tmp_path, OLD)
    waiter = None
    with state.locked():
        seen: list[bool] = []

        def wait() -> None:
            with state.locked():
                seen.append((state.directory / LOCK_NAME).exists())

        waiter = threading.Thread(target=wait)
        waiter.start()
        while not waiting_on(state):
            time.sleep(0.001)
        (state.directory / LOCK_NAME).unlink()
    waiter.join()
    assert seen == [True]


def waiting_on(state: StateFile) -> bool:
    """Whether the lock file is open twice in this process."""
    links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return links.count(str(state.directory / LOCK_NAME)) == 2


def test_a_directory_that_was_removed_while_it_was_waited_for_is_told(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            with state.locked():
                raise AssertionError("there is nothing to hold")
        except BaseException as error:
            failures.append(error)

    waiter = threading.Thread(target=wait)
    with state.locked():
        waiter.start()
        while not waiting_on(state):
            time.sleep(0.001)
        for path in state.directory.iterdir():
            path.unlink()
        state.directory.rmdir()
    waiter.join()
    assert [type(failure) for failure in failures] == [FileNotFoundError]


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_importing_and_using_the_room_starts_no_thread_and_changes_no_handler(tmp_path: Path) -> None:
    state = state_in(tmp_path, OLD)
    answered = answer_of(
        """
    before = [signal.getsignal(number) for number in signal.valid_signals()]
    with state.locked() as held:
        held.write(held.require().document)
    with state.terminal_record() as record:
        state.conclude(record, {"state": "exited"})
    answer([threading.active_count(), before == [signal.getsignal(number) for number in signal.valid_signals()]])
    """,
        state,
    )
    assert answered == [1, True]
