"""The table of exit statuses: as a function, and as documentation."""

from __future__ import annotations

import errno
import re

import pytest

from fable_exec import errors
from fable_exec.cli.exits import Exit, SuperviseExit, of_failure, of_result, of_run_failure, of_supervise_failure
from fable_exec.outcome import Denial, EndedBy
from tests.cli.results import result
from tests.cli.typed import PROJECT, typed


@pytest.mark.parametrize(
    "ended_by, code, signal, status",
    [
        (EndedBy.EXITED, 0, None, 0),
        (EndedBy.EXITED, 255, None, 255),
        (EndedBy.SIGNALED, None, 11, 139),
        (EndedBy.TIMED_OUT, None, 9, 124),
        (EndedBy.TIMED_OUT, 0, None, 124),
        (EndedBy.IDLE_TIMED_OUT, None, 9, 124),
        (EndedBy.OUTPUT_LIMITED, 0, None, 137),
        (EndedBy.OUTPUT_LIMITED, None, 9, 137),
        (EndedBy.MEMORY_LIMITED, None, 9, 137),
        (EndedBy.PIDS_LIMITED, None, 9, 137),
        (EndedBy.CANCELLED, None, 9, 125),
        (EndedBy.BROKER_LOST, None, None, 125),
    ],
)
def test_every_outcome_has_its_status(ended_by: EndedBy, code: int | None, signal: int | None, status: int) -> None:
    assert of_result(result(ended_by, exit_code=code, signal=signal)) == status


@pytest.mark.parametrize("fails, code, status", [(True, 0, 126), (True, 3, 3), (False, 0, 0), (False, 3, 3)])
def test_what_the_policy_counts_as_a_failure_takes_a_0_away_and_nothing_else(fails: bool, code: int, status: int) -> None:
    planted = Denial(operation="plant env", path=".envrc", protection="later_files", fails=fails)
    assert of_result(result(EndedBy.EXITED, exit_code=code, denials=(planted,))) == status


def test_only_a_command_that_exits_0_gives_0() -> None:
    assert all(of_result(result(reason, exit_code=None)) != 0 for reason in EndedBy)
    assert all(of_result(result(reason, exit_code=0)) != 0 for reason in EndedBy if reason is not EndedBy.EXITED)


@pytest.mark.parametrize(
    "error, status",
    [
        (errors.Denied("no"), 126),
        (errors.WritesLocked("no"), 126),
        (errors.ExecutableDenied("no"), 126),
        (errors.PathDenied("no"), 126),
        (errors.ArgumentDenied("no"), 126),
        (errors.InvalidRequest("no"), 2),
        (errors.PolicyError.of([("", "no")]), 125),
        (errors.ConfinementUnavailable("no"), 125),
        (errors.AuditUnavailable("no"), 125),
        (errors.BrokerGone("no"), 125),
        (errors.PathNotFound("no"), 125),
        (errors.LaunchFailed.at("exec", errno.ENOENT, "x"), 127),
        (errors.LaunchFailed.at("exec", errno.EACCES, "x"), 126),
        (errors.LaunchFailed.at("exec", errno.ENOEXEC, "x"), 126),
        (errors.LaunchFailed.at("exec", errno.ENOMEM, "x"), 125),
        (errors.LaunchFailed.at("descriptors", errno.EMFILE, "x"), 125),
        (OSError(errno.ENOSPC, "no room"), 125),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_failure_of_a_run_has_its_status(error: Exception, status: int) -> None:
    assert of_run_failure(error) == status


def test_the_other_commands_know_1_and_2() -> None:
    assert of_failure(errors.PolicyError.of([("", "no")])) == of_failure(errors.InvalidRequest("no")) == 2
    assert of_failure(errors.ConfinementUnavailable("no")) == of_failure(OSError()) == 1


def test_the_documented_table_is_the_one_in_the_code() -> None:
    page = (PROJECT / "docs/reference/cli.md").read_text().partition("## Exit status")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| ([0-9+N]+) \|", page, re.MULTILINE)
    assert documented == [*(str(int(status)) for status in sorted(Exit)), "128+N"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.Conflict("no"), 3),
        (errors.UnknownExecution("no"), 4),
        (errors.IdentityLost("no"), 5),
        (errors.SignalRefused("no"), 5),
        (errors.StateUnreadable("no"), 5),
        (errors.InvalidRequest("no"), 2),
        (errors.PolicyError.of([("", "no")]), 2),
        (errors.ExecutableDenied("no"), 1),
        (errors.LaunchFailed("no"), 1),
        (errors.BrokerGone("no"), 1),
        (TimeoutError("no"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_failure_of_supervise_has_its_status(error: Exception, status: int) -> None:
    assert of_supervise_failure(error) == status


def test_the_documented_table_of_supervise_and_its_help_have_its_own_statuses() -> None:
    page = (PROJECT / "docs/reference/cli.md").read_text().partition("\n## supervise\n")[2].partition("\n## ")[0]
    documented = {int(status) for status in re.findall(r"^\| ([0-9]+) \|", page, re.MULTILINE)}
    assert documented == {*SuperviseExit, Exit.OK, Exit.FAILED, Exit.USAGE, Exit.PIPE_CLOSED}
    text = typed("supervise", "--help").stdout.decode()
    assert [int(status) for status in SuperviseExit if not re.search(rf"\b{int(status)}  ", text)] == []


def test_the_help_of_run_names_the_statuses_that_are_its_own() -> None:
    text = typed("run", "--help").stdout.decode()
    assert [int(status) for status in Exit if status > Exit.FAILED and not re.search(rf"\b{int(status)}\b", text)] == []
