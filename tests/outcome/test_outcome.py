"""How a call ended, said in one word and a few derived ones."""

from __future__ import annotations

import pickle

import pytest

from fable_exec.outcome import Applied, Captured, Denial, EndedBy, Outcome, Survivor

CUT = Captured(head=b"x", total_bytes=2)


@pytest.mark.parametrize(
    ("outcome", "success", "timed_out", "output_limited"),
    [
        (Outcome(ended_by=EndedBy.EXITED, exit_code=0), True, False, False),
        (Outcome(ended_by=EndedBy.EXITED, exit_code=1), False, False, False),
        (Outcome(ended_by=EndedBy.EXITED, exit_code=0, stderr=CUT), False, False, True),
        (Outcome(ended_by=EndedBy.SIGNALED, signal=11), False, False, False),
        (Outcome(ended_by=EndedBy.TIMED_OUT, signal=9), False, True, False),
        (Outcome(ended_by=EndedBy.IDLE_TIMED_OUT), False, True, False),
        (Outcome(ended_by=EndedBy.OUTPUT_LIMITED, signal=9, stdout=CUT), False, False, True),
        (Outcome(ended_by=EndedBy.CANCELLED, exit_code=0), False, False, False),
    ],
)
def test_success_is_exit_zero_in_time_with_all_output(
    outcome: Outcome, success: bool, timed_out: bool, output_limited: bool
) -> None:
    assert (outcome.success, outcome.timed_out, outcome.output_limited) == (success, timed_out, output_limited)


def test_the_words_on_the_wire_are_these() -> None:
    assert [ended.value for ended in EndedBy] == [
        "exited",
        "signaled",
        "timed_out",
        "idle_timed_out",
        "output_limited",
        "memory_limited",
        "pids_limited",
        "cancelled",
        "broker_lost",
    ]


def test_an_outcome_survives_pickling() -> None:
    outcome = Outcome(
        ended_by=EndedBy.EXITED,
        exit_code=3,
        stdout=Captured(head=b"a", tail=b"b", total_bytes=9),
        survivors=(Survivor(7, "sleep"),),
        applied=(Applied("network", "strict", "active", "namespace"),),
        denials=(Denial(operation="connect", address="1.2.3.4:80", protection="network"),),
    )
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert hash(outcome) == hash(pickle.loads(pickle.dumps(outcome)))
