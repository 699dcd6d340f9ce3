"""A graph of causes: who comes before whom, what is independent of what, and what an intervention changes. Pure.

Nodes are names. A graph is a value: `do` gives another one. Independence is d-separation, after Pearl (2009), found
as in Shachter's "Bayes-Ball" (1998), in time linear in nodes and edges.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

__all__ = ["CausalDAG", "CycleFound", "NodeKind"]

Edge = tuple[str, str] | tuple[str, str, float]
Mechanism = Callable[[Mapping[str, float]], float]
"""From the values of a node's parents, by name, to its own."""


class NodeKind(Enum):
    """What a node stands for. It changes no answer."""

    EXOGENOUS = "exogenous"
    """Comes from outside."""
    INTERVENTION = "intervention"
    """What is done."""
    MECHANISM = "mechanism"
    """How one thing brings about another."""
    ASSET = "asset"
    """What is to be protected."""


class CycleFound(ValueError):
    """The edges are no DAG; `cycle` is one way round, with its first node again at the end."""

    def __init__(self, cycle: tuple[str, ...]) -> None:
        super().__init__(cycle)
        self.cycle = cycle

    def __str__(self) -> str:
        return f"a cause cannot be its own effect: {' -> '.join(self.cycle)}"


class CausalDAG:
    """Named nodes and weighted edges from causes to effects, without a cycle.

    Args:
        edges: (cause, effect) or (cause, effect, weight); the weight is 1 unless it is given.
        kinds: what nodes stand for; a node that has no edge is named here. Without a kind a node is EXOGENOUS when nothing
            causes it, else a MECHANISM.

    Raises:
        CycleFound: a ValueError that names the cycle.
        ValueError: an edge stands twice, or is none.
    """

    def __init__(self, edges: Iterable[Edge], kinds: Mapping[str, NodeKind] = MappingProxyType({})) -> None:
        self._weights = _weights_of(edges)
        self._parents: dict[str, list[str]] = {}
        self._children: dict[str, list[str]] = {}
        for node in (*(node for edge in self._weights for node in edge), *kinds):
            self._parents.setdefault(node, [])
            self._children.setdefault(node, [])
        for cause, effect in self._weights:
            self._parents[effect].append(cause)
            self._children[cause].append(effect)
        self._given_kinds = dict(kinds)
        self._fixed: dict[str, float] = {}
        self.topological_order = _ordered(self._parents, self._children)
        """Causes before their effects."""

    # What is there.

    @property
    def nodes(self) -> tuple[str, ...]:
        """In the order in which they were first named."""
        return tuple(self._parents)

    @property
    def edges(self) -> tuple[tuple[str, str, float], ...]:
        """(cause, effect, weight), in the order in which they were given."""
        return tuple((cause, effect, weight) for (cause, effect), weight in self._weights.items())

    @property
    def fixed(self) -> Mapping[str, float]:
        """What `do` has set."""
        return MappingProxyType(self._fixed)

    def kind(self, node: str) -> NodeKind:
        """What `node` stands for."""
        by_place = NodeKind.MECHANISM if self.parents(node) else NodeKind.EXOGENOUS
        return self._given_kinds.get(node, by_place)

    def parents(self, node: str) -> tuple[str, ...]:
        """Its causes. ValueError for a node that is not there, here and below."""
        return tuple(self._parents[self._known(node)])

    def children(self, node: str) -> tuple[str, ...]:
        """Its effects."""
        return tuple(self._children[self._known(node)])

    def ancestors(self, node: str) -> frozenset[str]:
        """Its causes, theirs, and so on; without itself."""
        return _reached([self._known(node)], self._parents) - {node}

    def descendants(self, node: str) -> frozenset[str]:
        """Its effects, theirs, and so on; without itself."""
        return _reached([self._known(node)], self._children) - {node}

    def paths(self, source: str, target: str) -> Iterator[tuple[str, ...]]:
        """Every way from cause to effect. There can be exponentially many."""
        useful = self.ancestors(target) | {target}
        waiting: list[tuple[str, ...]] = [(self._known(source),)]
        while waiting:
            path = waiting.pop()
            if path[-1] == target:
                yield path
            else:
                waiting += [(*path, child) for child in reversed(self._children[path[-1]]) if child in useful]

    # What follows.

    def d_separated(self, xs: str | Iterable[str], ys: str | Iterable[str], zs: str | Iterable[str] = ()) -> bool:
        """Whether `zs` block every trail between `xs` and `ys`: then they are independent, given `zs`, in every model of this
        graph. Each may be one node or several.

        Raises:
            ValueError: a node is not there, or in two of the three.
        """
        sources, targets, given = (self._several(nodes) for nodes in (xs, ys, zs))
        shared = (sources & targets) | (sources & given) | (targets & given)
        if shared:
            raise ValueError(f"{sorted(shared)[0]!r} is in two of the three sets")
        return not (targets & self._trails_from(sources, given))

    def _trails_from(self, sources: frozenset[str], given: frozenset[str]) -> set[str]:
        """The nodes that an open trail from `sources` reaches."""
        opens_colliders = _reached(given, self._parents)
        waiting = deque((node, True) for node in sources)  # as if we came from a child: every way on is open
        seen: set[tuple[str, bool]] = set()
        while waiting:
            place = waiting.popleft()
            if place in seen:
                continue
            seen.add(place)
            node, from_child = place
            if node not in given:
                waiting.extend((child, False) for child in self._children[node])
            if (node not in given) if from_child else (node in opens_colliders):
                waiting.extend((parent, True) for parent in self._parents[node])
        return {node for node, _ in seen if node not in given}

    def do(self, node: str, value: float = 1.0) -> CausalDAG:
        """The graph in which `node` was set to `value`, a finite number, from outside: what caused it before does so no more."""
        value = _number(value)
        self._known(node)
        cut = CausalDAG(
            ((cause, effect, weight) for (cause, effect), weight in self._weights.items() if effect != node),
            {each: self.kind(each) for each in self.nodes},
        )
        cut._fixed = {**self._fixed, node: value}
        return cut

    def forward(
        self, values: Mapping[str, float] = MappingProxyType({}), mechanisms: Mapping[str, Mechanism] = MappingProxyType({})
    ) -> dict[str, float]:
        """The value of every node, causes first.

        Args:
            values: what comes from outside, by node: added to what the causes bring. What `do` has set stays as it was set.
            mechanisms: how a node follows from its parents, instead of their sum by the weights of the edges.
        """
        for node in (*values, *mechanisms):
            self._known(node)
        found: dict[str, float] = {}
        for node in self.topological_order:
            if node in self._fixed:
                found[node] = self._fixed[node]
                continue
            parents = {parent: found[parent] for parent in self._parents[node]}
            by_weight = sum(value * self._weights[parent, node] for parent, value in parents.items())
            found[node] = values.get(node, 0) + (mechanisms[node](parents) if node in mechanisms else by_weight)
        return found

    # Out and in.

    def to_json(self) -> str:
        """One JSON object: "nodes" with their kinds, "edges" and what is "fixed"."""
        document = {
            "nodes": [{"name": node, "kind": self.kind(node).value} for node in self.nodes],
            "edges": [list(edge) for edge in self.edges],
            "fixed": self._fixed,
        }
        return json.dumps(document, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> CausalDAG:
        """The inverse. ValueError for anything else."""
        try:
            document = json.loads(text)
            kinds = {_name(node["name"]): NodeKind(node["kind"]) for node in document["nodes"]}
            graph = cls(map(_edge_of, document["edges"]), kinds)
            graph._fixed = {graph._known(node): _number(value) for node, value in document["fixed"].items()}
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError('must be an object of "nodes", "edges" and "fixed"') from error
        return graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CausalDAG) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # equal graphs may name their nodes in another order

    def __repr__(self) -> str:
        return f"<CausalDAG of {len(self.nodes)} nodes and {len(self._weights)} edges>"

    def _content(self) -> tuple[Any, ...]:
        return self._weights, {node: self.kind(node) for node in self.nodes}, self._fixed

    def _known(self, node: str) -> str:
        if node not in self._parents:
            raise ValueError(f"node {node!r} is not there")
        return node

    def _several(self, nodes: str | Iterable[str]) -> frozenset[str]:
        return frozenset(map(self._known, [nodes] if isinstance(nodes, str) else nodes))


