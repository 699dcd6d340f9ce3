"""How an execution fares, and that no interleaving of a healthy one with a reader makes it look lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fable_exec.lifecycle import Health, Liveness, State, health

ALIVE, DEAD, UNKNOWN = Liveness
ROWS = [
    # state, keeper, job, health
    *((State.EXITED, keeper, job, Health.EXITED) for keeper in Liveness for job in Liveness),
    *((State.ACCEPTED, keeper, job, Health.STARTING) for keeper in (ALIVE, UNKNOWN) for job in Liveness),
    *((State.RUNNING, keeper, job, Health.RUNNING) for keeper in (ALIVE, UNKNOWN) for job in Liveness),
    *((State.ACCEPTED, DEAD, job, Health.LOST) for job in Liveness),
    (State.RUNNING, DEAD, ALIVE, Health.ORPHANED),
    (State.RUNNING, DEAD, UNKNOWN, Health.ORPHANED),
    (State.RUNNING, DEAD, DEAD, Health.LOST),
]


@pytest.mark.parametrize(("state", "keeper", "job", "expected"), ROWS)
def test_how_it_fares(state: State, keeper: Liveness, job: Liveness, expected: Health) -> None:
    assert health(state, keeper, job) is expected


def test_every_combination_is_in_the_table() -> None:
    assert len({row[:3] for row in ROWS}) == len(ROWS) == len(State) * len(Liveness) ** 2


World = dict[str, object]
LIFE: list[World] = [
    # what a start, a run and an end change, one after the other
    {"start_lock": True},
    {"state": State.ACCEPTED},
    {"life_lock": True},
    {"state": State.RUNNING, "job": ALIVE},
    {"start_lock": False},
    {"job": DEAD},
    {"state": State.EXITED},
    {"life_lock": False},
]


def worlds() -> list[World]:
    now: World = {"state": None, "start_lock": False, "life_lock": False, "job": DEAD}
    return [now, *(now := now | change for change in LIFE)]


def readings(looks: tuple[str, ...], first: int = 0) -> Iterator[tuple[object, ...]]:
    """What a reader can have seen: each look falls into any moment that is not before the look before it."""
    if not looks:
        yield ()
        return
    for moment in range(first, len(LIFE) + 1):
        for rest in readings(looks[1:], moment):
            yield worlds()[moment][looks[0]], *rest


def fared(looks: tuple[str, ...]) -> set[Health]:
    """Every health that a reader of a healthy execution can come to who starts again when the state has changed meanwhile."""
    found = set()
    for seen in readings(looks):
        states = {value for look, value in zip(looks, seen, strict=True) if look == "state"}
        start_lock, life_lock, job = (seen[looks.index(name)] for name in ("start_lock", "life_lock", "job"))
        state = states.pop()
        if not states and isinstance(state, State) and isinstance(job, Liveness):
            found.add(health(state, ALIVE if start_lock or life_lock else DEAD, job))
    return found


def test_a_healthy_execution_never_looks_lost_between_two_writes() -> None:
    for first, second in (("start_lock", "life_lock"), ("life_lock", "start_lock")):
        assert fared(("state", first, second, "job", "state")) == {Health.STARTING, Health.RUNNING, Health.EXITED}


@pytest.mark.parametrize("looks", [("state", "start_lock", "life_lock", "job"), ("start_lock", "life_lock", "job", "state")])
def test_one_look_at_the_state_is_not_enough(looks: tuple[str, ...]) -> None:
    assert Health.LOST in fared(looks)
