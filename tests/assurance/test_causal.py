"""Causal graphs: independence against networkx and against all trails, interventions against truncated factorisation."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import networkx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fable_exec.assurance.causal import CausalDAG, CycleFound, NodeKind
from tests.assurance.structures import few
from tests.bounds import BUSY_SECONDS

SPRINKLER = CausalDAG([("season", "rain"), ("season", "sprinkler"), ("rain", "wet"), ("sprinkler", "wet"), ("wet", "slippery")])


@st.composite
def graphs(draw: st.DrawFn, most: int = 7) -> list[tuple[str, str]]:
    """Edges of a DAG with at least one edge; the names say nothing about the order."""
    count = draw(st.integers(2, most))
    names = draw(st.permutations([f"n{number}" for number in range(count)]))
    pairs = list(itertools.combinations(names, 2))
    return draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))


def three_sets(draw: st.DrawFn, nodes: tuple[str, ...]) -> tuple[set[str], set[str], set[str]]:
    places = draw(st.lists(st.sampled_from("xyz-"), min_size=len(nodes), max_size=len(nodes)))
    found = tuple({node for node, place in zip(nodes, places, strict=True) if place == which} for which in "xyz")
    assume(found[0] and found[1])
    return found  # type: ignore[return-value]  # one for each of the three


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[tuple[str, str]], set[str], set[str], set[str]]:
    edges = draw(graphs())
    return edges, *three_sets(draw, CausalDAG(edges).nodes)


def separated_as_networkx_says(edges: list[tuple[str, str]], xs: set[str], ys: set[str], zs: set[str]) -> None:
    assert CausalDAG(edges).d_separated(xs, ys, zs) == networkx.is_d_separator(networkx.DiGraph(edges), xs, ys, zs)


@pytest.mark.fuzz
@few(40)
@given(questions())
def test_independence_agrees_with_networkx(question: tuple[Any, ...]) -> None:
    separated_as_networkx_says(*question)


@pytest.mark.deep
@settings(max_examples=5_000)
@given(questions())
def test_independence_agrees_with_networkx_on_five_thousand_graphs(question: tuple[Any, ...]) -> None:
    separated_as_networkx_says(*question)


def trails(edges: list[tuple[str, str]], start: str, end: str) -> Iterator[list[str]]:
    """Every way along edges, in either direction, without a node twice."""
    near: dict[str, set[str]] = {}
    for one, other in edges:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    waiting = [[start]]
    while waiting:
        trail = waiting.pop()
        if trail[-1] == end:
            yield trail
        else:
            waiting += [[*trail, node] for node in near.get(trail[-1], ()) if node not in trail]


def is_open(graph: CausalDAG, trail: list[str], given: set[str]) -> bool:
    """By the definition: a collider is open when it or an effect of it is given, every other node when it is not given."""
    for before, node, after in zip(trail, trail[1:], trail[2:], strict=False):
        if {before, after} <= set(graph.parents(node)):
            if node not in given and not graph.descendants(node) & given:
                return False
        elif node in given:
            return False
    return True


@pytest.mark.fuzz
@few(40)
@given(questions())
def test_independence_is_that_no_trail_is_open(question: tuple[Any, ...]) -> None:
    edges, xs, ys, zs = question
    graph = CausalDAG(edges)
    open_trail = any(is_open(graph, trail, zs) for x in xs for y in ys for trail in trails(edges, x, y))
    assert graph.d_separated(xs, ys, zs) != open_trail


def test_the_textbook_case() -> None:
    assert not SPRINKLER.d_separated("rain", "sprinkler")
    assert SPRINKLER.d_separated("rain", "sprinkler", "season")
    assert not SPRINKLER.d_separated("rain", "sprinkler", ["season", "slippery"])
    assert SPRINKLER.d_separated(["season"], ["slippery"], {"wet"})
    assert SPRINKLER.do("sprinkler", 1).d_separated("rain", "sprinkler")


@pytest.mark.parametrize(
    ("xs", "ys", "zs", "message"),
    [
        ("rain", "snow", (), "node 'snow' is not there"),
        ("rain", "rain", (), "'rain' is in two of the three sets"),
        ("rain", "wet", "wet", "'wet' is in two of the three sets"),
        ("rain", "wet", ["rain"], "'rain' is in two of the three sets"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(xs: str, ys: str, zs: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        SPRINKLER.d_separated(xs, ys, zs)
    assert str(caught.value) == message


# Interventions. A discrete model: each node is a function of its parents and of a coin of its own, with known odds.

_ODDS = 0.3
Tables = Mapping[str, Mapping[tuple[int, ...], tuple[int, int]]]


@st.composite
def models(draw: st.DrawFn) -> tuple[CausalDAG, Tables, str, int]:
    """A graph, for each node and each setting of its parents what it is without and with its coin, and an intervention."""
    graph = CausalDAG(draw(graphs(most=4)))
    tables = {
        node: {
            setting: draw(st.tuples(st.integers(0, 1), st.integers(0, 1)))
            for setting in itertools.product((0, 1), repeat=len(graph.parents(node)))
        }
        for node in graph.nodes
    }
    return graph, tables, draw(st.sampled_from(graph.nodes)), draw(st.integers(0, 1))


def computed(graph: CausalDAG, original: CausalDAG, tables: Tables) -> dict[tuple[int, ...], float]:
    """The distribution of all nodes: every setting of the coins is computed forward."""
    found: dict[tuple[int, ...], float] = {}
    for coins in itertools.product((0, 1), repeat=len(original.nodes)):
        coin = dict(zip(original.nodes, coins, strict=True))
        mechanisms = {
            node: lambda parents, node=node, coin=coin: float(
                tables[node][tuple(int(parents[parent]) for parent in original.parents(node))][coin[node]]
            )
            for node in graph.nodes
            if node not in graph.fixed
        }
        values = graph.forward({}, mechanisms)
        odds = 1.0
        for each in coins:
            odds *= _ODDS if each else 1 - _ODDS
        key = tuple(int(values[node]) for node in original.nodes)
        found[key] = found.get(key, 0) + odds
    return found


def factorised(graph: CausalDAG, tables: Tables, node: str, value: int) -> dict[tuple[int, ...], float]:
    """The product of what each node is given its parents, without the factor of the node that was set."""
    found = {}
    for setting in itertools.product((0, 1), repeat=len(graph.nodes)):
        at = dict(zip(graph.nodes, setting, strict=True))
        odds = float(at[node] == value)
        for each in graph.nodes:
            if each != node:
                without, with_coin = tables[each][tuple(at[parent] for parent in graph.parents(each))]
                odds *= (1 - _ODDS) * (without == at[each]) + _ODDS * (with_coin == at[each])
        if odds:
            found[setting] = odds
    return found


@pytest.mark.fuzz
@few(40)
@given(models())
def test_an_intervention_is_the_truncated_factorisation(model: tuple[Any, ...]) -> None:
    graph, tables, node, value = model
    assert computed(graph.do(node, value), graph, tables) == pytest.approx(factorised(graph, tables, node, value))


def test_an_intervention_cuts_causes_and_leaves_the_graph() -> None:
    cut = SPRINKLER.do("wet", 0)
    assert cut.parents("wet") == () and SPRINKLER.parents("wet") == ("rain", "sprinkler")
    assert cut.nodes and set(cut.nodes) == set(SPRINKLER.nodes)
    assert cut.fixed == {"wet": 0} and SPRINKLER.fixed == {}
    assert cut.do("rain", 1).fixed == {"wet": 0, "rain": 1}
    assert cut.forward({"rain": 1, "wet": 5})["slippery"] == 0
    with pytest.raises(ValueError, match="node 'snow' is not there"):
        SPRINKLER.do("snow", 1)
    for value in (math.nan, math.inf, "1", True):
        with pytest.raises(ValueError, match="must be a finite number"):
            SPRINKLER.do("wet", value)  # type: ignore[arg-type]  # what is refused


def test_values_go_forward_by_weight() -> None:
    graph = CausalDAG([("a", "c", 2), ("b", "c", -1), ("c", "d", 0.5)])
    assert graph.forward({"a": 3, "b": 2, "d": 1}) == {"a": 3, "b": 2, "c": 4, "d": 3}
    assert graph.forward({"a": 3}, {"c": lambda parents: max(parents.values())})["d"] == 1.5
    with pytest.raises(ValueError, match="node 'e' is not there"):
        graph.forward({"e": 1})


# The graph itself.


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ([("a", "a")], "a -> a"),
        ([("a", "b"), ("b", "a")], "a -> b -> a"),
        ([("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "y")], "a -> b -> c -> a"),
    ],
)
def test_a_cycle_is_refused_by_name(edges: list[tuple[str, str]], cycle: str) -> None:
    with pytest.raises(CycleFound) as caught:
        CausalDAG(edges)
    assert str(caught.value) == f"a cause cannot be its own effect: {cycle}"
    assert " -> ".join(caught.value.cycle) == cycle
    assert isinstance(caught.value, ValueError)


def test_a_long_cycle_is_named_in_the_time_of_a_walk() -> None:
    around = [(f"n{number}", f"n{(number + 1) % 100_000}") for number in range(100_000)]
    began = time.process_time()
    with pytest.raises(CycleFound) as caught:
        CausalDAG([("before", "n7"), *around])
    assert len(caught.value.cycle) == 100_001
    assert time.process_time() - began < BUSY_SECONDS  # comparing each node with all before took 100 s


@pytest.mark.fuzz
@few(40)
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde")), unique=True))
def test_any_edges_are_a_graph_in_order_or_have_the_cycle_that_is_named(edges: list[tuple[str, str]]) -> None:
    try:
        graph = CausalDAG(edges)
    except CycleFound as error:
        assert set(itertools.pairwise(error.cycle)) <= set(edges)
        assert error.cycle[0] == error.cycle[-1] and len(set(error.cycle)) == len(error.cycle) - 1
        return
    place = {node: number for number, node in enumerate(graph.topological_order)}
    assert all(place[cause] < place[effect] for cause, effect in edges)
    plain = networkx.DiGraph(edges)
    for node in graph.nodes:
        assert graph.ancestors(node) == networkx.ancestors(plain, node)
        assert graph.descendants(node) == networkx.descendants(plain, node)


def test_ways_from_cause_to_effect() -> None:
    assert list(SPRINKLER.paths("season", "wet")) == [("season", "rain", "wet"), ("season", "sprinkler", "wet")]
    assert list(SPRINKLER.paths("wet", "season")) == []


def test_kinds_are_given_or_follow_from_the_place() -> None:
    graph = CausalDAG([("act", "tool"), ("tool", "thing")], {"act": NodeKind.INTERVENTION, "alone": NodeKind.ASSET})
    assert [graph.kind(node) for node in graph.nodes] == [
        NodeKind.INTERVENTION, NodeKind.MECHANISM, NodeKind.MECHANISM, NodeKind.ASSET,
    ]  # fmt: skip
    assert CausalDAG([("a", "b")]).kind("a") is NodeKind.EXOGENOUS
    assert graph.do("tool", 1).kind("tool") is NodeKind.MECHANISM


@pytest.mark.parametrize(
    "edges", [["ab"], [None], [5], [("a",)], [("a", "b", "c")], [("a", "b", True)], [("a", "b"), ("a", "b", 2)]]
)
def test_what_is_no_edge_is_refused(edges: list[Any]) -> None:
    with pytest.raises(ValueError):
        CausalDAG(edges)


@pytest.mark.fuzz
@few(30)
@given(graphs(), st.floats(-5, 5))
def test_json_keeps_everything(edges: list[tuple[str, str]], weight: float) -> None:
    graph = CausalDAG([(*edges[0], weight), *edges[1:]], {edges[0][0]: NodeKind.ASSET})
    for each in (graph, graph.do(edges[0][1], weight)):
        assert CausalDAG.from_json(each.to_json()) == each
    assert graph != graph.do(edges[0][1], weight)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "[" * 100_000,
        '{"nodes": []}',
        '{"nodes": [], "edges": [["a"]], "fixed": {}}',
        '{"nodes": [], "edges": ["ab"], "fixed": {}}',
        '{"nodes": [], "edges": [[1, 2]], "fixed": {}}',
        '{"nodes": [], "edges": [["a", "b", NaN]], "fixed": {}}',
        '{"nodes": [], "edges": [["a", "b", "1"]], "fixed": {}}',
        '{"nodes": [{"name": 1, "kind": "asset"}], "edges": [], "fixed": {}}',
        '{"nodes": [], "edges": [["a", "b"]], "fixed": {"a": Infinity}}',
        '{"nodes": [], "edges": [], "fixed": {"a": 1}}',
    ],
)
def test_json_that_is_no_graph_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        CausalDAG.from_json(text)