def _weights_of(edges: Iterable[Edge]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for edge in edges:
        if not isinstance(edge, (tuple, list)) or len(edge) not in (2, 3):
            raise ValueError(f"an edge is (cause, effect) or (cause, effect, weight), not {edge!r}")
        cause, effect = edge[:2]
        if (cause, effect) in found:
            raise ValueError(f"the edge {cause!r} -> {effect!r} stands twice")
        found[cause, effect] = _number(edge[2]) if len(edge) == 3 else 1.0
    return found


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value!r}")
    return value


def _edge_of(value: Any) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of cause, effect and weight, not {value!r}")
    return (*map(_name, value[:2]), *value[2:])


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a name, not {value!r}")
    return value


def _ordered(parents: Mapping[str, list[str]], children: Mapping[str, list[str]]) -> tuple[str, ...]:
    missing = {node: len(causes) for node, causes in parents.items()}
    waiting = deque(node for node, count in missing.items() if not count)
    found: list[str] = []
    while waiting:
        node = waiting.popleft()
        found.append(node)
        for child in children[node]:
            missing[child] -= 1
            if not missing[child]:
                waiting.append(child)
    if len(found) < len(parents):
        raise CycleFound(_cycle(parents, {node for node, count in missing.items() if count}))
    return tuple(found)


def _cycle(parents: Mapping[str, list[str]], left: set[str]) -> tuple[str, ...]:
    """One within `left`, whose nodes each have a parent there."""
    node = next(node for node in parents if node in left)
    places: dict[str, int] = {}
    while node not in places:
        places[node] = len(places)
        node = next(cause for cause in parents[node] if cause in left)
    return (node, *reversed([*places][places[node] :]))


def _reached(nodes: Iterable[str], following: Mapping[str, list[str]]) -> frozenset[str]:
    """`nodes`, and what can be come to from them."""
    found = set(nodes)
    waiting = list(found)
    while waiting:
        new = [each for each in following[waiting.pop()] if each not in found]
        found.update(new)
        waiting += new
    return frozenset(found)
