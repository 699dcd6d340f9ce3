"""Numbers of an execution that became a stranger's, at a stop, at `recover` and while survivors end: it is never signalled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.supervision_runs.running import QUICK, WHOLE

pytestmark = pytest.mark.requires_ability("userns")

ROUNDS = pytest.mark.parametrize(
    "rounds", [QUICK["reuse"]["rounds"], pytest.param(WHOLE["reuse"]["rounds"], marks=pytest.mark.deep)]
)


def run(inside: Callable[..., Any], **terms: Any) -> Any:
    answer = inside("reuse", powers=True, timeout=50 + terms["rounds"], **terms)
    assert answer["signals"] == {}
    return answer["ends"]


@ROUNDS
def test_at_a_stop(inside: Callable[..., Any], rung: str, rounds: int) -> None:
    """And the job that ended by itself before a signal reached it was not stopped."""
    assert run(inside, rung=rung, moment="stop", rounds=rounds) == {"crashed 7": rounds}


@ROUNDS
def test_at_recover(inside: Callable[..., Any], rung: str, rounds: int) -> None:
    ends = run(inside, rung=rung, moment="recover", rounds=rounds)
    assert ends == {"stop refused, gone: False; recorded; keeper_lost None": rounds}


@ROUNDS
def test_while_survivors_are_ended(inside: Callable[..., Any], rung: str, rounds: int) -> None:
    ends = run(inside, rung=rung, moment="reconcile", rounds=rounds)
    assert ends.pop("descendants_terminated 7, in time", 0) >= rounds / 2  # else the machine was busy elsewhere
    assert set(ends) <= {"descendants_terminated 7, too late"}
