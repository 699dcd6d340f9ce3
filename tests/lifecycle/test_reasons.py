"""One reason for every end: each rule, the order of the rules, and what no combination of facts may lead to."""

from __future__ import annotations

import errno
from typing import Any

import attrs
import pytest
from hypothesis import given

from fable_exec import errors
from fable_exec.cli.exits import of_run_failure
from fable_exec.lifecycle import (
    RULES,
    Deadline,
    ExitCodeVerdict,
    Facts,
    LaunchFailed,
    Limit,
    Phase,
    Progress,
    TerminalReason,
    asks_for_verdict,
    exit_status,
    is_restarted,
    judged,
    step,
    terminal_reason,
)
from fable_exec.testing.strategies import facts

ALL_AT_ONCE: dict[str, Any] = {
    "descendants_detected": True, "descendant_error": "EACCES", "stop_signal_sent": True, "deadline": Deadline.IDLE,
    "limit": Limit.OUTPUT, "returncode": 0, "verdict_holds": True,
}  # fmt: skip


def without(*names: str, **others: Any) -> dict[str, Any]:
    return {name: value for name, value in ALL_AT_ONCE.items() if name not in names} | others


RULE_1 = ("descendants_detected",)
RULE_2 = (*RULE_1, "descendant_error")
RULE_3 = (*RULE_2, "stop_signal_sent")
RULE_3A = (*RULE_3, "deadline")
RULE_3B = (*RULE_3A, "limit")

ROWS: list[tuple[str, dict[str, Any], str]] = [
    # section and rule, facts (each row with everything that a later rule would look at), word
    ("outside: launch failure", ALL_AT_ONCE | {"launch_error": "exec failed with ENOENT"}, "launch_failed"),
    ("outside: launch failure without a text", {"launch_error": ""}, "launch_failed"),
    ("recover: reboot", ALL_AT_ONCE | {"host_rebooted": True}, "host_rebooted"),
    ("recover: keeper", ALL_AT_ONCE | {"keeper_lost": True}, "keeper_lost"),
    ("1, quiescent", ALL_AT_ONCE | {"descendants_quiescent": True}, "descendants_terminated"),
    ("1, not quiescent", ALL_AT_ONCE, "descendants_uncontained"),
    ("2", without(*RULE_1), "descendant_check_failed"),
    ("3", without(*RULE_2), "stopped"),
    ("3a, idle", without(*RULE_3), "timed_out"),
    ("3a, hard", without(*RULE_3, deadline=Deadline.HARD), "timed_out"),
    ("3b", without(*RULE_3A), "output_limited"),
    ("3c", without(*RULE_3A, limit=Limit.MEMORY), "memory_limited"),
    ("3c, processes", without(*RULE_3A, limit=Limit.PROCESSES), "pids_limited"),
    ("3c, processor time", without(*RULE_3A, limit=Limit.CPU), "cpu_limited"),
    ("4", without(*RULE_3B), "completed"),
    ("5, status 0", without(*RULE_3B, verdict_holds=False), "verification_failed"),
    ("5, status 20", without(*RULE_3B, returncode=20), "verification_failed"),
    ("5, a code of the verdict's own", {"returncode": 3, "policy_failure_codes": frozenset({3})}, "verification_failed"),
    ("5, status 20 where it is no code", {"returncode": 20, "policy_failure_codes": frozenset({3})}, "crashed"),
    ("5, status 0 where no code is known", {"returncode": 0, "policy_failure_codes": frozenset()}, "verification_failed"),
    ("6, another status", without(*RULE_3B, returncode=1), "crashed"),
    ("6, a signal", without(*RULE_3B, returncode=-9), "crashed"),
    ("6, a status that nobody was told", without(*RULE_3B, returncode=None), "crashed"),
    ("a kill alone is no stop", {"signal_sent": True, "kill_sent": True, "returncode": -9}, "crashed"),
]


