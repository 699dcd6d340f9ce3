"""Text to formulas and back, and what is said about text that is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.assurance import kripke as k
from fable_exec.assurance.kripke import Atom, FormulaError, parse_formula
from tests.assurance.structures import FORMULAS

P, Q, R = map(Atom, "pqr")

READ: list[tuple[str, k.Formula]] = [
    ("true", k.TRUE),
    ("false", k.FALSE),
    ("p", P),
    ("trueish", Atom("trueish")),
    ("AGp", Atom("AGp")),
    ("a.b:c_1", Atom("a.b:c_1")),
    ("!p", k.Not(P)),
    ("! ! p", k.Not(k.Not(P))),
    ("p & q", k.And(P, Q)),
    ("p&q&r", k.And(k.And(P, Q), R)),
    ("p | q & r", k.Or(P, k.And(Q, R))),
    ("(p | q) & r", k.And(k.Or(P, Q), R)),
    ("p -> q", k.Implies(P, Q)),
    ("p->q->r", k.Implies(P, k.Implies(Q, R))),
    ("p | q -> r", k.Implies(k.Or(P, Q), R)),
    ("AX p", k.AX(P)),
    ("EX p", k.EX(P)),
    ("AF p", k.AF(P)),
    ("EF p", k.EF(P)),
    ("AG p", k.AG(P)),
    ("EG p", k.EG(P)),
    ("[]p", k.AX(P)),
    ("<>p", k.EX(P)),
    ("[] <> p", k.AX(k.EX(P))),
    ("AG p & q", k.And(k.AG(P), Q)),
    ("AG(p -> AF q)", k.AG(k.Implies(P, k.AF(Q)))),
    ("AG!p", k.AG(k.Not(P))),
    ("A[p U q]", k.AU(P, Q)),
    ("E [ p | q U r ]", k.EU(k.Or(P, Q), R)),
    ("A[A[p U q] U E[q U r]]", k.AU(k.AU(P, Q), k.EU(Q, R))),
    ("A & E", k.And(Atom("A"), Atom("E"))),
    ("\n AG\t p ", k.AG(P)),
]


@pytest.mark.parametrize(("text", "formula"), READ, ids=[text for text, _ in READ])
def test_a_text_is_read_as_the_grammar_says(text: str, formula: k.Formula) -> None:
    assert parse_formula(text) == formula


WRONG: list[tuple[str, str, int]] = [
    ("", "expected a formula, found the end", 0),
    ("p &", "expected a formula, found the end", 3),
    ("p q", "expected the end, found 'q'", 2),
    ("(p", "expected ')', found the end", 2),
    ("p)", "expected the end, found ')'", 1),
    ("A[p U q", "expected ']', found the end", 7),
    ("A[p q]", "expected 'U', found 'q'", 4),
    ("U", "expected a formula, found 'U'", 0),
    ("AX", "expected a formula, found the end", 2),
    ("p U q", "expected the end, found 'U'", 2),
    ("p # q", "'#' stands in no formula", 2),
    ("p - q", "'-' stands in no formula", 2),
    ("1p", "'1' stands in no formula", 0),
    ("é", "'\\xe9' stands in no formula", 0),
    ("!" * 200 + "p", "nested deeper than 100", 100),
    ("(" * 200 + "p", "nested deeper than 100", 50),
    ("p ->" * 200 + "p", "nested deeper than 100", 400),
    ("A[" * 200, "nested deeper than 100", 100),
    (" " * 10_001, "a formula has at most 10000 characters", 10_000),
]


@pytest.mark.parametrize(("text", "message", "position"), WRONG, ids=[repr(row[0][:12]) for row in WRONG])
def test_a_text_that_is_no_formula_is_refused_with_its_place(text: str, message: str, position: int) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_formula(text)
    assert (caught.value.message, caught.value.position) == (message, position)
    assert str(caught.value) == f"{message} at character {position}"
    assert isinstance(caught.value, ValueError)


@pytest.mark.fuzz
@given(FORMULAS)
def test_the_text_of_a_formula_is_read_as_that_formula(formula: k.Formula) -> None:
    assert parse_formula(str(formula)) == formula


@pytest.mark.fuzz
@given(st.text("pqAEXFGU[]()!&|-><. ", max_size=30))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = parse_formula(text)
    except FormulaError as error:
        assert 0 <= error.position <= len(text)
        return
    assert parse_formula(str(formula)) == formula


@pytest.mark.parametrize("mark", ["&", "|"])
def test_a_long_list_stays_shallow(mark: str) -> None:
    formula = parse_formula(f" {mark} ".join(f"p{number}" for number in range(1000)))
    assert len(k.atoms_of(formula)) == 1000
    assert parse_formula(str(formula)) == formula


def test_builders_and_signs_make_the_same_values() -> None:
    assert parse_formula("!p & q | (r -> p)") == ~P & Q | R >> P
    assert k.Box(P) == k.AX(P) and k.Diamond(P) == k.EX(P)
    assert len({k.AX(P), k.EX(P), k.Not(P), k.AX(P)}) == 3
    assert k.atoms_of(parse_formula("AG(p -> A[q U !r]) | true")) == {"p", "q", "r"}
