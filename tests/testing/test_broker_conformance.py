"""The right brokers pass the suite: in this process and spawned, blocking and asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncBrokerClient, AsyncExecutionBroker, BrokerClient, BrokerPolicy, ExecutionBroker
from fable_exec.testing import BrokerConformance, nothing_left
from tests import alternating

pytestmark = pytest.mark.requires_ability("confinement")

OTHERS = ("spawned", "asyncio", "asyncio spawned")
"""One of them is tried by each run of the suite, and all by the deep runs."""


class Ours(BrokerConformance):
    """With fewer examples than embedders get, for time."""

    examples = 8
    command_examples = 2
    shrink = False

    @pytest.fixture
    def workspace(self, same_workspace: Path) -> Path:
        return same_workspace

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _nothing_is_left(cls) -> Iterator[None]:
        with nothing_left():
            yield


class Another(Ours):
    """With fewer still: what a request means is the same code in all of them."""

    examples = 4
    command_examples = 1


def one_of(way: str) -> Any:
    return [] if way == alternating.chosen(__name__, OTHERS) else [pytest.mark.deep]


class TestInProcess(Ours):
    def make_broker(self, policy: BrokerPolicy) -> Any:
        return ExecutionBroker(policy)


@pytest.mark.deep
class TestInProcessAsEmbeddersAreTried(BrokerConformance):
    def make_broker(self, policy: BrokerPolicy) -> Any:
        return ExecutionBroker(policy)


class TestSpawned(Another):
    pytestmark = one_of("spawned")

    def make_broker(self, policy: BrokerPolicy) -> Any:
        return BrokerClient(policy)


class TestAsyncio(Another):
    pytestmark = one_of("asyncio")

    def make_broker(self, policy: BrokerPolicy) -> Any:
        return AsyncExecutionBroker(policy)


class TestAsyncioSpawned(Another):
    pytestmark = one_of("asyncio spawned")

    def make_broker(self, policy: BrokerPolicy) -> Any:
        return AsyncBrokerClient(policy)
