"""Worlds, what is true of each, and which may follow which: checked when made, JSON and Graphviz out."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeVar

__all__ = ["KripkeStructure", "World"]

World = TypeVar("World", bound=Hashable)


class KripkeStructure(Generic[World]):
    """A finite structure in which every world has a next one. Not changed once made; worlds keep their order.

    Args:
        worlds: any hashable values, each once.
        labels: the names that are true of a world; none for a world that is missing.
        transitions: the next worlds of each world, as a mapping, or (world, next world) pairs.

    Raises:
        ValueError: there is no world, one stands twice, has no next one, or is named and not there; the message names it.
    """

    def __init__(
        self,
        worlds: Iterable[World],
        labels: Mapping[World, Iterable[str]],
        transitions: Mapping[World, Iterable[World]] | Iterable[tuple[World, World]],
    ) -> None:
        self.worlds: tuple[World, ...] = tuple(worlds)
        self._places = {world: place for place, world in enumerate(self.worlds)}
        if not self.worlds:
            raise ValueError("a structure has at least one world")
        if len(self._places) != len(self.worlds):
            raise ValueError(f"world {_first_repeated(self.worlds)!r} stands twice")
        self._next = self._read_transitions(transitions)
        self.labels: Mapping[World, frozenset[str]] = MappingProxyType(self._read_labels(labels))
        """The names that are true of each world."""

    def _read_transitions(
        self, transitions: Mapping[World, Iterable[World]] | Iterable[tuple[World, World]]
    ) -> tuple[tuple[int, ...], ...]:
        following: list[dict[int, None]] = [{} for _ in self.worlds]
        if isinstance(transitions, Mapping):
            for world, ones in transitions.items():
                following[self.place(world)].update(dict.fromkeys(map(self.place, ones)))
        else:
            for world, one in transitions:
                following[self.place(world)][self.place(one)] = None
        for world, found in zip(self.worlds, following, strict=True):
            if not found:
                raise ValueError(f"world {world!r} has no next world; let it lead to itself if nothing follows")
        return tuple(map(tuple, following))

    def _read_labels(self, labels: Mapping[World, Iterable[str]]) -> dict[World, frozenset[str]]:
        found = dict.fromkeys(self.worlds, frozenset[str]())
        for world, names in labels.items():
            if isinstance(names, str):
                raise ValueError(f"labels of {world!r} must be a collection of names, not one text")
            found[self.worlds[self.place(world)]] = frozenset(names)
        return found

    def __len__(self) -> int:
        return len(self.worlds)

    def __contains__(self, world: object) -> bool:
        return world in self._places

    def __repr__(self) -> str:
        return f"<KripkeStructure of {len(self)} worlds and {sum(map(len, self._next))} transitions>"

    @cached_property
    def transitions(self) -> Mapping[World, tuple[World, ...]]:
        """The next worlds of each world."""
        return MappingProxyType(
            {
                world: tuple(self.worlds[one] for one in following)
                for world, following in zip(self.worlds, self._next, strict=True)
            }
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Every label that some world carries."""
        return frozenset().union(*self.labels.values())

    # For the checker: worlds by their places.

    def place(self, world: World) -> int:
        """Where `world` stands in `worlds`. ValueError when it does not."""
        try:
            return self._places[world]
        except KeyError:
            raise ValueError(f"world {world!r} is not there") from None

    @property
    def following_places(self) -> Sequence[Sequence[int]]:
        """By place, the places of the next worlds."""
        return self._next

    @cached_property
    def preceding_places(self) -> Sequence[Sequence[int]]:
        """By place, the places of the worlds that it follows."""
        found: list[list[int]] = [[] for _ in self.worlds]
        for place, following in enumerate(self._next):
            for one in following:
                found[one].append(place)
        return found

    def places_labelled(self, name: str) -> bytearray:
        """By place, 1 where the world carries `name`."""
        return bytearray([name in names for names in self.labels.values()])

    # Out and in.

    def to_json(self, name: Callable[[World], str] = str) -> str:
        """One JSON object: "worlds", "labels" and "transitions", both by world. `name` must tell worlds apart."""
        names = [name(world) for world in self.worlds]
        if len(set(names)) != len(names):
            raise ValueError(f"two worlds are called {_first_repeated(names)!r}")
        document = {
            "worlds": names,
            "labels": {called: sorted(labels) for called, labels in zip(names, self.labels.values(), strict=True)},
            "transitions": {names[place]: [names[one] for one in following] for place, following in enumerate(self._next)},
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> KripkeStructure[str]:
        """The inverse, with the names as worlds. ValueError for anything else."""
        try:
            document = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(document, dict) or document.keys() != {"worlds", "labels", "transitions"}:
            raise ValueError('must be an object of "worlds", "labels" and "transitions"')
        by_world = (document["labels"], document["transitions"])
        lists = [document["worlds"], *(each for found in by_world if isinstance(found, dict) for each in found.values())]
        if not all(isinstance(found, dict) for found in by_world) or not all(map(_is_list_of_names, lists)):
            raise ValueError("worlds must be a list of names, labels and transitions objects of such lists")
        structure: KripkeStructure[Any] = cls(**document)
        return structure

    def to_graphviz(self, path: Sequence[World] = (), name: Callable[[World], str] = str) -> str:
        """The structure as a graph for dot(1), with the worlds and transitions of `path` in red."""
        on_path = {self.place(world) for world in path}
        steps = {(self.place(one), self.place(other)) for one, other in itertools.pairwise(path)}
        lines = ["digraph structure {", "  node [shape=box];"]
        for place, world in enumerate(self.worlds):
            shown = _quoted("\n".join([name(world), *sorted(self.labels[world])]))
            lines.append(f"  {place} [label={shown}{', color=red' if place in on_path else ''}];")
        for place, following in enumerate(self._next):
            lines += [f"  {place} -> {one}{' [color=red]' if (place, one) in steps else ''};" for one in following]
        return "\n".join([*lines, "}", ""])


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _first_repeated(values: Sequence[Hashable]) -> Hashable:
    return next(value for value, times in Counter(values).items() if times > 1)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
