"""A broker that a fork has copied: the child's close is about the child's copies alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fable_exec import BrokerGone, BrokerPolicy, ExecutionBroker


@pytest.mark.requires_ability("confinement")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # that is the situation here
def test_a_forked_child_closes_its_copy_and_leaves_the_parents_commands_alone(workspace: Path) -> None:
    with ExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=("sleep", "true"))) as broker:
        handle = broker.start_background(["sleep", "30"]).handle
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            broker.close()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert [each.running for each in broker.list_commands().commands if each.handle == handle] == [True]
        assert broker.execute_command(["true"]).success


def test_a_closed_broker_cannot_be_unlocked_or_locked(workspace: Path) -> None:
    broker = ExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=("true",), write_token_digest="0" * 64))
    broker.close()
    with pytest.raises(BrokerGone):
        broker.unlock_writes("token")
    with pytest.raises(BrokerGone):
        broker.lock_writes()
    assert not broker.writes_enabled


def test_what_is_no_policy_is_refused_as_a_type() -> None:
    with pytest.raises(TypeError, match="BrokerPolicy, not str"):
        ExecutionBroker("workspace")  # type: ignore[arg-type]  # no policy: it must be refused
