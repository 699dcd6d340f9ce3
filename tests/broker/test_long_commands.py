"""A command line that is longer than the system takes is the request's fault, and the error says by how much."""

from __future__ import annotations

import mmap
from typing import Any

import pytest

from fable_exec import InvalidRequest

pytestmark = pytest.mark.requires_ability("confinement")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["x" * (32 * mmap.PAGESIZE)],
            rf"in 2 arguments, the longest of {32 * mmap.PAGESIZE + 1}, .* takes {32 * mmap.PAGESIZE} in one",
        ),
        (["é" * (16 * mmap.PAGESIZE)], rf"the longest of {32 * mmap.PAGESIZE + 1},"),
        (["x" * 99_999] * 130, r"too long: 130\d{5} bytes in 131 arguments, the longest of 100000,"),
    ],
    ids=["one", "bytes not characters", "all together"],
)
def test_what_is_too_long_is_refused_with_the_sizes(broker: Any, arguments: list[str], said: str) -> None:
    for start in (broker.execute_command, lambda argv: broker.start_command(argv).wait()):
        with pytest.raises(InvalidRequest, match=said):
            start(["true", *arguments])
    assert broker.execute_command(["true"]).success


def test_the_longest_argument_that_the_system_takes_runs(broker: Any) -> None:
    longest = "x" * (32 * mmap.PAGESIZE - 1)
    assert broker.execute_command(["echo", longest]).stdout == longest + "\n"


def test_every_door_says_so(door: Any) -> None:
    with pytest.raises(InvalidRequest, match="the command line is too long"):
        door.execute_command(["true", "x" * 200_000])
