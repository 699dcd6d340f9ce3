"""Answers about a document: what was not checked never counts, and what a document says stays bounded."""

from __future__ import annotations

import itertools

import pytest

from fable_exec.proofbind.axes import MAX_DETAIL, Axis, AxisResult, AxisState, failed, passed, result_of, shortcomings, unchecked

ANSWERS = {
    AxisState.PASS: passed(Axis.TREE),
    AxisState.FAIL: failed(Axis.TREE, "changed", "it is another"),
    AxisState.UNCHECKED: unchecked(Axis.TREE, "no-repository", "there is none"),
}


@pytest.mark.parametrize(("state", "required", "unbroken"), list(itertools.product(AxisState, [True, False], [True, False])))
def test_an_axis_stands_against_a_verdict_unless_it_passed_or_nobody_minds(
    state: AxisState, required: bool, unbroken: bool
) -> None:
    answer = ANSWERS[state]
    found = shortcomings([answer], [Axis.TREE] if required else [], [Axis.TREE] if unbroken else [])
    stands = (required and state is not AxisState.PASS) or (unbroken and state is AxisState.FAIL)
    assert found == ((answer,) if stands else ())


def test_an_axis_that_nobody_asked_about_is_not_passed() -> None:
    assert result_of([], Axis.RUN_ID).state is AxisState.UNCHECKED
    [missing] = shortcomings([passed(Axis.TREE)], [Axis.TREE, Axis.RUN_ID])
    assert (missing.axis, missing.reason) == (Axis.RUN_ID, "run-id-not-asked")


def test_shortcomings_stand_in_the_order_of_the_axes() -> None:
    answers = [failed(axis, "wrong", "it is") for axis in reversed(Axis)]
    assert [each.axis for each in shortcomings(answers, list(Axis))] == list(Axis)


def test_a_reason_names_its_axis_and_only_a_pass_has_none() -> None:
    assert failed(Axis.TREE_FIELDS, "disagree", "two trees").reason == "tree-fields-disagree"
    assert passed(Axis.COST) == AxisResult(Axis.COST, AxisState.PASS, "", "")


@pytest.mark.parametrize("text", ["x" * 10_000, "\x1b[31m" * 100, "\ud800\n" * 500, "\u202e" * MAX_DETAIL])
def test_a_detail_is_bounded_and_printable_whatever_it_quotes(text: str) -> None:
    detail = failed(Axis.HASH, "mismatch", text).detail
    assert len(detail) <= MAX_DETAIL
    assert detail.isprintable() and detail.encode()
