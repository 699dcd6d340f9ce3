"""The blocking twin: the same answers, any number of threads, and its own thread gone when it is closed or dropped."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fable_exec import AsyncBrokerClient, AsyncExecutionBroker, BrokerGone, Conflict, ExecutableDenied, InvalidRequest
from fable_exec.adapters import AgentWorkspace, BlockingAgentWorkspace, CommandFinished, CommandOutput, RunRequest
from tests.adapters.places import shell_policy
from tests.cli.typed import is_running
from tests.test_forked_hosts import in_a_child
from tests.test_locks_at_a_fork import held_elsewhere
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("confinement")


@pytest.fixture(params=[AsyncExecutionBroker, AsyncBrokerClient])
def opened(request: pytest.FixtureRequest, workspace: Path) -> Iterator[BlockingAgentWorkspace]:
    with BlockingAgentWorkspace(request.param(shell_policy(workspace))) as ws:
        yield ws


@pytest.fixture
def inside(workspace: Path) -> Iterator[BlockingAgentWorkspace]:
    """For what is of the thread alone, wherever the broker works."""
    with BlockingAgentWorkspace(AsyncExecutionBroker(shell_policy(workspace))) as ws:
        yield ws


def names_of_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "fable_exec workspace"]


def test_it_has_every_call_of_the_other_with_the_same_arguments() -> None:
    for name, member in inspect.getmembers(AgentWorkspace, inspect.isfunction):
        if not name.startswith("_"):
            twin = inspect.signature(getattr(BlockingAgentWorkspace, name))
            assert list(twin.parameters) == list(inspect.signature(member).parameters), name
            assert [each.default for each in twin.parameters.values()] == [
                each.default for each in inspect.signature(member).parameters.values()
            ], name


def test_commands_events_and_files_answer_as_they_do_with_await(opened: BlockingAgentWorkspace, workspace: Path) -> None:
    (workspace / "a").write_text("text")
    assert opened.run(RunRequest(["echo", "hi"])).stdout == "hi\n"
    events = list(opened.stream(RunRequest("echo a; echo b >&2")))
    assert isinstance(events[-1], CommandFinished) and {each.data for each in events if isinstance(each, CommandOutput)} == {
        b"a\n",
        b"b\n",
    }
    heard: list[object] = []
    opened.run(RunRequest(["echo"]), heard.append)
    assert heard
    assert opened.read_bytes("a") == b"text" and opened.exists("a") and opened.realpath("a") == f"{workspace}/a"
    assert opened.glob("*").matches == (f"{workspace}/a",) and opened.grep("ex").matches
    assert opened.stat("a").size_bytes == 4 and [each.name for each in opened.list_dir().entries] == ["a"]
    with pytest.raises(ExecutableDenied):
        opened.run(RunRequest(["ls"]))
    assert opened.complete(RunRequest(["ls"])).status == 126
    assert opened.call(lambda ws: ws.read_bytes("a")) == b"text"


def test_many_threads_may_call_it_at_once(opened: BlockingAgentWorkspace) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: opened.run(RunRequest(["echo", str(number)])).stdout, range(12)))
    assert answers == [f"{number}\n" for number in range(12)]


def test_closing_ends_what_other_threads_wait_for_and_leaves_no_thread(workspace: Path) -> None:
    marker = f"7{time.time_ns() % 10**9}"
    ws = BlockingAgentWorkspace(AsyncExecutionBroker(shell_policy(workspace)))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ws.run, RunRequest(["sleep", marker]))
        assert until(lambda: is_running(marker))
        ws.close()
        with pytest.raises(BrokerGone):
            waiting.result(5)
    assert not is_running(marker) and names_of_threads() == []
    ws.close()
    with pytest.raises(BrokerGone):
        ws.read_bytes("a")


def test_an_iterator_that_is_closed_early_ends_its_command(opened: BlockingAgentWorkspace) -> None:
    marker = f"7{time.time_ns() % 10**9}"
    events = opened.stream(RunRequest(f"echo begun; sleep {marker}"))
    assert next(events) and until(lambda: is_running(marker))
    events.close()
    assert not is_running(marker)


def test_an_iterator_may_be_closed_after_its_workspace(workspace: Path) -> None:
    with BlockingAgentWorkspace(AsyncExecutionBroker(shell_policy(workspace))) as ws:
        events, others = (ws.stream(RunRequest(["sleep", "60"])) for _ in range(2))
        next(events), next(others)
    events.close()
    with pytest.raises(BrokerGone):
        next(others)


def test_what_gives_no_coroutine_is_refused(inside: BlockingAgentWorkspace) -> None:
    with pytest.raises(InvalidRequest, match="coroutine function"):
        inside.call(lambda ws: ws.root)  # type: ignore[arg-type,return-value]  # that is the fault


def test_any_other_loop_may_await_the_calls(opened: BlockingAgentWorkspace, workspace: Path) -> None:
    (workspace / "a").write_text("text")

    async def act() -> None:
        commands = (opened.call_elsewhere(lambda ws, n=number: ws.run(RunRequest(["echo", str(n)]))) for number in range(8))
        assert [each.stdout for each in await asyncio.gather(*commands)] == [f"{number}\n" for number in range(8)]
        assert await opened.call_elsewhere(lambda ws: ws.read_bytes("a")) == b"text"
        with pytest.raises(InvalidRequest, match="coroutine function"):
            await opened.call_elsewhere(lambda ws: ws.root)  # type: ignore[arg-type,return-value]  # that is the fault

    asyncio.run(act())


def test_a_listener_that_ends_the_program_is_told_to_its_caller_and_holds_nobody_up(inside: BlockingAgentWorkspace) -> None:
    def listener(_: object) -> None:
        sys.exit(3)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(inside.run, RunRequest("read line; echo $line", stdin=b"on\n"))
        with pytest.raises(SystemExit):
            inside.run(RunRequest(["true"]), listener)
        assert other.result(20).stdout == "on\n"
    assert inside.run(RunRequest(["echo", "on"])).stdout == "on\n"


def test_one_that_is_dropped_warns_and_leaves_no_thread(workspace: Path) -> None:
    def drop() -> None:
        ws = BlockingAgentWorkspace(AsyncExecutionBroker(shell_policy(workspace)))
        ws.run(RunRequest(["true"]))

    with pytest.warns(ResourceWarning, match="unclosed agent workspace"):
        drop()
        gc.collect()
    assert names_of_threads() == []


def test_a_forked_child_is_told_so_and_may_close_its_copy(workspace: Path) -> None:
    """Also of one that another thread was about to call."""
    with BlockingAgentWorkspace(AsyncExecutionBroker(shell_policy(workspace))) as ws:
        events = ws.stream(RunRequest(["cat", "/dev/zero"], on_output_limit="truncate"))
        next(events)

        def in_child() -> None:
            try:
                ws.run(RunRequest(["true"]))
            finally:
                events.close()
                ws.close()

        with held_elsewhere(ws._loop._changing):
            assert in_a_child(in_child).startswith("Conflict: this workspace belongs to process")
        events.close()
        assert ws.run(RunRequest(["echo", "ours"])).stdout == "ours\n"


def test_what_interrupts_the_waiting_thread_ends_the_command_first(opened: BlockingAgentWorkspace) -> None:
    marker = f"7{time.time_ns() % 10**9}"

    def interrupt() -> None:
        until(lambda: is_running(marker))
        signal.pthread_kill(waiting, signal.SIGINT)

    waiting = threading.get_ident()
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        opened.run(RunRequest(f"setsid sleep {marker} & sleep {marker}"))
    interrupting.join()
    assert not is_running(marker)
    assert opened.run(RunRequest(["echo", "on"])).stdout == "on\n"


def test_a_listener_that_would_wait_for_its_own_thread_is_told_so(inside: BlockingAgentWorkspace) -> None:
    def listener(_: object) -> None:
        inside.run(RunRequest(["true"]))

    with pytest.raises(Conflict, match="own thread"):
        inside.run(RunRequest(["echo", "x"]), listener)
    assert inside.run(RunRequest(["echo", "on"])).stdout == "on\n"


def test_a_stream_that_is_dropped_ends_its_command(inside: BlockingAgentWorkspace) -> None:
    marker = f"7{time.time_ns() % 10**9}"
    assert next(inside.stream(RunRequest(f"echo begun; sleep {marker}")))
    assert until(lambda: not is_running(marker), 2)


def test_an_asynchronous_listener_is_refused(inside: BlockingAgentWorkspace) -> None:
    async def listener(_: object) -> None: ...

    with pytest.raises(InvalidRequest, match="nobody would await"):
        inside.run(RunRequest(["true"]), listener)
