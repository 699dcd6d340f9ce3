"""`fable-exec deadline`: the exit status of every ending, and the one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from fable_exec.cli.deadline_command import command
from fable_exec.deadline import DeadlineEnd, DeadlineResult
from fable_exec.outcome import Survivor
from tests.boxes import Finished
from tests.cli.typed import PROJECT, environment
from tests.deadline import trees
from tests.deadline.commands import deadline, shell, timeout_of

ENDINGS: dict[str, tuple[tuple[str, ...], int, bytes]] = {
    "success": (("20", "5", "--", "true"), 0, b""),
    "its own status": (shell("exit 77"), 77, b""),
    "a signal of its own": (shell("kill -9 $$"), 137, b""),
    "not found": (("20", "5", "--", "no-such-program"), 127, b"fable-exec: could not start"),
    "not found by its path": (("20", "5", "--", "/no/such/program"), 127, b"fable-exec: could not start"),
    "not executable": (("20", "5", "--", "/etc/passwd"), 126, b"fable-exec: could not start"),
    "a directory": (("20", "5", "--", "/usr"), 126, b"fable-exec: could not start"),
    "a command named as one of our options": (("20", "5", "--", "--help"), 127, b"fable-exec: could not start"),
}
WRONG_USAGE: dict[str, str] = {
    "a negative time": "-1 5 -- true",
    "a negative grace": "20 -5 -- true",
    "no time at all": "0 5 -- true",
    "not a number": "20 nan -- true",
    "without end": "20 5 inf -- true",
    "a huge time": "1e400 5 -- true",
    "more than a year": "99999999 5 -- true",
    "a word": "20 soon -- true",
    "nothing": "",
    "no numbers": "-- true",
    "one number": "20 -- true",
    "one number too many": "20 5 5 5 -- true",
    "no command": "20 5 --",
    "no dashes": "20 5 true",
    "an unknown option": "--no-such-option 20 5 -- true",
}


@pytest.mark.requires_ability("linux")
@pytest.mark.parametrize("words, status, told", ENDINGS.values(), ids=ENDINGS)
def test_every_ending_has_its_exit_status(words: tuple[str, ...], status: int, told: bytes) -> None:
    finished = deadline(*words)
    assert (finished.returncode, finished.stdout) == (status, b"")
    assert finished.stderr.startswith(told) and bool(finished.stderr) == bool(told)


@pytest.mark.parametrize("line", WRONG_USAGE.values(), ids=WRONG_USAGE)
def test_wrong_usage_is_2_and_said(line: str) -> None:
    finished = CliRunner().invoke(command, line.split())
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert finished.stderr.startswith("Usage: ")


def test_a_word_that_is_no_number_is_told_as_it_was_typed() -> None:
    finished = CliRunner().invoke(command, ["20", "soon", "--", "true"])
    assert finished.stderr.endswith("Error: 'soon' is no number of seconds.\n")


@pytest.mark.requires_ability("linux")
def test_nothing_is_started_by_wrong_usage(tmp_path: Path) -> None:
    for words in (("nan", "1"), ("1", "1", "-1")):
        assert deadline(*words, "--", "touch", str(tmp_path / "started")).returncode == 2
    assert deadline("1", "1", "--", "").returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requires_ability("linux")
def test_a_hard_timeout_is_124_and_one_line_of_json() -> None:
    finished = deadline(*shell("echo out; sleep 600", "1.0"))
    assert (finished.returncode, finished.stdout) == (124, b"out\n")
    assert timeout_of(finished.stderr) == {
        "type": "deadline",
        "reason": "hard_timeout",
        "hard_seconds": 1.0,
        "idle_seconds": None,
    }


@pytest.mark.requires_ability("linux")
def test_an_idle_timeout_says_so_and_output_on_either_stream_puts_it_off() -> None:
    """For longer than the lease on one stream alone, and then on the other."""
    script = "for n in 1 2 3 4 5 6; do sleep 0.3; echo $n; done; for n in 1 2 3 4 5 6; do sleep 0.3; echo $n >&2; done; sleep 60"
    finished = deadline(*shell(script, "40", "5", "1.5"))
    assert (finished.returncode, finished.stdout) == (124, b"1\n2\n3\n4\n5\n6\n")
    told = finished.stderr.removeprefix(b"1\n2\n3\n4\n5\n6\n")
    assert timeout_of(told) == {"type": "deadline", "reason": "idle_timeout", "hard_seconds": 40.0, "idle_seconds": 1.5}


@pytest.mark.requires_ability("linux")
def test_the_line_stands_by_itself_after_half_a_line_of_the_command() -> None:
    finished = deadline(*shell("printf half >&2; sleep 60", "1.0"))
    half, line, nothing = finished.stderr.split(b"\n")
    assert (half, json.loads(line)["reason"], nothing) == (b"half", "hard_timeout", b"")


@pytest.mark.requires_ability("linux")
def test_a_command_that_ends_well_on_sigterm_has_timed_out_all_the_same() -> None:
    finished = deadline(*shell("trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done", "1.0"))
    assert (finished.returncode, finished.stdout) == (124, b"bye\n")


@pytest.mark.requires_ability("linux")
def test_what_ends_by_itself_at_once_was_not_left_behind() -> None:
    assert deadline(*shell("sleep 0.01 & exit 3")).returncode == 3


@pytest.mark.alone  # bombs are among them
def test_every_hard_tree_is_ended_with_its_status_and_its_output(pid_box: Callable[..., Finished]) -> None:
    done = pid_box([sys.executable, "-m", "tests.deadline.trees"], env={**os.environ, **environment()})
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["left"] == []
    shapes = trees.chosen()
    assert len(shapes) == len(trees.NAMES) == len(answer["findings"])
    for shape in shapes:
        found = next(each for each in answer["findings"] if each["name"] == shape.name)
        assert found["status"] == trees.expected_status(shape), found
        assert found["stdout_is_exact"], found

        if found["status"] == 125:
            assert " and left processes behind: " in found["stderr"], found
        if found["status"] == 124:
            assert json.loads(found["stderr"].splitlines()[-1])["reason"] == "hard_timeout", found


S = Survivor(pid=7, name="x")
RESULTS = [
    (DeadlineResult(ended_by=DeadlineEnd.EXITED, returncode=255), 255),
    (DeadlineResult(ended_by=DeadlineEnd.EXITED, returncode=-64), 192),
    (DeadlineResult(ended_by=DeadlineEnd.EXITED, returncode=None), 125),
    (DeadlineResult(ended_by=DeadlineEnd.EXITED, returncode=0, left_behind=(S,)), 125),
    (DeadlineResult(ended_by=DeadlineEnd.HARD_TIMEOUT, returncode=0), 124),
    (DeadlineResult(ended_by=DeadlineEnd.IDLE_TIMEOUT, returncode=-9), 124),
    (DeadlineResult(ended_by=DeadlineEnd.SIGNAL, returncode=0, signal=2), 130),
    (DeadlineResult(ended_by=DeadlineEnd.SIGNAL, returncode=None, signal=15), 143),
    (DeadlineResult(ended_by=DeadlineEnd.STOPPED, returncode=0), 143),
    (DeadlineResult(ended_by=DeadlineEnd.READER_GONE, returncode=0), 141),
    (DeadlineResult(ended_by=DeadlineEnd.OUTPUT_FAILED, returncode=0), 125),
]


@pytest.mark.parametrize("result, status", RESULTS)
def test_every_result_has_its_status_and_125_where_nothing_is_proved(result: DeadlineResult, status: int) -> None:
    assert result.exit_status == status
    assert attrs.evolve(result, quiescent=False).exit_status == 125


def test_the_manual_and_the_help_have_every_status() -> None:
    page = (PROJECT / "docs/reference/cli.md").read_text().partition("\n## deadline\n")[2].partition("\n## ")[0]
    text = deadline("--help").stdout.decode()
    for status in ("2", "124", "125", "126", "127", "128+N", "141", "143"):
        assert f"| {status} |" in page
        assert f"  {status} " in text
