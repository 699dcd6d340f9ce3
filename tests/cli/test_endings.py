"""How the end of a command is told: the signal that ended it, the limit by its field or flag, with its value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Limits
from fable_exec.cli.notes import bounds_of, notes_on
from fable_exec.outcome import Denial, EndedBy
from fable_exec.protocol import StartCommand
from tests.cli.results import result


def test_a_signal_that_ended_the_command_is_named_with_the_limit_that_sends_it(workspace: Path) -> None:
    limited = BrokerPolicy(workspace=workspace, limits=Limits(cpu_seconds=2, file_size_bytes=4096))
    for number, name in {
        6: "SIGABRT",
        9: "SIGKILL",
        11: "SIGSEGV",
        2: "SIGINT (Ctrl-C)",
        24: "SIGXCPU (limits.cpu_seconds = 2)",
        25: "SIGXFSZ (limits.file_size_bytes = 4096)",
        33: "signal 33",
    }.items():
        ended = result(EndedBy.SIGNALED, signal=number, duration_seconds=1.0)
        bounds = bounds_of(limited, StartCommand(command=("x",)))
        assert list(notes_on(ended, streamed=False, bounds=bounds)) == [f"ended by {name} after 1.0 s"]
    assert list(notes_on(result(EndedBy.SIGNALED, signal=24), streamed=True)) == ["ended by SIGXCPU after 0.0 s"]


def test_a_refusal_that_has_no_place_leaves_none_out() -> None:
    denial = Denial(operation="ptrace", protection="other_processes")
    ended = result(EndedBy.EXITED, exit_code=1, denials=(denial, denial))
    assert list(notes_on(ended, streamed=True)) == ["refused 2 times: ptrace (other_processes)"]


FLAGS = {"timeout_seconds": 0.5, "idle_timeout_seconds": 0.25}


@pytest.mark.parametrize(
    ("reason", "flags", "told"),
    [
        (EndedBy.MEMORY_LIMITED, {}, "too much memory (limits.memory_bytes = 268435456): everything was ended"),
        (EndedBy.PIDS_LIMITED, {}, "too many processes (limits.processes = 20): everything was ended"),
        (EndedBy.OUTPUT_LIMITED, {}, "too much output (max_output_bytes = 1000): everything was ended"),
        (EndedBy.TIMED_OUT, {}, "timed out (limits.timeout_seconds = 7): everything was ended"),
        (EndedBy.IDLE_TIMED_OUT, {}, "no output for too long (limits.idle_timeout_seconds = 3): everything was ended"),
        (EndedBy.TIMED_OUT, FLAGS, "timed out (--timeout 0.5): everything was ended"),
        (EndedBy.IDLE_TIMED_OUT, FLAGS, "no output for too long (--idle-timeout 0.25): everything was ended"),
    ],
)
def test_what_ended_a_command_is_named_by_its_field_or_flag_and_its_value(
    reason: EndedBy, flags: dict[str, Any], told: str, workspace: Path
) -> None:
    limits = Limits(memory_bytes=268_435_456, processes=20, timeout_seconds=7, idle_timeout_seconds=3)
    policy = BrokerPolicy(workspace=workspace, max_output_bytes=1000, limits=limits)
    bounds = bounds_of(policy, StartCommand(command=("x",), **flags))
    assert list(notes_on(result(reason, duration_seconds=2.0), streamed=True, bounds=bounds)) == [f"{told} after 2.0 s"]
