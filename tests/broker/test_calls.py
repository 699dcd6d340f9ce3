"""The calls of the four doors are the same ones."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from fable_exec import AsyncBrokerClient, AsyncExecutionBroker, BrokerClient, ExecutionBroker
from fable_exec.broker import StartedCommand
from fable_exec.broker.asynchronous import AsyncStartedCommand
from fable_exec.calls import AsyncCalls, AsyncCommandHandle, BlockingCalls, CommandHandle
from fable_exec.client.started import AsyncStartedCommand as AsyncClientCommand
from fable_exec.client.started import StartedCommand as ClientCommand
from fable_exec.protocol import ACTIONS

ADMIN = {"unlock_writes", "lock_writes"}


def calls_of(kind: type[Any]) -> dict[str, list[tuple[str, Any]]]:
    """Name to parameters of every public method."""
    methods = {name: method for name, method in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    return {
        name: [(each.name, each.default) for each in inspect.signature(method).parameters.values()]
        for name, method in methods.items()
    }


def test_blocking_and_asyncio_calls_have_the_same_arguments_and_defaults() -> None:
    assert calls_of(BlockingCalls) == calls_of(AsyncCalls)
    assert all(inspect.iscoroutinefunction(getattr(AsyncCalls, name)) for name in calls_of(AsyncCalls))


@pytest.mark.parametrize(
    ("blocking", "asynchronous"), [(ExecutionBroker, AsyncExecutionBroker), (BrokerClient, AsyncBrokerClient)]
)
def test_the_doors_differ_only_in_how_they_perform(blocking: type[Any], asynchronous: type[Any]) -> None:
    ours, theirs = calls_of(blocking), calls_of(asynchronous)
    own = {"begin_command", "operation", "refuse_closed", "start"}
    assert {name: ours[name] for name in ours if name not in own} == {name: theirs[name] for name in theirs if name not in own}
    assert ADMIN | {"close", "perform"} <= ours.keys()


def test_processes_of_this_and_of_another_kind_offer_the_same_but_for_explain() -> None:
    here, there = calls_of(ExecutionBroker), calls_of(BrokerClient)
    assert {name for name in here if name not in there} == {"begin_command", "operation", "refuse_closed", "explain"}
    assert {name: there[name] for name in there} == {name: here[name] for name in there}


def test_every_action_of_the_protocol_has_a_call() -> None:
    named = {"cancel": "cancel_command", "start_command": "start_background", "probe_capabilities": "probe"}
    assert {named.get(action, action) for action in ACTIONS} <= calls_of(BlockingCalls).keys()


@pytest.mark.parametrize(
    ("handle", "kind"),
    [
        (StartedCommand, CommandHandle),
        (ClientCommand, CommandHandle),
        (AsyncStartedCommand, AsyncCommandHandle),
        (AsyncClientCommand, AsyncCommandHandle),
    ],
)
def test_every_handle_answers_to_what_a_handle_answers_to(handle: type[Any], kind: type[Any]) -> None:
    wanted = {name for name in vars(kind) if not name.startswith("_")}
    assert wanted <= set(dir(handle))
    asked, offered = calls_of(kind), calls_of(handle)
    assert {name: offered[name][: len(asked[name])] for name in asked} == asked


def test_blocking_and_asyncio_handles_have_the_same_arguments_and_defaults() -> None:
    assert calls_of(CommandHandle) == calls_of(AsyncCommandHandle)
