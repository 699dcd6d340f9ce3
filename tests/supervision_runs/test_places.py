"""Executions where the boot has no name, in namespaces and from other ones, and under a clock that jumps a year.

What is weaker there is told by the record of who is who: a member of the identity that is missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.supervision_runs.jobs import NEEDS, PROOFS, RUNGS
from tests.supervision_runs.places import WAYS

pytestmark = pytest.mark.requires_ability("userns")


def each_way() -> Iterator[Any]:
    """(way, rung): each way and each rung by default, all pairs by the deep runs."""
    for at, (way, rung) in enumerate(itertools.product(WAYS, RUNGS)):
        able = [pytest.mark.requires_ability(*NEEDS[rung])]
        is_default = at % len(RUNGS) == at // len(RUNGS) % len(RUNGS)
        yield pytest.param(way, rung, marks=able if is_default else [*able, pytest.mark.deep])


WHOLE = ["birth", "number of its own", "boot"]
LOST = {
    "found over": False,
    "stop": "refused, it cannot be told",
    "recover": ["recorded"],
    "again": [],
    "end": "keeper_lost None",
}


def assert_lived(answer: dict[str, Any], identity: list[str]) -> None:
    containment, proof = answer["stopped"].pop("held by")
    assert proof == PROOFS[containment]
    assert answer == {
        "stopped": {
            "identity": identity,
            "runner": identity,
            "health": "running",
            "listed": ["running"],
            "is the same": True,
            "end": "stopped -15",
        },
        "by itself": "crashed 7",
        "keeper lost": LOST,
        "afterwards": "crashed 8",
        "faults": [],
    }


@pytest.mark.parametrize(("place", "identity"), [("ordinary", WHOLE), ("processes only", ["number of its own"])])
def test_whole_lives_without_the_name_of_the_boot(inside: Callable[..., Any], rung: str, place: str, identity: list[str]) -> None:
    assert_lived(inside("life", powers=True, rung=rung, place=place), identity)


@pytest.mark.parametrize(("way", "rung"), [*each_way()], indirect=["rung"])
def test_whole_lives_in_namespaces(inside: Callable[..., Any], rung: str, way: str) -> None:
    assert_lived(inside("life", powers=True, into=WAYS[way], rung=rung), WHOLE)


@pytest.mark.parametrize(("way", "rung"), [*each_way()], indirect=["rung"])
def test_from_another_namespace_it_is_seen_stopped_and_waited_for(inside: Callable[..., Any], rung: str, way: str) -> None:
    """Whether a job of another PID namespace is dead cannot be told by its number: its end is recorded by those who can tell."""
    can_tell = "PID" not in way
    assert inside("visited", powers=True, rung=rung, way=way) == {
        "visit": {"health": "running", "recover": [], "stop": "done", "end": "stopped -15"},
        "recover there": ["recorded keeper_lost"] if can_tell else ["left None"],
        "recover here": [] if can_tell else ["recorded keeper_lost"],
        "end": "keeper_lost None",
    }


@pytest.mark.parametrize(("way", "rung"), [*each_way()], indirect=["rung"])
def test_what_was_started_in_another_namespace(inside: Callable[..., Any], rung: str, way: str) -> None:
    """One that ended with its PID namespace is left as it was found, and its workspace is free."""
    answer = inside("resided", powers=True, rung=rung, way=way)
    visit = {"health": "running", "recover": [], "stop": "done", "end": "stopped -15"}
    if "PID" in way:
        assert answer == {"visit": visit, "recover": ["left None"], "afterwards": "crashed 7"}
    else:
        assert answer == {"visit": visit, "visit, its starter gone": visit}


@pytest.mark.requires_ability("gcc")
def test_a_clock_that_jumps_a_year_changes_what_is_written_and_nothing_else(inside: Callable[..., Any], rung: str) -> None:
    answer = inside("jumping", rung=rung)
    for name, years in (("ahead", 1), ("back", -1), ("back from ahead", -1)):
        assert answer[name] == {
            "deadline": ["hard", "timed_out -15", True, years],
            "stop": ["stopped -15", years],
            "keeper lost": [["recorded"], [], "keeper_lost None", years],
        }


@pytest.mark.parametrize("years", [1, -1])
def test_records_of_another_year(inside: Callable[..., Any], rung: str, years: int) -> None:
    answer = inside("other_times", rung=rung, years=years)
    assert answer == {"stop": ["running", "stopped -15"], "keeper lost": ["running", "recorded", "keeper_lost None"]}
