"""The one mapping of outcomes: exhaustive, the same as its table, and without a framework."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fable_exec import errors
from fable_exec.adapters.statuses import STATUS_OF_REASON, Status, refused, status_of, status_of_refusal
from fable_exec.lifecycle import SIGNAL_BASE
from fable_exec.outcome import Denial, EndedBy, Outcome
from fable_exec.protocol import CommandResult

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/adapters.md").read_text()


def result_of(ended_by: EndedBy, exit_code: int | None = None, signal: int | None = None, fails: bool = False) -> CommandResult:
    denials = (Denial(operation="plant", protection="later_files", fails=fails),)
    outcome = Outcome(ended_by=ended_by, exit_code=exit_code, signal=signal, denials=denials)
    return CommandResult.of(outcome, command=("x",), cwd=".", policy_digest="")


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (result_of(EndedBy.EXITED, 0), 0),
        (result_of(EndedBy.EXITED, 7), 7),
        (result_of(EndedBy.EXITED, 0, fails=True), 126),
        (result_of(EndedBy.EXITED, 3, fails=True), 3),
        (result_of(EndedBy.SIGNALED, signal=15), 143),
        (result_of(EndedBy.TIMED_OUT, signal=9), 124),
        (result_of(EndedBy.IDLE_TIMED_OUT, signal=9), 124),
        (result_of(EndedBy.OUTPUT_LIMITED, signal=9), 137),
        (result_of(EndedBy.OUTPUT_LIMITED, 0), 137),
        (result_of(EndedBy.MEMORY_LIMITED, signal=9), 137),
        (result_of(EndedBy.PIDS_LIMITED, 1), 137),
        (result_of(EndedBy.CANCELLED, signal=9), 125),
        (result_of(EndedBy.BROKER_LOST), 125),
    ],
)
def test_a_result_has_one_status(result: CommandResult, status: int) -> None:
    assert status_of(result) == status


def test_every_reason_is_mapped() -> None:
    assert set(STATUS_OF_REASON) == set(EndedBy)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ExecutableDenied("x"), 126),
        (errors.WritesLocked("x"), 126),
        (errors.ShellDenied("x"), 126),
        (errors.PathDenied("x"), 126),
        (errors.InvalidRequest("x"), 2),
        (errors.LaunchFailed("x", stage="exec", errno=2), 127),
        (errors.LaunchFailed("x", stage="exec", errno=13), 126),
        (errors.LaunchFailed("x", stage="zygote", errno=2), 125),
        (errors.BrokerGone("x"), 125),
        (errors.PathNotFound("x"), 125),
        (errors.ConfinementUnavailable("x"), 125),
    ],
)
def test_a_refusal_has_one_status(error: errors.FableExecError, status: int) -> None:
    assert status_of_refusal(error) == refused(error).status == status


def test_the_table_of_the_reference_says_the_same() -> None:
    table = PAGE.partition("## Statuses")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", table, re.MULTILINE))
    words = {reason.value: str(int(status)) for reason, status in STATUS_OF_REASON.items() if status is not None}
    assert rows.pop("outcome") == "status"
    assert rows == {**words, "exited": "n", "signaled": f"{SIGNAL_BASE} + n"}
    refusals = dict(re.findall(r"^\| ([a-z][^|`]*) \| (\d+) \|", table, re.MULTILINE))
    assert {int(number) for number in refusals.values()} == {int(each) for each in Status} - {Status.TIMED_OUT, Status.LIMITED}


@pytest.mark.parametrize(
    "module", ["fable_exec", "fable_exec.adapters", "fable_exec.adapters.workspace", "fable_exec.adapters.blocking"]
)
def test_no_framework_is_loaded_by_importing(module: str) -> None:
    frameworks = (
        "mcp anyio pydantic langchain langchain_core langgraph deepagents pydantic_ai agents inspect_ai click rich".split()
    )
    program = f"import sys, {module}; print([name for name in {frameworks} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
