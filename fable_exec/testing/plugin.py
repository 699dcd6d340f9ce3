"""The pytest plugin, by the entry point `pytest11`: fixtures for tests that work with a broker, each loaded when it is used.

    fable_workspace    an empty private directory
    fable_policy       a policy over it; define a fixture of that name yourself to have another
    fable_broker       an ExecutionBroker under that policy, with writes unlocked, closed after the test
    fable_leak_check   fails a test that leaves a descriptor, a thread or a child of this process

For every test of a module: `pytestmark = pytest.mark.usefixtures("fable_leak_check")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fable_exec import BrokerPolicy, ExecutionBroker

TOKEN = "the admin's token of fable_broker"
"""What unlocks the writes of `fable_broker`."""


@pytest.fixture
def fable_leak_check() -> Iterator[None]:
    """Nothing is left of the test: no descriptor, no thread, no child of this process."""
    from fable_exec.testing.leaks import nothing_left

    with nothing_left():
        yield


@pytest.fixture
def fable_workspace(tmp_path: Path) -> Path:
    """An empty private directory (0700), named in its resolved form."""
    directory = tmp_path.resolve() / "fable-workspace"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def fable_policy(fable_workspace: Path) -> BrokerPolicy:
    """The library's defaults over `fable_workspace`, with a token. A policy of your own needs that token's digest too."""
    import hashlib

    from fable_exec import BrokerPolicy

    return BrokerPolicy(workspace=fable_workspace, write_token_digest=hashlib.sha256(TOKEN.encode()).hexdigest())


@pytest.fixture
def fable_broker(fable_policy: BrokerPolicy, request: pytest.FixtureRequest) -> Iterator[ExecutionBroker]:
    """A broker in this process under `fable_policy`; writes are unlocked where that has the digest of the plugin's token."""
    import hashlib

    if "fable_leak_check" in request.fixturenames:  # whatever the order in a test's arguments, it looks once the broker is closed
        request.getfixturevalue("fable_leak_check")

    from fable_exec import ExecutionBroker

    with ExecutionBroker(fable_policy) as broker:
        if fable_policy.write_token_digest == hashlib.sha256(TOKEN.encode()).hexdigest():
            broker.unlock_writes(TOKEN)
        yield broker
