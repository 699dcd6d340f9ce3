"""How an execution fares, and that no interleaving of a healthy one with a reader makes it look lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fable_exec.lifecycle import Health, Liveness, State, health, health_by_looking

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


class NotYet(Exception):
    """There is no state to read, or the next look falls into no moment that was chosen yet."""


class Reader:
    """Looks that fall into the given moments of a healthy life, one after the other."""

    def __init__(self, moments: tuple[int, ...], locks: tuple[str, str]) -> None:
        self.moments, self.locks, self.looks = list(moments), locks, 0

    def look(self, name: str) -> object:
        self.looks += 1
        if self.looks > len(self.moments):
            raise NotYet
        return WORLDS[self.moments[self.looks - 1]][name]

    def state(self) -> State:
        found = self.look("state")
        if not isinstance(found, State):
            raise FileNotFoundError("there is no execution yet")
        return found

    def keeper(self) -> Liveness:
        held = [self.look(name) for name in self.locks]
        return ALIVE if any(held) else DEAD

    def job(self) -> Liveness:
        found = self.look("job")
        assert isinstance(found, Liveness)
        return found


WORLDS = worlds()
LOCKS = [("start_lock", "life_lock"), ("life_lock", "start_lock")]


def fared(fares: Callable[[Reader], Health], locks: tuple[str, str], moments: tuple[int, ...] = ()) -> set[Health]:
    """Every health that a reader can come to whose looks fall into these moments and then into any, each not before the last."""
    try:
        return {fares(Reader(moments, locks))}
    except FileNotFoundError:
        return set()
    except NotYet:
        first = moments[-1] if moments else 0
        more = (fared(fares, locks, (*moments, moment)) for moment in range(first, len(WORLDS)))
        return set().union(*more)


@pytest.mark.parametrize("locks", LOCKS)
def test_a_healthy_execution_never_looks_lost_between_two_writes(locks: tuple[str, str]) -> None:
    seen = fared(lambda reader: health_by_looking(reader.state, reader.keeper, reader.job), locks)
    assert seen == {Health.STARTING, Health.RUNNING, Health.EXITED}


@pytest.mark.parametrize("locks", LOCKS)
def test_one_look_at_the_state_is_not_enough(locks: tuple[str, str]) -> None:
    def before(reader: Reader) -> Health:
        return health(reader.state(), reader.keeper(), reader.job())

    def after(reader: Reader) -> Health:
        keeper, job = reader.keeper(), reader.job()
        return health(reader.state(), keeper, job)

    assert Health.LOST in fared(before, locks) & fared(after, locks)


def test_a_state_that_stays_is_looked_at_twice_and_what_a_look_raises_comes_through() -> None:
    running = next(moment for moment, world in enumerate(WORLDS) if world["state"] is State.RUNNING)
    reader = Reader((running,) * 5, LOCKS[0])
    assert health_by_looking(reader.state, reader.keeper, reader.job) is Health.RUNNING
    assert reader.looks == 5
    with pytest.raises(FileNotFoundError):
        health_by_looking(Reader((0,), LOCKS[0]).state, reader.keeper, reader.job)
