"""Every world that can be come to from one, as a structure to check, with the names of what leads from each to the next. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from fable_exec.assurance.kripke import KripkeStructure

__all__ = ["Model", "Step", "explore"]

World = TypeVar("World", bound=Hashable)


@attrs.frozen
class Step:
    """One step of a path: what happened, and what is true then. The first of a path happened as ""."""

    event: str
    labels: tuple[str, ...]


@attrs.frozen
class Model(Generic[World]):
    """What was explored. `events` names a transition by its worlds; of several that lead the same way, the first."""

    initial: World
    structure: KripkeStructure[World]
    events: Mapping[tuple[World, World], str]

    def steps(self, path: Sequence[World]) -> tuple[Step, ...]:
        """A path of worlds, to read."""
        events = ["", *(self.events[one, other] for one, other in itertools.pairwise(path))]
        return tuple(Step(event, tuple(sorted(self.structure.labels[world]))) for event, world in zip(events, path, strict=True))


def explore(
    initial: World, moves: Callable[[World], Iterable[tuple[str, World]]], labels: Callable[[World], Iterable[str]]
) -> Model[World]:
    """Follow `moves`, (what happens, the world then), from `initial` until there is nothing new.

    A world in which nothing can happen stays as it is for ever.
    """
    transitions: dict[World, list[World]] = {}
    events: dict[tuple[World, World], str] = {}
    waiting = [initial]
    for world in waiting:
        if world in transitions:
            continue
        following = transitions[world] = []
        for event, one in [*moves(world)] or [("nothing happens any more", world)]:
            following.append(one)
            events.setdefault((world, one), event)
        waiting += [one for one in following if one not in transitions]
    structure = KripkeStructure(transitions, {world: labels(world) for world in transitions}, transitions)
    return Model(initial, structure, events)
