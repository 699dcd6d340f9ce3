"""Which numbers of seconds are taken."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fable_exec.deadline import MAX_SECONDS, Terms, run_with_deadline
from fable_exec.errors import InvalidRequest

BAD: list[Any] = [-1, -0.001, math.nan, math.inf, -math.inf, MAX_SECONDS + 1, 10**400, 1e300, True, "5", None, 1j]


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_what_is_no_bounded_number_of_seconds_is_refused_at_every_place(bad: Any) -> None:
    for terms in ((bad, 1.0, 1.0), (1.0, bad, 1.0), *([] if bad is None else [(1.0, 1.0, bad)])):
        with pytest.raises(InvalidRequest, match=r"^(hard|grace|idle) must be "):
            Terms(*terms)


def test_only_the_grace_may_be_nothing() -> None:
    assert Terms(MAX_SECONDS, 0, None).grace == 0
    for terms in ((0, 1, None), (1, 1, 0)):
        with pytest.raises(InvalidRequest, match="must be a number of seconds, above 0 and at most 31622400, not 0"):
            Terms(*terms)


@pytest.mark.parametrize("argv", [[], [""], ["true", "a\0b"]], ids=repr)
def test_what_cannot_be_a_command_is_refused(argv: list[str]) -> None:
    with pytest.raises(InvalidRequest):
        run_with_deadline(argv, hard=1)
