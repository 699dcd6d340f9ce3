"""Brokers that are dropped without `close`: they end all the same, with a ResourceWarning, and never what is a parent's."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncBrokerClient, AsyncExecutionBroker, AuditRules, BrokerClient, ExecutionBroker
from fable_exec.audit import verify_log
from fable_exec.testing.leaks import children, nothing_left
from tests import hosts
from tests.doors import TOKEN, policy_for
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("confinement")

BLOCKING = {"in_process": ExecutionBroker, "spawned": BrokerClient}
ASYNC = {"asyncio": AsyncExecutionBroker, "asyncio_spawned": AsyncBrokerClient}


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_dropped_broker_ends_at_once_with_a_warning(workspace: Path, kind: str) -> None:
    with nothing_left():
        broker = BLOCKING[kind](policy_for(workspace))
        assert broker.execute_command(["cat"]).success
        broker.unlock_writes(TOKEN)
        broker.start_background(["sleep", "60.25"])
        with pytest.warns(ResourceWarning, match="unclosed broker"):
            del broker
        assert until(lambda: not hosts.alive_with("60.25"))


@pytest.mark.parametrize("kind", ASYNC)
@pytest.mark.parametrize("inside", [True, False])
def test_a_dropped_broker_of_a_loop_ends_too(workspace: Path, kind: str, inside: bool) -> None:
    async def use() -> Any:
        broker = ASYNC[kind](policy_for(workspace))
        assert (await broker.execute_command(["cat"])).success
        if inside:
            with pytest.warns(ResourceWarning, match="unclosed broker"):
                del broker
            await asyncio.sleep(0)
            return None
        return broker

    with nothing_left():
        broker = asyncio.run(use())
        if not inside:
            with pytest.warns(ResourceWarning, match="unclosed broker"):
                del broker


def test_a_client_dropped_in_another_thread_leaves_its_loop_in_order(workspace: Path) -> None:
    async def use() -> None:
        held = [AsyncBrokerClient(policy_for(workspace))]
        assert (await held[0].execute_command(["cat"])).success
        with pytest.warns(ResourceWarning, match="unclosed broker client"):
            await asyncio.to_thread(held.clear)
            await asyncio.sleep(0.05)
        async with AsyncBrokerClient(policy_for(workspace)) as another:  # by the same numbers
            assert (await another.execute_command(["cat"])).success

    with nothing_left():
        asyncio.run(use())


def test_a_handle_keeps_its_broker(workspace: Path) -> None:
    with nothing_left():
        broker = ExecutionBroker(policy_for(workspace))
        broker.unlock_writes(TOKEN)
        handle = broker.start_command(["bash", "-c", "sleep 0.3; echo done"])
        del broker
        gc.collect()
        result = handle.wait()
        assert result is not None and result.stdout == "done\n"
        with pytest.warns(ResourceWarning, match="unclosed broker"):
            del handle


@pytest.mark.parametrize("kind", ["in_process", "asyncio"])
def test_a_running_handle_dropped_with_its_broker_is_ended_and_written_down(workspace: Path, tmp_path: Path, kind: str) -> None:
    log = tmp_path / "audit.jsonl"
    policy = policy_for(workspace, audit=AuditRules(path=log))
    seconds = hosts.unique_sleep()

    def start() -> None:
        broker = ExecutionBroker(policy)
        broker.unlock_writes(TOKEN)
        broker.handle = broker.start_command(["sleep", seconds])  # type: ignore[assignment]  # so that they go together

    async def start_async() -> None:
        broker = AsyncExecutionBroker(policy)
        await broker.unlock_writes(TOKEN)
        broker.handle = await broker.start_command(["sleep", seconds])  # type: ignore[assignment]  # as above

    with nothing_left():
        gc.collect()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            start() if kind == "in_process" else asyncio.run(start_async())
            gc.collect()
        assert any("unclosed broker" in str(each.message) for each in said)
        assert not hosts.alive_with(seconds)
    last = json.loads(log.read_text().splitlines()[-1])["facts"]
    assert last["action"] == "start_command"
    assert last.get("code") == "broker-gone" or last["outcome"] in ("cancelled", "broker_lost")  # whichever was collected first
    assert verify_log(log).ok


def _drop_in_a_child(held: list[Any]) -> int:
    """How it went in the forked child: 0 for without a word and with descriptors closed."""
    child = os.fork()
    if child == 0:
        code = 4
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                open_before = len(os.listdir("/proc/self/fd"))
                held.clear()
                code = 2 * (len(os.listdir("/proc/self/fd")) >= open_before) + bool(said)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kind", BLOCKING)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_copy_dropped_in_a_forked_child_says_nothing_and_ends_nothing(workspace: Path, kind: str) -> None:
    held = [BLOCKING[kind](policy_for(workspace))]
    try:
        assert held[0].execute_command(["cat"]).success
        held[0].unlock_writes(TOKEN)
        name = held[0].start_background(["sleep", "30"]).handle
        before = children()
        assert _drop_in_a_child(held) == 0
        assert held[0].execute_command(["cat"]).success
        assert [each.running for each in held[0].list_commands().commands if each.handle == name] == [True]
        assert before <= children()
    finally:
        held[0].close()


def test_garbage_collected_in_the_midst_of_anything_ends_brokers_without_locking_up(workspace: Path, tmp_path: Path) -> None:
    program = """
    import gc, warnings
    from fable_exec import AuditRules, ExecutionBroker
    from tests.doors import TOKEN, policy_for
    from fable_exec.testing.leaks import children
    warnings.simplefilter("ignore")
    policy = policy_for(Path(sys.argv[1]), audit=AuditRules(path=sys.argv[2]))
    gc.set_threshold(1, 1, 1)
    for _ in range(10):
        broker = ExecutionBroker(policy)
        broker.unlock_writes(TOKEN)
        for _ in range(3):
            broker.start_background(["bash", "-c", "while echo said; do :; done"])
        broker.itself = broker
        del broker
        [[] for _ in range(10000)]
    gc.collect()
    give_up_at = time.monotonic() + 30
    while threading.active_count() > 1 and time.monotonic() < give_up_at:
        time.sleep(0.01)
    answer([threading.active_count(), sorted(children())])
    """
    assert hosts.answer_of(program, str(workspace), str(tmp_path / "audit.jsonl")) == [1, []]
