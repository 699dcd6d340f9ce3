"""No test of `make test` fails because a machine is slow: what it measured by a clock it compares with ten seconds at least."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
LEAST_SECONDS = 10
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time", "timeit"}
WIDE = {"BUSY_SECONDS", "bound_seconds"}
"""Names for values of tests/bounds.py."""


def narrow_bounds(text: str) -> Iterator[str]:
    """The comparisons that want what was measured by a clock to be less than LEAST_SECONDS."""
    module = ast.parse(text)
    numbers = {name: value for name, value in _assigned(module) if isinstance(value, ast.Constant)}
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            measured = {name for name, value in _assigned(function) if _is_duration(value, set())}
            for less, more in _wanted(function):
                if _is_duration(less, measured) and not _is_wide(more, numbers):
                    yield f"{ast.unparse(less)} < {ast.unparse(more)}"


def _wanted(function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is asserted to be less, and than what."""
    for claim in ast.walk(function):
        if isinstance(claim, ast.Assert):
            yield from (pair for node in ast.walk(claim.test) if isinstance(node, ast.Compare) for pair in _pairs(node))


def _assigned(place: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(place):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _is_duration(value: ast.expr, measured: set[str]) -> bool:
    """Whether a clock was read for a difference in it, or it is one of those names."""
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and any(map(_reads_a_clock, ast.walk(node))):
            return True
        if isinstance(node, ast.Name) and node.id in measured:
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("timeit.timeit", "timeit.repeat"):
            return True
    return False


def _reads_a_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS


def _pairs(node: ast.Compare) -> Iterator[tuple[ast.expr, ast.expr]]:
    sides = [node.left, *node.comparators]
    for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(operator, ast.Lt | ast.LtE):
            yield left, right
        elif isinstance(operator, ast.Gt | ast.GtE):
            yield right, left


def _is_wide(bound: ast.expr, numbers: dict[str, ast.Constant]) -> bool:
    found = [numbers.get(node.id, node) if isinstance(node, ast.Name) else node for node in ast.walk(bound)]
    if any(isinstance(node, ast.Name) and node.id in WIDE for node in found):
        return True
    values = [node.value for node in found if isinstance(node, ast.Constant)]
    return sum(value for value in values if isinstance(value, int | float)) >= LEAST_SECONDS


def test_what_was_measured_has_a_bound_that_a_slow_machine_meets() -> None:
    found = {str(path.relative_to(TESTS)): list(narrow_bounds(path.read_text())) for path in sorted(TESTS.rglob("*.py"))}
    assert {path: lines for path, lines in found.items() if lines} == {}


FOUND = {
    "a difference": "assert time.monotonic() - began < 1.5",
    "the other way round": "assert 2 >= time.perf_counter() - began",
    "within two bounds": "assert 0.1 < time.monotonic() - began < 2",
    "a name for it": "took = time.process_time() - began\n    assert (status, took < 0.9) == (0, True)",
    "a name for the bound": "assert time.monotonic() - began < SHORT",
    "the best of several": "took = min(time.monotonic() - began for began in them)\n    assert took < 0.02",
    "beside a deadline": "assert time.monotonic() - began < seconds + 5",
    "an unknown bound": "assert time.monotonic() - began < bound",
    "timeit": "assert timeit.timeit(act) < 1e-4",
}
LEFT = {
    "a wide one": "assert time.monotonic() - began < 30",
    "beside a deadline": "assert time.monotonic() - began < seconds + 30",
    "no sooner": "assert time.monotonic() - began >= 0.7",
    "a name": "assert time.process_time() - began < BUSY_SECONDS",
    "a constant": "assert time.monotonic() - began < LONG",
    "what is looked at for a while": "while time.monotonic() - began < 1:\n        pass",
    "a moment to give up": "assert time.monotonic() < give_up_at",
}


@pytest.mark.parametrize("line", FOUND.values(), ids=FOUND)
def test_a_narrow_bound_is_found(line: str) -> None:
    assert len(list(narrow_bounds(f"SHORT = 2.5\ndef test():\n    {line}\n"))) == 1


@pytest.mark.parametrize("line", LEFT.values(), ids=LEFT)
def test_what_is_no_narrow_bound_is_left(line: str) -> None:
    assert list(narrow_bounds(f"LONG = 40\ndef test():\n    {line}\n")) == []