@pytest.mark.parametrize(("facts", "word"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_each_rule_in_its_order(facts: dict[str, Any], word: str) -> None:
    assert terminal_reason(Facts(**facts)).value == word


def test_the_rows_reach_every_reason_and_every_reason_has_one_rule() -> None:
    assert {word for _, _, word in ROWS} == {reason.value for reason in TerminalReason}
    assert [reason for reason, _ in RULES] == list(TerminalReason)


@pytest.mark.fuzz
@given(facts())
def test_every_combination_of_facts_has_one_reason_that_is_true(facts: Facts) -> None:
    reason = terminal_reason(facts)
    applying = [rule for rule, applies in RULES if applies(facts)]
    assert applying[0] is reason and applying.count(reason) == 1
    assert reason is not TerminalReason.STOPPED or facts.stop_signal_sent
    assert reason is not TerminalReason.TIMED_OUT or facts.deadline is not None
    if reason in (TerminalReason.COMPLETED, TerminalReason.VERIFICATION_FAILED, TerminalReason.CRASHED):
        assert not facts.descendants_detected and not facts.descendant_error
        assert not facts.stop_signal_sent and facts.deadline is None and facts.limit is None
        assert facts.launch_error is None and not facts.keeper_lost and not facts.host_rebooted
    if reason is TerminalReason.COMPLETED:
        assert facts.returncode == 0 and facts.verdict_holds
    if facts.descendants_detected or facts.descendant_error:
        assert reason.value.startswith(("descendant", "launch_failed", "keeper_lost", "host_rebooted"))


@pytest.mark.fuzz
@given(facts())
def test_at_most_one_of_status_and_signal_is_told_and_none_is_invented(facts: Facts) -> None:
    assert (facts.exit_code is None) or (facts.signal is None)
    assert (facts.exit_code is None and facts.signal is None) == (facts.returncode is None)
    assert facts.returncode in (facts.exit_code, None if facts.signal is None else -facts.signal)


CRASH = Facts(returncode=1, descendants_quiescent=True)


@pytest.mark.parametrize(
    ("changes", "restarted"),
    [
        ({}, True),
        ({"returncode": -11}, True),
        ({"returncode": None}, True),
        ({"returncode": 0}, False),
        ({"returncode": 0, "verdict_holds": True}, False),
        ({"returncode": 20}, False),
        ({"policy_failure_codes": frozenset({1})}, False),
        ({"descendants_quiescent": False}, False),
        ({"descendants_detected": True}, False),
        ({"descendant_error": "EACCES"}, False),
        ({"limit": Limit.CPU}, False),
        ({"deadline": Deadline.IDLE}, False),
        ({"stop_signal_sent": True, "signal_sent": True}, False),
        ({"signal_sent": True}, False),
        ({"end_wanted": True}, False),
        ({"launch_error": "exec failed with ENOENT"}, False),
        ({"keeper_lost": True}, False),
        ({"host_rebooted": True}, False),
    ],
)
def test_only_a_crash_of_its_own_is_followed_by_another_attempt(changes: dict[str, Any], restarted: bool) -> None:
    assert is_restarted(attrs.evolve(CRASH, **changes), 1, 1) is restarted


@pytest.mark.parametrize("most", [0, 1, 5, 100])
def test_restarts_are_bounded(most: int) -> None:
    assert [is_restarted(CRASH, attempt, most) for attempt in range(1, most + 3)] == [True] * most + [False] * 2


@pytest.mark.fuzz
@given(facts())
def test_whatever_was_wanted_or_ended_otherwise_is_never_restarted(facts: Facts) -> None:
    if is_restarted(facts, 1, 100):
        assert terminal_reason(facts) is TerminalReason.CRASHED and facts.descendants_quiescent
        assert not facts.end_wanted and not facts.signal_sent
    assert not is_restarted(attrs.evolve(facts, end_wanted=True), 1, 100)


class Asked:
    """A verdict that counts how often it is asked."""

    def __init__(self, answer: bool) -> None:
        self.answer, self.times = answer, 0

    def holds(self) -> bool:
        self.times += 1
        return self.answer


@pytest.mark.fuzz
@given(facts())
def test_a_verdict_is_asked_only_where_its_answer_is_the_reason(facts: Facts) -> None:
    ended_alone = facts.returncode == 0 and not facts.stop_signal_sent and facts.deadline is None
    unlimited = facts.limit is None
    alone = not facts.descendants_detected and not facts.descendant_error
    known = facts.launch_error is None and not facts.keeper_lost and not facts.host_rebooted
    assert asks_for_verdict(facts) == (ended_alone and unlimited and alone and known)
    for answer in (True, False):
        verdict = Asked(answer)
        event = judged(facts, verdict)
        assert verdict.times == asks_for_verdict(facts)
        assert event.holds == (answer and asks_for_verdict(facts))
        reason = terminal_reason(attrs.evolve(facts, verdict_holds=event.holds))
        assert (reason is TerminalReason.COMPLETED) == event.holds


@pytest.mark.parametrize(
    ("returncode", "word"), [(0, "completed"), (20, "verification_failed"), (1, "crashed"), (-15, "crashed"), (None, "crashed")]
)
def test_by_exit_code_status_0_is_enough(returncode: int | None, word: str) -> None:
    facts = Facts(returncode=returncode)
    decided = attrs.evolve(facts, verdict_holds=judged(facts, ExitCodeVerdict()).holds)
    assert terminal_reason(decided).value == word


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"returncode": 0}, 0),
        ({"returncode": 0, "verdict_holds": True}, 0),
        ({"returncode": 20}, 20),
        ({"returncode": 255}, 255),
        ({"returncode": 256}, 255),
        ({"returncode": -15, "stop_signal_sent": True}, 143),
        ({"returncode": -64}, 192),
        ({"returncode": -200}, 255),
        ({"returncode": 0, "deadline": Deadline.HARD}, 0),
        ({"keeper_lost": True}, 125),
        ({"host_rebooted": True}, 125),
        ({"launch_error": "no descriptors are left (EMFILE)"}, 127),
        ({"launch_error": "exec failed with ENOENT", "exec_errno": errno.ENOENT}, 127),
        ({"launch_error": "exec failed with EACCES", "exec_errno": errno.EACCES}, 126),
        ({"launch_error": "exec failed with ENOEXEC", "exec_errno": errno.ENOEXEC}, 126),
        ({"launch_error": "exec failed with ENOMEM", "exec_errno": errno.ENOMEM}, 125),
    ],
)
def test_the_status_of_a_supervisor(facts: dict[str, Any], status: int) -> None:
    assert exit_status(Facts(**facts)) == status


@pytest.mark.parametrize("number", errno.errorcode)
def test_an_exec_that_fails_has_the_status_that_run_gives_it(number: int) -> None:
    facts, _ = step(Progress(phase=Phase.RUNNING), LaunchFailed("exec failed", exec_errno=number))
    assert exit_status(facts.facts) == of_run_failure(errors.LaunchFailed.at("exec", number, "/bin/x"))


@pytest.mark.fuzz
@given(facts())
def test_every_combination_of_facts_has_a_status_and_only_status_0_is_0(facts: Facts) -> None:
    assert 0 <= exit_status(facts) <= 255
    assert (exit_status(facts) == 0) == (facts.returncode == 0 and facts.launch_error is None)
