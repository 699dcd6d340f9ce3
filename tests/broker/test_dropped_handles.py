"""A handle that nobody has any more: its command ends and its descriptors go, whoever collects it, and in the midst of what."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker, AuditRules, ExecutionBroker
from fable_exec.audit import verify_log
from fable_exec.broker import dropped
from fable_exec.testing.leaks import open_descriptors
from tests import hosts
from tests.doors import TOKEN, opened, policy_for
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("confinement")

UNCLOSED = "unclosed command"


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("over", [True, False])
def test_a_dropped_handle_gives_back_its_descriptors_at_once(
    broker: ExecutionBroker, over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped, "_FOLLOW_SECONDS", 30.0)  # on a busy machine the end may take longer
    assert broker.execute_command(["true"]).success
    before = set(open_descriptors())
    seconds = f"1.6{uuid.uuid4().int % 10**9}" if over else hosts.unique_sleep()
    for _ in range(3):
        handle = broker.start_command(["sleep", seconds])
        until(lambda: bool(hosts.alive_with(seconds)))
        until(lambda: not over or not hosts.alive_with(seconds))
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            del handle
        assert set(open_descriptors()) == before
        assert not hosts.alive_with(seconds)
    assert broker.execute_command(["true"]).success


def test_a_dropped_handle_of_a_loop_gives_back_its_descriptors_and_does_not_hold_the_loop_up(workspace: Path) -> None:
    seconds = hosts.unique_sleep()

    async def use() -> None:
        async with AsyncExecutionBroker(policy_for(workspace)) as broker:
            await broker.unlock_writes(TOKEN)
            assert (await broker.execute_command(["true"])).success
            before = set(open_descriptors())
            handle = await broker.start_command(["sleep", seconds])
            with pytest.warns(ResourceWarning, match=UNCLOSED):
                del handle
            assert set(open_descriptors()) != before  # that is left to the loop
            give_up_at = time.monotonic() + 30
            while set(open_descriptors()) != before and time.monotonic() < give_up_at:
                await asyncio.sleep(0.01)
            assert set(open_descriptors()) == before
            assert not hosts.alive_with(seconds)

    asyncio.run(use())


def test_a_handle_that_outlives_its_loop_and_is_dropped_then(workspace: Path) -> None:
    seconds = hosts.unique_sleep()
    broker = AsyncExecutionBroker(policy_for(workspace))

    async def start() -> Any:
        await broker.unlock_writes(TOKEN)
        assert (await broker.execute_command(["true"])).success
        return await broker.start_command(["sleep", seconds])

    handle = asyncio.run(start())
    with pytest.warns(ResourceWarning, match=UNCLOSED):
        del handle
    assert not hosts.alive_with(seconds)
    asyncio.run(broker.close())


def test_a_handle_whose_end_was_seen_is_dropped_without_a_word(broker: ExecutionBroker) -> None:
    handle = broker.start_command(["true"])
    assert handle.wait() is not None
    del handle
    handle = broker.start_command(["true"])
    assert [type(event).__name__ for event in handle.events()] == ["Started", "Exited"]
    del handle


def test_iterating_over_the_events_keeps_the_command(broker: ExecutionBroker) -> None:
    events = broker.start_command(["bash", "-c", "sleep 0.2; echo said"]).events()
    gc.collect()
    assert [getattr(event, "data", b"") for event in events] == [b"", b"said\n", b""]


def test_what_became_of_it_is_written_down(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with ExecutionBroker(policy_for(workspace, audit=AuditRules(path=log))) as broker:
        broker.unlock_writes(TOKEN)
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            broker.start_command(["sleep", "60.5"])
    *_, last = [json.loads(line) for line in log.read_text().splitlines()]
    assert (last["kind"], last["facts"]["action"], last["facts"]["outcome"]) == ("outcome", "start_command", "cancelled")
    assert verify_log(log).ok


def test_what_it_planted_until_its_end_is_dealt_with(workspace: Path) -> None:
    hook = workspace / ".git" / "hooks" / "post-checkout"
    text = "mkdir -p .git/hooks .git/objects .git/refs; echo ref: refs/heads/main > .git/HEAD; echo there; "
    text += "while :; do echo '#!/bin/sh' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout; done"
    with ExecutionBroker(policy_for(workspace, allowed_executables=("bash",))) as broker:
        broker.unlock_writes(TOKEN)
        handle = broker.start_command(["bash", "-c", text])
        events = handle.events()
        while getattr(next(events), "data", b"") != b"there\n":
            pass
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            del handle, events
        assert not os.access(hook, os.X_OK)


def test_a_collector_in_the_midst_of_our_own_work_ends_it_at_once(broker: ExecutionBroker) -> None:
    held: list[Any] = [broker.start_command(["sleep", "60.5"])]
    assert broker.execute_command(["true"]).success
    before = set(open_descriptors())
    with pytest.warns(ResourceWarning, match=UNCLOSED):
        broker.execute_command(["true"], on_event=lambda event: held.clear())
    assert len(open_descriptors()) == len(before) - 3


def test_a_collector_in_the_midst_of_what_a_lock_guards_leaves_it_to_the_next_request(broker: ExecutionBroker) -> None:
    held: list[Any] = [broker.start_command(["sleep", "60.5"])]
    assert broker.execute_command(["true"]).success
    before = set(open_descriptors())
    with pytest.warns(ResourceWarning, match=UNCLOSED), broker._closing:
        held.clear()
    assert set(open_descriptors()) == before
    until(lambda: bool(broker.probe()) and len(open_descriptors()) == len(before) - 3)


def test_garbage_collected_in_the_midst_of_anything_locks_nothing_up(workspace: Path, tmp_path: Path) -> None:
    program = """
    import gc, warnings
    from fable_exec import AuditRules, ExecutionBroker
    from tests.doors import TOKEN, policy_for
    from fable_exec.testing.leaks import open_descriptors
    warnings.simplefilter("ignore")
    with ExecutionBroker(policy_for(Path(sys.argv[1]), audit=AuditRules(path=sys.argv[2]))) as broker:
        broker.unlock_writes(TOKEN)
        broker.execute_command(["true"])
        before = len(open_descriptors())
        def work(number):
            for round in range(8):
                handle = broker.start_command(["bash", "-c", "echo said; sleep 60"] if round % 2 else ["true"])
                handle.itself = handle
                del handle
                broker.write_file(f"file-{number}", "text")
                broker.execute_command(["true"])
        gc.set_threshold(1, 1, 1)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        give_up_at = time.monotonic() + 30
        while len(open_descriptors()) > before and time.monotonic() < give_up_at:
            broker.probe()
            time.sleep(0.01)
        answer(len(open_descriptors()) - before)
    """
    assert hosts.answer_of(program, str(workspace), str(tmp_path / "audit.jsonl")) == 0


def test_a_handle_dropped_in_another_thread_while_the_broker_is_used(broker: ExecutionBroker) -> None:
    held = [[broker.start_command(["sleep", "60.5"])] for _ in range(8)]
    threads = [threading.Thread(target=each.clear) for each in held]
    with pytest.warns(ResourceWarning, match=UNCLOSED):
        for thread in threads:
            thread.start()
        assert broker.execute_command(["true"]).success
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("kind", ["spawned", "asyncio_spawned"])
def test_a_clients_handle_ends_its_command_too(workspace: Path, kind: str) -> None:
    seconds = hosts.unique_sleep()
    with opened(kind, policy_for(workspace), unlocked=True) as door:
        handle = door.start_command(["sleep", seconds])
        until(lambda: bool(hosts.alive_with(seconds)))
        before = descriptors_of(door.inner.pid)
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            del handle
        if kind == "asyncio_spawned":
            door.probe()  # its loop runs only while it is asked something
        until(lambda: not hosts.alive_with(seconds))
        until(lambda: descriptors_of(door.inner.pid) < before)
        assert door.execute_command(["true"]).success


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["in_process", "spawned"])
def test_a_copy_dropped_in_a_forked_child_leaves_the_parents_command_alone(workspace: Path, kind: str) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door:
        held = [door.start_command(["cat"], keep_stdin_open=True)]
        held[0].write_stdin("before\n")
        child = os.fork()
        if child == 0:
            code = 9
            try:
                before = len(open_descriptors())
                held.clear()
                code = int(kind == "in_process" and len(open_descriptors()) >= before)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        held[0].write_stdin("after\n")
        held[0].close_stdin()
        assert held[0].wait().stdout == "before\nafter\n"
