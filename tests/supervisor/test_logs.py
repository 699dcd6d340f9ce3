"""What a job wrote and what its keeper noted, read from the start, while they grow, and never longer than they grow."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import StateUnreadable
from fable_exec.supervisor import ExecutionSpec
from fable_exec.supervisor.following import events_in
from fable_exec.testing.leaks import nothing_left
from tests.supervisor.jobs import Jobs, kill_keeper
from tests.waiting import LONG_SECONDS, until

MIB = 1024 * 1024


def test_a_log_is_given_out_whole(jobs: Jobs) -> None:
    execution = jobs.ended("echo one; echo two >&2")
    assert b"".join(jobs.supervisor.logs(execution.execution_id)) == b"one\ntwo\n"


def test_events_tell_the_life_of_a_job_in_order(jobs: Jobs) -> None:
    execution = jobs.ended("exit 4")
    told = [event["event"] for event in jobs.supervisor.events(execution.execution_id)]
    assert told[:2] == ["Accepted", "Started"]
    assert told.index("LeaderExited") < told.index("DescendantsReconciled") < told.index("Judged")


def test_without_following_only_what_is_there_is_given_out(jobs: Jobs) -> None:
    execution = jobs.shell("echo now; sleep 600")
    until(lambda: execution.runner_log.read_bytes())
    assert b"".join(jobs.supervisor.logs(execution.execution_id)) == b"now\n"


def test_a_log_that_grows_faster_than_it_is_read_ends_without_following(jobs: Jobs) -> None:
    execution = jobs.start("yes", log_bytes=8 * MIB)
    until(lambda: len(execution.runner_log.read_bytes()) > MIB)
    pieces = jobs.supervisor.logs(execution.execution_id)
    first = next(pieces)
    size = execution.runner_log.stat().st_size
    assert len(first) + sum(map(len, pieces)) <= size


def test_following_ends_with_the_job_and_has_everything(jobs: Jobs) -> None:
    execution = jobs.shell("for i in 1 2 3 4 5; do echo $i; sleep 0.05; done; echo last")
    with nothing_left():
        assert b"".join(jobs.supervisor.logs(execution.execution_id, follow=True)).split() == [*b"1 2 3 4 5 last".split()]
    assert jobs.supervisor.get(execution.execution_id).is_over


def test_following_goes_on_at_the_start_of_a_log_that_somebody_truncated(jobs: Jobs) -> None:
    execution = jobs.shell("echo a long first line; until [ -e go ]; do sleep 0.02; done; echo two")
    pieces = jobs.supervisor.logs(execution.execution_id, follow=True)
    assert next(pieces) == b"a long first line\n"
    os.truncate(execution.runner_log, 0)
    Path(execution.document["workspace"], "go").touch()
    assert b"".join(pieces) == b"two\n"


def test_following_gives_output_out_while_the_job_goes_on(jobs: Jobs) -> None:
    execution = jobs.shell("echo ready; until [ -e go ]; do sleep 0.02; done; echo gone; sleep 600")
    lines = lines_of(jobs.supervisor.logs(execution.execution_id, follow=True))
    assert next(lines) == b"ready"
    Path(execution.document["workspace"], "go").touch()
    assert next(lines) == b"gone"
    lines.close()


def lines_of(pieces: Iterator[bytes]) -> Any:
    text = b""
    for piece in pieces:
        *lines, text = (text + piece).split(b"\n")
        yield from lines


def test_following_events_ends_too(jobs: Jobs) -> None:
    execution = jobs.shell("sleep 0.2")
    told = [event["event"] for event in jobs.supervisor.events(execution.execution_id, follow=True)]
    assert told[-1] == "Judged"


def test_following_ends_where_the_keeper_died(jobs: Jobs) -> None:
    execution = jobs.shell("echo before; sleep 600")
    until(lambda: execution.runner_log.read_bytes())
    found: list[bytes] = []
    reading = threading.Thread(target=lambda: found.extend(jobs.supervisor.logs(execution.execution_id, follow=True)))
    reading.start()
    kill_keeper(execution)
    reading.join(LONG_SECONDS)
    assert not reading.is_alive()
    assert b"".join(found) == b"before\n"


def test_following_one_that_never_ran_ends_without_a_word(jobs: Jobs) -> None:
    workspace = jobs.workspace()
    execution = jobs.note(jobs.supervisor.start(ExecutionSpec(argv=("/nonexistent/program",), workspace=workspace)))
    assert execution.document["launch_error"]
    assert list(jobs.supervisor.logs(execution.execution_id, follow=True)) == []


def test_following_a_quiet_job_costs_next_to_nothing(jobs: Jobs) -> None:
    """How often the kernel put this thread to sleep says how often it looked."""
    execution = jobs.shell("sleep 1")
    before, began = resource.getrusage(resource.RUSAGE_THREAD), time.monotonic()
    list(jobs.supervisor.logs(execution.execution_id, follow=True))
    looks = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before.ru_nvcsw
    assert looks < 20 + 20 * (time.monotonic() - began)  # one each 50 ms


def test_a_long_log_is_never_in_memory_whole(jobs: Jobs) -> None:
    execution = jobs.ended("head -c 33554432 /dev/zero", log_bytes=64 * MIB)
    pieces = list(map(len, jobs.supervisor.logs(execution.execution_id)))
    assert (sum(pieces), max(pieces) <= 65536) == (32 * MIB, True)


def test_a_reader_that_stops_early_keeps_nothing_open(jobs: Jobs) -> None:
    execution = jobs.shell("echo one; sleep 600")
    until(lambda: execution.runner_log.read_bytes())
    with nothing_left():
        pieces = jobs.supervisor.logs(execution.execution_id, follow=True)
        assert next(pieces) == b"one\n"
        del pieces


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path), os.mkdir])
def test_what_is_no_log_is_not_read(jobs: Jobs, put: Any) -> None:
    execution = jobs.ended()
    execution.runner_log.unlink()
    put(execution.runner_log)
    with pytest.raises((StateUnreadable, OSError)):
        list(jobs.supervisor.logs(execution.execution_id))


def test_lines_that_are_no_events_are_left_out() -> None:
    log = [b'{"event": "one"}\nnot json\n[1]\n{"eve', b'nt": "two"}\n{"event": "half"']
    assert list(events_in(log)) == [{"event": "one"}, {"event": "two"}]
    assert list(events_in(bytes([byte]) for byte in b"".join(log))) == [{"event": "one"}, {"event": "two"}]
