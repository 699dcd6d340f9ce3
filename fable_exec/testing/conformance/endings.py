"""What is left of a broker that was closed, and that any sequence of calls agrees with a small model."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test

from fable_exec.errors import BrokerGone
from fable_exec.testing.conformance.setting import BrokerSetting
from fable_exec.testing.leaks import nothing_left
from fable_exec.testing.processes import alive_with

__all__ = ["EndChecks"]

_LONG_SECONDS = 30.0
_STEPS = 30


class EndChecks(BrokerSetting):
    """The end of a broker, and its life as a whole."""

    def test_close_ends_everything_and_leaves_nothing(self, workspace: Path) -> None:
        with nothing_left():
            with self.opened(workspace) as broker:
                desk = self.desk_at(broker, workspace)
                running = desk.argv("os.fork() or os.setsid(); time.sleep(60)")
                broker.start_background(running)
                held = broker.start_command(running)
                assert desk.run("print(1)").stdout == "1\n"
                _until_alive(desk.marker, 4)
                broker.close()
                assert desk.left() == [], "processes outlived the broker that ran them"
                with contextlib.suppress(BrokerGone):
                    held.close()
                broker.close()

    def test_a_closed_broker_does_nothing(self, workspace: Path) -> None:
        with self.opened(workspace) as broker:
            desk = self.desk_at(broker, workspace)
            broker.write_file("before", b"x")
            broker.close()
            for ask in (
                lambda: broker.write_file("after", b"x"),
                lambda: broker.inspect_files("before"),
                lambda: desk.run("open('after', 'w')"),
            ):
                with pytest.raises(BrokerGone):
                    ask()
            assert sorted(each.name for each in workspace.iterdir()) == sorted(["before", desk.name])

    def test_any_sequence_of_calls_agrees_with_the_model(self, workspace: Path) -> None:
        from fable_exec.testing.conformance.machine import machine_for

        with machine_for(self, workspace) as machine:
            run_state_machine_as_test(machine, settings=self.settings(self.command_examples, stateful_step_count=_STEPS))


def _until_alive(marker: str, how_many: int) -> None:
    give_up_at = time.monotonic() + _LONG_SECONDS
    while len(alive_with(marker)) < how_many:
        assert time.monotonic() < give_up_at, "a command that was started did not run"
        time.sleep(0.01)
