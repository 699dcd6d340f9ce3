"""The same promises in strange places: hidden and foreign /proc, old kernels, sandboxes, time and PID namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.requires_ability("pidfd", "userns")]

YEAR_TICKS = 365 * 24 * 3600 * 100
LIFE = {
    "again": "same",
    "reopened": "done",
    "asked": "done",
    "ran on": True,
    "group": "done",
    "waited for": "done",
    "signal to the zombie": "gone",
    "looked at as a zombie": "gone",
    "reopened as a zombie": "gone",
    "signal to nobody": "gone",
    "reopened as nobody": "gone",
    "left open": [],
}
NO_RECORD = {"again": "unknown", "reopened": "unproved"}
NO_PROC = {**NO_RECORD, "reopened as a zombie": "unproved", "reopened as nobody": "unproved"}  # and so no namespace is known
UNPROVED = "refused: process 3 cannot be proved to be the recorded one, nor another; no signal was sent"
NOTHING_AT_ALL = {**NO_RECORD, "asked": "unproved", "group": UNPROVED}
BLIND = {
    **NO_PROC,
    **NOTHING_AT_ALL,
    "waited for": "unproved",
    "signal to the zombie": "unproved",
    "looked at as a zombie": "done",  # an identity in which nothing is known but the number
}

BY_NUMBER, BY_TICK, HIDDEN_BOOT = "no process descriptor", "no number of its own", "is hidden"


@pytest.mark.parametrize(
    ("place", "differently", "weaker", "orphan"),
    [
        ("ordinary", {}, [], "done, and it ended"),
        ("no descriptors", {}, [BY_NUMBER, BY_TICK], "done, and it ended"),
        ("no group signals", {}, ["no signals to groups"], "done, and it ended"),
        ("processes only", NO_RECORD, [HIDDEN_BOOT], "done, and it ended"),
        ("no proc", NO_PROC, [HIDDEN_BOOT], "refused: it cannot be told whether it is an ancestor of this process"),
        ("processes only, no descriptors", NOTHING_AT_ALL, [BY_NUMBER, BY_TICK, HIDDEN_BOOT], "unproved"),
        ("no proc, no descriptors", BLIND, [BY_NUMBER, BY_TICK, HIDDEN_BOOT], "unproved"),
    ],
)
def test_a_childs_life_from_start_to_end(
    inside: Callable[..., Any], place: str, differently: dict[str, Any], weaker: list[str], orphan: str
) -> None:
    """S22: with the boot's name hidden a held handle still stops its process; and every weakness is told."""
    life = inside("life_of_a_child", place)
    assert all(expected in said for expected, said in zip(weaker, life.pop("weaker"), strict=True))
    recorded = life.pop("recorded")
    assert bool(recorded["boot_id"]) == (HIDDEN_BOOT not in weaker)
    assert (recorded["unique_id"] is not None) == (BY_TICK not in weaker)
    assert life.pop("group of another session").startswith("refused: process 3 was recorded in group 3 and session")
    assert life == {**LIFE, **differently}
    assert inside("signal_to_an_orphan", place) == orphan


def test_a_clock_that_is_a_year_ahead_makes_nobody_a_stranger(inside: Callable[..., Any]) -> None:
    """In a time namespace: the kernel's own count of ticks jumps. S2, S5."""
    answer = inside("a_year_ahead")
    assert answer["ticks ahead"] == YEAR_TICKS
    assert answer["compared"] == ["same", "same"]
    assert answer["compared without the kernel's number"] == ["unknown", "unknown"]
    assert answer["reopened there"] == "done"
    life = answer["a life there"]
    assert {name: life[name] for name in LIFE} == LIFE and life["weaker"] == []


@pytest.mark.parametrize(
    ("proc", "place", "compared", "said_within"),
    [
        ("own proc", "ordinary", "same", ["same", "done"]),
        ("foreign proc", "ordinary", "same", ["same", "done"]),
        ("own proc", "no descriptors", "unknown", ["unknown", "done"]),
        ("foreign proc", "no descriptors", "unknown", ["unknown", "unproved"]),
    ],
)
def test_a_process_has_two_numbers_and_is_one(
    inside: Callable[..., Any], proc: str, place: str, compared: str, said_within: list[str]
) -> None:
    """From within its PID namespace and from outside; and where /proc is that of the outer one, whose numbers are strangers'."""
    answer = inside("from_two_pid_namespaces", proc, place)
    assert answer["numbers differ"] and answer["namespaces differ"]
    assert answer["compared"] == [compared, compared]
    assert answer["compared without the kernel's number"] == ["unknown", "unknown"]
    assert answer["said within"][:2] == said_within
    # Where the recorded number means nobody, or somebody else, the process is not dead: it lives, under another number.
    assert answer["said within"][2:] == ["unproved", "unproved"]
    within, outside = answer["births"]
    assert within == ("None" if said_within[1] == "unproved" else outside)


@pytest.mark.requires_ability("root")
def test_where_proc_hides_strangers_nobody_is_signalled_who_may_be_an_ancestor(inside: Callable[..., Any]) -> None:
    """With one user's eyes: another's process is known by its number alone; one born after us is no ancestor."""
    answer = inside("strangers_that_proc_hides", as_is=True)
    assert answer["seen"]["birth_token"] is None and answer["seen"]["unique_id"]
    assert answer["compared"] == ["same", "same"]
    untold = "refused: it cannot be told whether it is an ancestor of this process"
    assert answer["asked"] == {"theirs": untold, "older": untold, "younger": "done"}
