"""A host that forks: the child may use its own, and never takes or ends what is its parent's."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerClient, Conflict, ExecutionBroker
from tests.doors import DOORS, opened, policy_for
from tests.leaving import nothing_is_left  # noqa: F401  # a fixture that every test here gets

pytestmark = [
    pytest.mark.requires_ability("confinement"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),  # that is the situation here
]


def in_a_child(act: Callable[[], object]) -> str:
    """What became of `act` in a forked child: "Conflict" for that error, else the repr of its value or error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the test's own handler would raise, and what cleans up wait again
        signal.alarm(20)
        try:
            said = repr(act())
        except Conflict as error:
            said = f"Conflict: {error}"
        except BaseException as error:
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        said = answers.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return said


OF_A_HANDLE: dict[str, Callable[[Any], object]] = {
    "events": lambda handle: list(handle.events()),
    "wait": lambda handle: handle.wait(),
    "write_stdin": lambda handle: handle.write_stdin("child\n"),
    "close_stdin": lambda handle: handle.close_stdin(),
    "cancel": lambda handle: handle.cancel(),
}


@pytest.mark.parametrize("kind", ["in_process", "spawned"])
@pytest.mark.parametrize("act", OF_A_HANDLE)
def test_a_started_command_is_its_starters(workspace: Path, kind: str, act: str) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door, door.start_command(["cat"], keep_stdin_open=True) as handle:
        handle.write_stdin("parent\n")
        assert in_a_child(lambda: OF_A_HANDLE[act](handle)).startswith(
            f"Conflict: this {'command' if kind == 'in_process' else 'client'}"
        )
        handle.close_stdin()
        result = handle.wait()
        assert (result.stdout, result.exit_code) == ("parent\n", 0)


@pytest.mark.parametrize("kind", ["in_process", "spawned"])
def test_closing_a_started_command_in_a_child_leaves_it_to_the_parent(workspace: Path, kind: str) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door, door.start_command(["cat"], keep_stdin_open=True) as handle:
        assert in_a_child(handle.close) == "None"
        handle.write_stdin("parent\n")
        handle.close_stdin()
        assert handle.wait().stdout == "parent\n"


def test_a_background_command_is_its_starters_and_a_child_may_start_its_own(workspace: Path) -> None:
    with opened("in_process", policy_for(workspace), unlocked=True) as door:
        name = door.start_background(["bash", "-c", "echo parent; read line"], keep_stdin_open=True).handle
        door.read_command(name, 10.0)

        def own() -> object:
            mine = door.start_background(["echo", "child"])
            said = door.read_command(mine.handle, 10.0).stdout_data
            known = [each.handle for each in door.list_commands().commands]
            door.close()
            return said, known == [mine.handle], mine.handle == name

        assert in_a_child(own) == "(b'child\\n', True, False)"
        assert in_a_child(lambda: door.read_command(name, 1.0)).startswith("Conflict: this background command")
        assert in_a_child(lambda: door.cancel_command(name)).startswith("Conflict: this background command")
        door.write_stdin(name, "x\n", close=True)
        while (read := door.read_command(name, 10.0)).running:
            pass
        assert read.result is not None and read.result.success


@pytest.mark.parametrize("kind", sorted(DOORS))
def test_a_broker_in_a_child_gives_its_own_answers_or_a_conflict(workspace: Path, kind: str) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door:
        assert door.execute_command(["echo", "parent"]).stdout == "parent\n"
        inner = door.inner

        def run() -> object:
            if kind.startswith("asyncio"):
                return asyncio.Runner().run(inner.execute_command(["echo", "child"])).stdout
            return inner.execute_command(["echo", "child"]).stdout

        said = in_a_child(run)
        assert said == "'child\\n'" if "spawned" not in kind else said.startswith("Conflict: this client belongs")
        assert door.execute_command(["echo", "parent"]).stdout == "parent\n"


def test_a_client_closed_in_a_child_is_still_the_parents(workspace: Path) -> None:
    with BrokerClient(policy_for(workspace)) as client:
        assert in_a_child(client.close) == "None"
        assert in_a_child(lambda: client.unlock_writes("token")).startswith("Conflict: this client")
        assert client.execute_command(["cat"]).success


@pytest.mark.parametrize("make", [ExecutionBroker, BrokerClient])
def test_a_callback_that_forks_and_comes_back_twice_gets_its_output_once(workspace: Path, make: Any) -> None:
    children = []

    def fork(event: Any) -> None:
        if not children:
            child = os.fork()
            children.append(child)

    with make(policy_for(workspace)) as broker:
        try:
            result = broker.execute_command(["cat"], stdin="said\n", on_event=fork)
        except Conflict:
            os._exit(9)
        if children == [0]:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 9
        assert (result.stdout, result.outcome.value) == ("said\n", "exited")
