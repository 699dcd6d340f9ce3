"""A fork while another thread holds a lock of ours: the child works, or gets a Conflict, and never waits for that thread."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncBrokerClient, BrokerClient, Conflict, ExecutionBroker
from fable_exec._sys.forks import ProcessLock
from fable_exec.server import session
from tests.doors import TOKEN, policy_for
from tests.leaving import nothing_is_left  # noqa: F401  # a fixture that every test here gets
from tests.test_forked_hosts import in_a_child

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # that is the situation here

OWN = "a forked child has one of its own"
REFUSED = "a forked child is refused before it"
SERVER = "only within one server, which a forked child has no part in"
EVERY_LOCK = {
    "loopthread.py _changing": OWN,
    "adapters/inspect_ai_operations.py _keeping": "of an event loop, which a forked child has no part in",
    "audit/writer.py lock": "of a writer, and a forked child opens its own",
    "broker/arguments.py _building": OWN,
    "broker/background.py _changed": REFUSED,
    "broker/background.py _lock": OWN,
    "broker/guarding.py _lock": OWN,
    "broker/guarding.py _posting": OWN,
    "broker/confined.py _proving": OWN,
    "broker/core.py _closing": OWN,
    "broker/later.py _lock": OWN,
    "broker/started.py _lock": REFUSED,
    "writelock.py _mutex": OWN,
    "client/asynchronous.py _commanding": REFUSED,
    "client/asynchronous.py _starting": OWN,
    "client/blocking.py _commanding": REFUSED,
    "client/blocking.py _reading": REFUSED,
    "client/blocking.py _state": REFUSED,
    "client/blocking.py _writing": REFUSED,
    "laterfiles/sentry.py _lock": OWN,
    "pathguard/roots.py _lock": OWN,
    "pathguard/workspace.py _turn": OWN,
    "runner/control.py _guard": "of a launcher: a forked child has its own, and lets go of the parent's without it",
    "runner/exchange.py _channel_guard": OWN,
    "runner/feeding.py _guard": OWN,
    "runner/launchers.py lock": OWN,
    "runner/running.py _lock": REFUSED,
    "server/outbox.py _changed": SERVER,
    "server/outbox.py _turn": SERVER,
    "server/session.py _CANCELLING": OWN,
    "server/workers.py _jobs": SERVER,
    "server/workers.py _lock": SERVER,
    "supervisor/proving.py _proving": OWN,
    "supervisor/zygote.py _sending": OWN,
    "supervisor/zygotes.py _lock": OWN,
}
_ASSIGNED = re.compile(r"^ *(?:self\.)?(\w+)((?:: [^=\n]+)? = .*)$", re.MULTILINE)
_LOCK = re.compile(r"threading\.(?:R?Lock|Condition|\w*Semaphore|Barrier)\b|ProcessLock\b|asyncio\.Lock\b|queue\.\w*Queue\b")


def test_of_every_lock_it_is_known_what_a_forked_child_does() -> None:
    package = Path(session.__file__).parents[1]
    found = set()
    for file in sorted(package.rglob("*.py")):
        if file.parent.name != "_sys":
            assigned = _ASSIGNED.findall(file.read_text())
            found |= {f"{file.relative_to(package)} {name}" for name, made in assigned if _LOCK.search(made)}
    assert found == set(EVERY_LOCK)


@contextmanager
def held_elsewhere(lock: AbstractContextManager[Any]) -> Iterator[None]:
    """Another thread holds it meanwhile."""
    has_it, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has_it.set()
            enough.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert has_it.wait(30)
        yield
    finally:
        enough.set()
        thread.join()


Lock = Callable[[Any], AbstractContextManager[Any]]
Act = Callable[[Any], object]

OF_A_BROKER: dict[str, tuple[Lock, Act, str]] = {
    "closing": (lambda broker: broker._closing, lambda broker: broker.close(), "None"),
    "unlocking": (lambda broker: broker._lock._mutex, lambda broker: broker.unlock_writes(TOKEN), "None"),
    "locking": (lambda broker: broker._lock._mutex, lambda broker: broker.lock_writes(), "None"),
    "files that run later": (
        lambda broker: broker._files._later._lock,
        lambda broker: broker.move_path("file", "moved").replaced,
        "False",
    ),
    "building rules": (
        lambda broker: broker._gate._arguments._building,
        lambda broker: type(broker._gate._arguments._built()).__name__,
        "'ArgumentRules'",
    ),
    "a lent workspace": (
        lambda broker: broker._workspace._root._lock,
        lambda broker: broker.inspect_files("file").content,
        "'text'",
    ),
    "the sentry": (
        lambda broker: broker._confined.sentry()._lock,
        lambda broker: broker.execute_command(["echo", "child"]).stdout,
        "'child\\n'",
    ),
    "commands underway": (
        lambda broker: broker._confined._guard._lock,
        lambda broker: broker.execute_command(["echo", "child"]).stdout,
        "'child\\n'",
    ),
    "background commands": (
        lambda broker: broker._background._lock,
        lambda broker: broker.read_command(broker.start_background(["echo", "child"]).handle, 10.0).stdout_data,
        "b'child\\n'",
    ),
}


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("name", OF_A_BROKER)
def test_a_broker_works_in_the_child(workspace: Path, name: str) -> None:
    lock, act, expected = OF_A_BROKER[name]
    (workspace / "file").write_text("text")
    (workspace / "file").chmod(0o600)
    with ExecutionBroker(policy_for(workspace)) as broker:
        broker.unlock_writes(TOKEN)
        broker.execute_command(["true"])

        def in_child() -> object:
            try:
                return act(broker)
            finally:
                broker.close()

        with held_elsewhere(lock(broker)):
            assert in_a_child(in_child) == expected
        assert broker.execute_command(["true"]).success


OF_A_HANDLE: dict[str, tuple[Lock, Act, str]] = {
    "events": (lambda handle: handle._running._lock, lambda handle: list(handle.events()), "Conflict: this command"),
    "next_event": (lambda handle: handle._running._lock, lambda handle: handle.next_event(), "Conflict: this command"),
    "wait": (lambda handle: handle._running._lock, lambda handle: handle.wait(), "Conflict: this command"),
    "close": (lambda handle: handle._running.exchange.input._guard, lambda handle: handle.close(), "None"),
    "close at its channel": (lambda handle: handle._running.exchange._channel_guard, lambda handle: handle.close(), "None"),
    "write_stdin": (
        lambda handle: handle._running.exchange.input._guard,
        lambda handle: handle.write_stdin("x"),
        "Conflict: this command",
    ),
}


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("name", OF_A_HANDLE)
def test_a_started_command_is_refused_or_let_go_in_the_child(workspace: Path, name: str) -> None:
    lock, act, expected = OF_A_HANDLE[name]
    with ExecutionBroker(policy_for(workspace)) as broker:
        broker.unlock_writes(TOKEN)
        with broker.start_command(["cat"], keep_stdin_open=True) as handle:
            with held_elsewhere(lock(handle)):
                assert in_a_child(lambda: act(handle)).startswith(expected)
            handle.write_stdin("parent\n")
            handle.close_stdin()
            result = handle.wait()
            assert result is not None and result.stdout == "parent\n"


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("name", ["_state", "_writing", "_reading", "_commanding"])
def test_a_client_is_refused_or_let_go_in_the_child(workspace: Path, name: str) -> None:
    with BrokerClient(policy_for(workspace)) as client:
        with held_elsewhere(getattr(client, name)):
            for act in (client.probe, client.lock_writes, lambda: client.start_command(["true"])):
                assert in_a_child(act).startswith("Conflict: this client")
            assert in_a_child(client.close) == "None"
        assert client.execute_command(["true"]).success


@pytest.mark.requires_ability("confinement")
def test_a_callback_of_a_client_that_forks_while_another_thread_asks(workspace: Path) -> None:
    def fork(event: Any) -> None:
        if children:
            return
        held = held_elsewhere(client._state)
        held.__enter__()
        children.append(os.fork())
        if children == [0]:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)  # and what is held stays so
        else:
            held.__exit__(None, None, None)

    children: list[int] = []
    with BrokerClient(policy_for(workspace)) as client:
        try:
            client.execute_command(["cat"], stdin="said\n", on_event=fork)
        except Conflict:
            os._exit(9)
        if children == [0]:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 9


@pytest.mark.requires_ability("confinement")
def test_a_client_of_a_loop_that_was_just_starting(workspace: Path) -> None:
    client = AsyncBrokerClient(policy_for(workspace))
    asyncio.run(_locked_for_ever(client))

    async def use() -> object:
        async with client:
            return (await client.execute_command(["echo", "child"])).stdout

    assert in_a_child(lambda: asyncio.run(use())) == "'child\\n'"


async def _locked_for_ever(client: AsyncBrokerClient) -> None:
    await client._start_lock().acquire()


def test_a_server_in_the_child_can_cancel(workspace: Path) -> None:
    class Running:
        def cancel(self) -> None: ...

    def cancel() -> None:
        task = session.Task(1, None, None, 0)
        task.attach(Running())
        task.cancel()

    with held_elsewhere(session._CANCELLING):
        assert in_a_child(cancel) == "None"


def test_a_lock_of_a_process_keeps_other_threads_out_and_lets_its_own_in_twice() -> None:
    lock = ProcessLock()
    entered = threading.Event()

    def enter() -> None:
        with lock:
            entered.set()

    thread = threading.Thread(target=enter)
    with lock, lock:
        thread.start()
        assert not entered.wait(0.1)
    thread.join()
    assert entered.is_set()


def test_a_block_that_forks_is_left_in_both_processes() -> None:
    lock = ProcessLock()
    with lock:
        child = os.fork()
    if child == 0:
        with lock:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.requires_ability("confinement")
@pytest.mark.alone
@pytest.mark.parametrize("children", [6, pytest.param(60, marks=pytest.mark.deep)])
def test_children_of_a_busy_host_are_never_held_up(workspace: Path, children: int) -> None:
    """Forks at any moment of what four threads do, with no lock held on purpose."""
    (workspace / "file").write_text("text")
    (workspace / "file").chmod(0o600)
    with ExecutionBroker(policy_for(workspace)) as broker:
        broker.unlock_writes(TOKEN)
        acts: list[Callable[[], object]] = [
            lambda: broker.execute_command(["true"]).success,
            lambda: broker.write_file("written", "text").path,
            lambda: broker.inspect_files("file").content,
            lambda: broker.read_command(broker.start_background(["true"]).handle, 10.0).handle,
        ]
        for act in acts:  # what loads late is loaded
            act()
        enough = threading.Event()
        threads = [threading.Thread(target=_again_and_again, args=(act, enough)) for act in acts]
        for thread in threads:
            thread.start()
        try:

            def everything() -> int:
                done = [act() for act in acts]
                broker.close()
                return len(done)

            assert [in_a_child(everything) for _ in range(children)] == ["4"] * children
        finally:
            enough.set()
            for thread in threads:
                thread.join()


def _again_and_again(act: Callable[[], object], enough: threading.Event) -> None:
    while not enough.is_set():
        act()


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("lock", ["_proving", "_posting"])
def test_the_first_command_may_be_a_childs_while_the_parents_is_being_prepared(workspace: Path, lock: str) -> None:
    with ExecutionBroker(policy_for(workspace)) as broker:
        broker.unlock_writes(TOKEN)
        held = broker._confined._proving if lock == "_proving" else broker._confined._guard._posting

        def in_child() -> object:
            try:
                return broker.execute_command(["echo", "child"]).stdout
            finally:
                broker.close()

        with held_elsewhere(held):
            assert in_a_child(in_child) == "'child\\n'"
