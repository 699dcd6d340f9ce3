"""What listens to a command, and what waits for it, behind every door."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fable_exec import Exited, InvalidRequest, Output, Started
from fable_exec.protocol import ExecuteCommand
from tests.doors import DOORS, opened, policy_for


@pytest.mark.requires_ability("confinement")
def test_waiting_ends_with_its_time_and_the_command_goes_on(door: Any) -> None:
    with door.start_command(["bash", "-c", "echo said; read line; echo $line"], keep_stdin_open=True) as handle:
        began = time.monotonic()
        assert handle.wait(0.2) is None
        assert time.monotonic() - began >= 0.15
        assert handle.wait(0) is None
        handle.write_stdin("more\n")
        result = handle.wait(60)
        assert (result.stdout, result.exit_code) == ("said\nmore\n", 0)
        assert handle.wait(0) == result == handle.wait()


@pytest.mark.requires_ability("confinement")
def test_polling_sees_the_end(door: Any) -> None:
    with door.start_command(["echo", "said"]) as handle:
        give_up_at = time.monotonic() + 60
        while (result := handle.wait(0)) is None and time.monotonic() < give_up_at:
            pass
        assert result is not None and result.stdout == "said\n"


class _Listener:
    async def __call__(self, event: object) -> None:
        raise AssertionError("never called")


async def _listen(more: object, event: object) -> None:
    raise AssertionError("never called")


@pytest.mark.parametrize("kind", sorted(DOORS))
@pytest.mark.parametrize("listener", [[], "text", 0])
def test_what_cannot_be_called_is_refused_before_anything_is_started(workspace: Path, kind: str, listener: object) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door:
        for ask in (
            lambda: door.execute_command(["bash", "-c", "echo > made"], on_event=listener),
            lambda: door.perform(ExecuteCommand(command=("bash", "-c", "echo > made")), listener),
        ):
            with pytest.raises(InvalidRequest, match="on_event must be callable"):
                ask()
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("kind", ["in_process", "spawned"])
@pytest.mark.parametrize(
    "listener", [partial(_listen, 1), _Listener(), _Listener().__call__], ids=["partial", "object", "method"]
)
def test_a_blocking_broker_refuses_what_it_could_not_await(workspace: Path, kind: str, listener: Any) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door:
        with pytest.raises(InvalidRequest, match="asynchronous"):
            door.execute_command(["bash", "-c", "echo > made"], on_event=listener)
    assert list(workspace.iterdir()) == []


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("kind", ["in_process", "spawned"])
def test_a_blocking_broker_ends_a_command_whose_listener_turns_out_asynchronous(workspace: Path, kind: str) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door:
        began = time.monotonic()
        with pytest.raises(InvalidRequest, match="asynchronous"):
            door.execute_command(["sleep", "600"], on_event=lambda event: _listen(1, event))
        assert time.monotonic() - began < 60


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("kind", ["asyncio", "asyncio_spawned"])
def test_an_asyncio_broker_awaits_its_listener_before_the_next_event(workspace: Path, kind: str) -> None:
    heard: list[object] = []

    async def listen(event: object) -> None:
        heard.append(type(event))
        await asyncio.sleep(0.01)
        heard.append("heard")

    with opened(kind, policy_for(workspace), unlocked=True) as door:
        result = door.execute_command(["echo", "said"], on_event=listen)
    assert result.stdout == "said\n"
    assert heard == [Started, "heard", Output, "heard", Exited, "heard"]


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("kind", ["asyncio", "asyncio_spawned"])
@pytest.mark.parametrize("raising", [ValueError, asyncio.CancelledError])
def test_a_listener_that_fails_while_awaited_ends_the_command(workspace: Path, kind: str, raising: type[BaseException]) -> None:
    async def listen(event: object) -> None:
        await asyncio.sleep(0)
        raise raising

    with opened(kind, policy_for(workspace), unlocked=True) as door:
        began = time.monotonic()
        with pytest.raises(raising):
            door.execute_command(["sleep", "600"], on_event=listen)
        assert time.monotonic() - began < 60
        assert door.execute_command(["true"]).success
