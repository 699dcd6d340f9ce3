"""What a person is told of a command that ran: how it ended, who was left, what was refused."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from fable_exec.cli.notes import notes_on
from fable_exec.outcome import Captured, Denial, EndedBy, Survivor
from fable_exec.runner.denials import denials_of
from tests.cli.results import result
from tests.cli.typed import typed_here


def test_a_quiet_end_has_no_notes() -> None:
    assert list(notes_on(result(EndedBy.EXITED, exit_code=3), streamed=True)) == []


def test_notes_tell_the_ending_the_survivors_the_omissions_and_the_denials() -> None:
    limited = result(
        EndedBy.OUTPUT_LIMITED,
        signal=9,
        stdout=Captured(head=b"ab", total_bytes=10),
        survivors=tuple(Survivor(number, f"name{number}") for number in range(7)),
        denials=(Denial(operation="connect", address="host:1", protection="network"),),
        duration_seconds=1.26,
    )
    ending, survivors, omitted, denial = notes_on(limited, streamed=True)
    assert "too much output" in ending and "1.3 s" in ending
    assert survivors == "7 other processes were still alive and ended: name0, name1, name2, name3, name4 and 2 more"
    assert omitted == "8 bytes of stdout omitted"
    assert denial == "refused: connect host:1 (network)"
    assert all(list(notes_on(result(reason), streamed=True)) for reason in EndedBy if reason.value not in ("exited", "signaled"))


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "SIGINT (Ctrl-C)"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")]
)
@pytest.mark.parametrize("reason", [EndedBy.CANCELLED, EndedBy.EXITED, EndedBy.TIMED_OUT])
def test_a_signal_that_ended_us_is_named_whatever_the_command_made_of_it(number: int, name: str, reason: EndedBy) -> None:
    notes = list(notes_on(result(reason, exit_code=0, duration_seconds=0.5), streamed=True, interrupted_by=number))
    assert notes == [f"interrupted by {name}: everything was ended after 0.5 s"]


def plant(path: str, kept_as: str) -> Denial:
    return Denial(operation="plant git-hook", path=path, protection="later_files", suggestion=f"kept as {kept_as}")


PROBABLY = "probably the look-up of a name, as git makes one where it has no identity"
(LOOK_UP,) = denials_of([("connect", "", "192.0.2.1:53", "network")])
REFUSALS: dict[str, tuple[list[Denial], int, list[str]]] = {
    "ten of one kind": (
        [Denial(operation="write", path=f"f{number}", protection="later_files", suggestion="ask") for number in range(10)],
        0,
        ["refused 10 times: write f0, f1, f2 and 7 more (later_files): ask"],
    ),
    "the same again and again": (
        [Denial(operation="connect", address="host:1", protection="network")] * 7,
        0,
        ["refused 7 times: connect host:1 (network)"],
    ),
    "each with its own suggestion": (
        [plant("a", "1"), plant("b", "2")],
        0,
        ["refused 2 times: plant git-hook a, b (later_files): kept as 1; --json tells it of each"],
    ),
    "one of each kind, in their order": (
        [Denial(operation="read", path="x", protection="host_reads"), plant("a", "1")],
        4,
        ["refused: read x (host_reads)", "refused: plant git-hook a (later_files): kept as 1", "refused: 4 more"],
    ),
    "while writes are locked": (
        [Denial(operation="write", path="x", protection="workspace_writes", suggestion="ask")],
        0,
        ["refused: write x (workspace_writes): ask (--unlocked)"],
    ),
    "only counted: the command did without": ([], 4, []),
    "names were looked up in vain, and the command succeeded": (
        [LOOK_UP, LOOK_UP],
        4,
        [f"succeeded without connect 192.0.2.1:53 (network): {PROBABLY}"],
    ),
    "a name and another address": (
        [LOOK_UP, Denial(operation="connect", address="192.0.2.1:80", protection="network", suggestion="ask")],
        0,
        [f"refused 2 times: connect 192.0.2.1:53, 192.0.2.1:80 (network): {LOOK_UP.suggestion}; --json tells it of each"],
    ),
    "more kinds than are named": (
        [Denial(operation=f"act{number % 12}", path="x", protection="host_reads") for number in range(24)],
        1,
        [*(f"refused 2 times: act{number} x (host_reads)" for number in range(10)), "refused: 5 more"],
    ),
}


@pytest.mark.parametrize(("denials", "omitted", "told"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_of_one_kind_are_one_line_with_their_number(denials: list[Denial], omitted: int, told: list[str]) -> None:
    ended = result(EndedBy.EXITED, exit_code=0, denials=tuple(denials), denials_omitted=omitted)
    assert list(notes_on(ended, streamed=True)) == told


def test_a_look_up_is_told_as_a_refusal_of_a_command_that_failed() -> None:
    (note,) = notes_on(result(EndedBy.EXITED, exit_code=128, denials=(LOOK_UP,)), streamed=True)
    assert note == f"refused: connect 192.0.2.1:53 (network): {LOOK_UP.suggestion}"
    assert "GIT_COMMITTER_EMAIL in environment.set" in note


@pytest.mark.requires_ability("confinement")
@pytest.mark.requires_ability("userns", "git")
def test_a_command_that_is_refused_twelve_times_is_told_in_one_line_and_in_json_each_time(workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    script = "for hook in $(seq 12); do echo x > .git/hooks/hook-$hook; done 2>/dev/null"
    command = ["--workspace", str(workspace), "--unlocked", "--", "sh", "-c", script]
    told = [line for line in typed_here("run", *command).stderr.decode().splitlines() if "refused" in line]
    assert (
        len(told) == 1 and told[0].startswith("fable-exec: refused 12 times: ") and "hook-3 and 9 more (later_files)" in told[0]
    )
    denials = json.loads(typed_here("run", "--json", *command).stdout)["result"]["denials"]
    assert {each["path"] for each in denials} == {f".git/hooks/hook-{number}" for number in range(1, 13)}
