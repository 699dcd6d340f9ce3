"""Bytes in and bytes out: exact at every size, at the cap, at the deadline, in both limit modes."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest

from fable_exec.runner import EndedBy, Runner
from fable_exec.runner import runner as runners
from fable_exec.runner import zygote as zygotes
from fable_exec.runner.driving import PollWatcher
from fable_exec.runner.programs import answer_within
from tests.commands import command, ending, python, shell

SIZES = [0, 1, 4095, 4096, 65535, 65536, 65537, 1 << 20, 3_000_001]


@pytest.mark.parametrize("size", SIZES)
def test_standard_input_arrives_whole_and_ends(runner: Runner, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    outcome = runner.run(command("sha256sum", stdin=data[:size]))
    assert outcome.stdout.raw.split()[0].decode() == hashlib.sha256(data[:size]).hexdigest()


def test_without_standard_input_a_reader_sees_the_end_at_once(runner: Runner) -> None:
    assert runner.run(command("wc", "-c")).stdout.raw == b"0\n"
    assert runner.run(shell("readlink /proc/self/fd/0")).stdout.raw == b"/dev/null\n"


def test_a_command_may_leave_its_input_unread(runner: Runner) -> None:
    assert ending(runner.run(shell("head -c 3; exec <&-; exit 6", stdin=b"abc" * 1_000_000))) == ("exited", 6, None)


def test_the_end_of_the_streams_alone_wakes_nobody(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[float] = []

    class Counted(PollWatcher):
        def step(self, until: float) -> None:
            woken.append(until)
            super().step(until)

    monkeypatch.setattr(runners, "PollWatcher", Counted)
    for text in ("exit 3", "exec >&- 2>&-; exit 3"):
        woken.clear()
        assert ending(runner.run(shell(text))) == ("exited", 3, None)
        assert len(woken) == 1, text


@pytest.mark.parametrize("limit", ["kill", "truncate"])
@pytest.mark.parametrize("more", [-1, 0])
@pytest.mark.parametrize("cap", [1, 2, 100, 65536, 200_000])
def test_up_to_the_cap_nothing_is_lost(runner: Runner, cap: int, more: int, limit: str) -> None:
    outcome = runner.run(command("head", "-c", str(cap + more), "/dev/zero", max_output_bytes=cap, on_output_limit=limit))
    assert (ending(outcome), outcome.stdout.raw, outcome.output_limited) == (("exited", 0, None), bytes(cap + more), False)


@pytest.mark.parametrize("cap", [1, 2, 100, 65536, 200_000])
def test_one_byte_over_the_cap_ends_or_cuts(runner: Runner, cap: int) -> None:
    program = shell(f"head -c {cap} /dev/zero; printf x; sleep 60", max_output_bytes=cap)
    killed = runner.run(program)
    assert (killed.ended_by, killed.stdout.raw, killed.stdout.total_bytes) == (EndedBy.OUTPUT_LIMITED, bytes(cap), cap + 1)
    assert killed.duration_seconds < 30
    cut = runner.run(shell(f"head -c {cap} /dev/zero; printf x", max_output_bytes=cap, on_output_limit="truncate"))
    assert (ending(cut), cut.output_limited, cut.stdout.omitted_bytes) == (("exited", 0, None), True, 1)
    assert len(cut.stdout.raw) == cap and (cap == 1 or cut.stdout.raw.endswith(b"x"))


def test_a_flood_is_drained_to_its_end_in_truncate_mode(runner: Runner) -> None:
    outcome = runner.run(shell("head -c 30000000 /dev/zero; printf end", max_output_bytes=1000, on_output_limit="truncate"))
    assert (outcome.stdout.total_bytes, len(outcome.stdout.raw), outcome.stdout.raw[-3:]) == (30_000_003, 1000, b"end")


def test_each_stream_has_its_own_cap(runner: Runner) -> None:
    outcome = runner.run(shell("head -c 5000 /dev/zero; head -c 5000 /dev/zero >&2", max_output_bytes=5000))
    assert (ending(outcome), len(outcome.stdout.raw), len(outcome.stderr.raw)) == (("exited", 0, None), 5000, 5000)


def test_interleaved_streams_are_whole(runner: Runner) -> None:
    program = "import os\nfor n in range(3000):\n os.write(1, b'out %d\\n' % n)\n os.write(2, b'err %d\\n' % n)"
    outcome = runner.run(python(program))
    for name, captured in (("out", outcome.stdout), ("err", outcome.stderr)):
        assert captured.raw == b"".join(f"{name} {n}\n".encode() for n in range(3000))


@pytest.mark.parametrize("size", [1, 100_000, 1_000_000])
def test_everything_written_before_the_deadline_is_there(runner: Runner, size: int) -> None:
    outcome = runner.run(shell(f"head -c {size} /dev/zero; head -c 10 /dev/zero >&2; sleep 20", timeout_seconds=2.0))
    assert (outcome.ended_by, len(outcome.stdout.raw), len(outcome.stderr.raw)) == (EndedBy.TIMED_OUT, size, 10)


def test_output_keeps_an_idle_limit_away_and_silence_calls_it(runner: Runner) -> None:
    busy = shell("for i in 1 2 3 4 5 6; do echo $i; sleep 0.4; done", idle_timeout_seconds=2.0)
    assert ending(runner.run(busy)) == ("exited", 0, None)
    silent = runner.run(shell("echo a; sleep 60", idle_timeout_seconds=1.0))
    assert (silent.ended_by, silent.stdout.raw) == (EndedBy.IDLE_TIMED_OUT, b"a\n")


def test_a_pipe_that_the_command_enlarged_is_emptied(runner: Runner) -> None:
    program = "import fcntl, os\nfcntl.fcntl(1, 1031, 1 << 20)\nos.write(1, bytes(1 << 20))"
    assert len(runner.run(python(program, max_output_bytes=2_000_000)).stdout.raw) == 1 << 20


def test_a_deadline_is_not_spent_on_starting_the_launcher(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*arguments: Any) -> Any:
        time.sleep(2.1)
        return answer_within(*arguments)

    monkeypatch.setattr(zygotes, "answer_within", slowly)
    assert ending(runner.run(command("true", timeout_seconds=2.0))) == ("exited", 0, None)


def test_characters_split_over_writes_are_whole(runner: Runner) -> None:
    program = "import os, time\nfor b in '€😀ü'.encode():\n os.write(1, bytes([b]))\n time.sleep(0.01)"
    assert runner.run(python(program)).stdout.text() == "€😀ü"
