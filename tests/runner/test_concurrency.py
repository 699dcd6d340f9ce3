"""Many commands at once: asyncio tasks, threads, running handles; cancelling ends the tree before anything else happens."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fable_exec.errors import LaunchFailed
from fable_exec.runner import EndedBy, Exited, Outcome, Output, Runner
from tests import hosts
from tests.commands import command, ending, new_runner, shell


def run_in_loop(main: Callable[[], Awaitable[None]]) -> None:
    """asyncio.run in debug mode, which complains about loops that were not left clean."""

    async def checked() -> None:
        await main()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(checked())
    gc.collect()


def test_two_hundred_tasks(runner: Runner) -> None:
    async def main() -> None:
        outcomes = await asyncio.gather(*[runner.run_async(shell(f"echo {n}; exit {n % 200}")) for n in range(200)])
        assert [(each.exit_code, each.stdout.raw) for each in outcomes] == [(n % 200, b"%d\n" % n) for n in range(200)]

    run_in_loop(main)
    before = len(os.listdir("/proc/self/fd"))
    run_in_loop(main)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("how", ["cancel", "wait_for", "cancel twice", "group"])
def test_a_cancelled_task_leaves_nothing_when_the_cancellation_comes_out(runner: Runner, how: str) -> None:
    marker = hosts.unique_sleep()
    script = shell(f"(setsid sleep {marker} &) ; trap '' TERM; sleep {marker}")

    async def main() -> None:
        await runner.run_async(command("true"))
        task = asyncio.ensure_future(runner.run_async(script))
        while len(hosts.alive_with(f"sleep\0{marker}")) < 2:
            await asyncio.sleep(0.01)
        if how == "wait_for":
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(task, 0.05)
        else:
            task.cancel()
            if how == "cancel twice":
                await asyncio.sleep(0)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert hosts.alive_with(f"sleep\0{marker}") == []

    run_in_loop(main)


def test_a_loop_that_is_closed_under_a_command_leaves_nothing(runner: Runner) -> None:
    marker = hosts.unique_sleep()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(runner.run_async(command("true")))
    before = len(os.listdir("/proc/self/fd"))
    coroutine = runner.run_async(shell(f"sleep {marker}"))
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0.1))
    task.add_done_callback(lambda _: None)
    loop.close()
    coroutine.close()
    give_up_at = time.monotonic() + 30
    while hosts.alive_with(f"sleep\0{marker}") and time.monotonic() < give_up_at:
        pass
    assert hosts.alive_with(f"sleep\0{marker}") == []
    assert len(os.listdir("/proc/self/fd")) <= before
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # that this task never ended is the point


def _mixed(runner: Runner, seconds: float) -> list[str]:
    """Fifty threads, each with commands of every kind, for a while; what was wrong."""
    wrong: list[str] = []
    stop_at = time.monotonic() + seconds

    def work(seed: int) -> None:
        random_ = random.Random(seed)
        while time.monotonic() < stop_at:
            n = random_.randrange(200)
            kind = random_.choice(["exit", "input", "timeout", "holder", "start", "missing", "cancel"])
            try:
                wrong.extend(f"{kind}: {found}" for found in [_ONE[kind](runner, n)] if found is not None)
            except Exception as error:
                wrong.append(f"{kind}: {error!r}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def _differs(outcome: Outcome, *expected: object) -> Outcome | None:
    found = (*ending(outcome), outcome.stdout.raw)
    return None if found == expected else outcome


def _not_timed_out(outcome: Outcome) -> Outcome | None:
    # On a machine this busy the proof of the end may come too late for the answer; then the status is not known.
    return None if (outcome.ended_by, outcome.exit_code, outcome.stdout.raw) == (EndedBy.TIMED_OUT, None, b"a") else outcome


def _cancelled(runner: Runner, n: int) -> object:
    running = runner.start(shell("echo x; sleep 30"))
    running.cancel()
    outcome = running.wait()
    return None if outcome is not None and outcome.ended_by is EndedBy.CANCELLED else outcome


def _started(runner: Runner, n: int) -> object:
    with runner.start(shell("cat", open_stdin=True)) as running:
        running.write_stdin(b"%d" % n)
        running.close_stdin()
        *pieces, last = running.events()
    data = b"".join(piece.data for piece in pieces if isinstance(piece, Output))
    return None if isinstance(last, Exited) and data == b"%d" % n else (data, last)


def _missing(runner: Runner, n: int) -> object:
    try:
        return runner.run(command("true", cwd=("missing",)))
    except LaunchFailed:
        return None


_ONE: dict[str, Callable[[Runner, int], object]] = {
    "exit": lambda runner, n: _differs(runner.run(shell(f"echo {n}; exit {n}")), "exited", n, None, b"%d\n" % n),
    "input": lambda runner, n: _differs(runner.run(command("cat", stdin=b"x" * n * 999)), "exited", 0, None, b"x" * n * 999),
    "timeout": lambda runner, n: _not_timed_out(runner.run(shell("printf a; sleep 30", timeout_seconds=3.0))),
    "holder": lambda runner, n: _differs(runner.run(shell("sleep 30 & printf b")), "exited", 0, None, b"b"),
    "start": _started,
    "missing": _missing,
    "cancel": _cancelled,
}


def test_fifty_threads_for_a_moment(runner: Runner) -> None:
    runner.run(command("true"))
    before = len(os.listdir("/proc/self/fd"))
    assert _mixed(runner, 1.5) == []
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.deep
def test_fifty_threads_for_a_minute(runner: Runner) -> None:
    assert _mixed(runner, 60) == []


@pytest.mark.deep
def test_a_launcher_does_not_grow(runner: Runner, mode: str) -> None:
    zygote = runner.run(command("true")) and runner._launchers._own().zygote
    assert zygote is not None

    def resident() -> int:
        """Of the largest: how many workers are ready at a moment depends on what else the machine does."""
        pids = [zygote.pid, *hosts.tree_of(zygote.pid)]
        return max(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)

    def descriptors() -> int:
        return max(len(os.listdir(f"/proc/{pid}/fd")) for pid in [zygote.pid, *hosts.tree_of(zygote.pid)] if _readable(pid))

    for _ in range(300):
        runner.run(command("true"))
    before = resident(), descriptors(), len(hosts.tree_of(zygote.pid))
    for _ in range(5000):
        runner.run(command("true"))
    after = resident(), descriptors(), len(hosts.tree_of(zygote.pid))
    assert after[0] < before[0] * 1.1 + 200 and after[1] <= before[1] + 4 and after[2] <= before[2] + 2


def _readable(pid: int) -> bool:
    return os.access(f"/proc/{pid}/fd", os.R_OK)


def test_reader_and_writer_in_two_threads(runner: Runner) -> None:
    data = os.urandom(1000) * 3000
    running = runner.start(command("cat", open_stdin=True, max_output_bytes=len(data)))
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(e.data for e in running.events() if isinstance(e, Output)))
    reader.start()
    for start in range(0, len(data), 500_000):
        assert running.write_stdin(data[start : start + 500_000]) == 500_000
    running.close_stdin()
    reader.join(60)
    assert b"".join(got) == data


def test_one_thread_may_write_more_than_the_pipes_hold(runner: Runner) -> None:
    data = os.urandom(1000) * 2000
    with runner.start(command("cat", open_stdin=True, max_output_bytes=len(data))) as running:
        assert running.write_stdin(data) == len(data)
        running.close_stdin()
        outcome = running.wait()
    assert outcome is not None and outcome.stdout.raw == data


def test_declared_input_comes_before_what_is_written_and_closing_loses_none_of_it(runner: Runner) -> None:
    declared = b"a" * 1_000_000
    with runner.start(command("cat", stdin=declared, open_stdin=True, max_output_bytes=3_000_000)) as running:
        running.write_stdin(b"b" * 100_000)
        running.close_stdin()
        outcome = running.wait()
    assert outcome is not None and outcome.stdout.raw == declared + b"b" * 100_000
    with runner.start(command("cat", stdin=declared, open_stdin=True, max_output_bytes=3_000_000)) as running:
        running.close_stdin()
        outcome = running.wait()
    assert outcome is not None and outcome.stdout.raw == declared
    with pytest.raises(BrokenPipeError):
        running.write_stdin(b"late")


def test_reader_and_writer_in_two_tasks(runner: Runner) -> None:
    data = os.urandom(1000) * 3000

    async def main() -> None:
        async with await runner.start_async(command("cat", open_stdin=True, max_output_bytes=len(data))) as running:

            async def write() -> None:
                for start in range(0, len(data), 500_000):
                    await running.write_stdin(data[start : start + 500_000])
                running.close_stdin()

            async def read() -> bytes:
                return b"".join([e.data async for e in running.events() if isinstance(e, Output)])

            _, got = await asyncio.wait_for(asyncio.gather(write(), read()), 60)
            assert got == data

    run_in_loop(main)


def test_events_are_numbered_and_the_last_one_is_the_end(runner: Runner) -> None:
    with runner.start(shell("echo a; echo b >&2; sleep 0.2; echo c; exit 3")) as running:
        events = list(running.events())
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    last = events[-1]
    assert isinstance(last, Exited) and ending(last.outcome) == ("exited", 3, None)
    assert running.next_event() is None and running.leader_pid is not None
    assert [e.offset for e in events if isinstance(e, Output) and e.stream == "stdout"] == [0, 2]


def test_cancel_from_another_thread_is_at_once(runner: Runner) -> None:
    with runner.start(shell("echo go; sleep 600")) as running:
        running.next_event(30)
        timer = threading.Timer(0.1, running.cancel)
        timer.start()
        outcome = running.wait(60)
        timer.join()
    assert outcome is not None and outcome.ended_by is EndedBy.CANCELLED


def test_a_command_that_nobody_listens_to_ends_at_its_deadline(runner: Runner) -> None:
    marker = hosts.unique_sleep()
    running = runner.start(shell(f"(setsid sleep {marker} &); yes", timeout_seconds=1.0))
    due_at = time.monotonic() + 1.0
    give_up_at = due_at + 30
    # Before the deadline one that executes has no command line for a moment, and would be taken for gone.
    while (time.monotonic() < due_at or hosts.alive_with(f"sleep\0{marker}")) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    assert hosts.alive_with(f"sleep\0{marker}") == []
    running.close()


def test_a_handle_of_a_command_that_never_ran_says_so_once_and_closes(runner: Runner) -> None:
    with runner.start(command("true", cwd=("missing",))) as running:
        with pytest.raises(LaunchFailed):
            running.wait()
    with runner.start(command("true", cwd=("missing",))):
        pass


def test_closing_the_runner_ends_what_other_threads_run(workspace: Path, mode: str) -> None:
    runner = new_runner(workspace, mode)
    runner.run(command("true"))
    outcomes: list[Outcome] = []
    marker = hosts.unique_sleep()
    threads = [threading.Thread(target=lambda: outcomes.append(runner.run(shell(f"exec sleep {marker}")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(hosts.alive_with(f"sleep\0{marker}")) < len(threads):
        time.sleep(0.01)
    runner.close()
    for thread in threads:
        thread.join(60)
    assert [each.ended_by for each in outcomes] == [EndedBy.BROKER_LOST] * 8
