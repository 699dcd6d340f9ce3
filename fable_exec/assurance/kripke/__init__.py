"""A model checker for CTL over finite structures: build or parse a formula, check it, and see the path that decides.

Pure: it knows nothing of what a world stands for. Every operator costs time linear in worlds and transitions.
"""

from __future__ import annotations

from fable_exec.assurance.kripke.checking import CheckResult, check
from fable_exec.assurance.kripke.formulas import (
    AF,
    AG,
    AU,
    AX,
    EF,
    EG,
    EU,
    EX,
    FALSE,
    TRUE,
    And,
    Atom,
    Box,
    Constant,
    Diamond,
    Formula,
    Implies,
    Not,
    Or,
    atoms_of,
)
from fable_exec.assurance.kripke.parsing import MAX_DEPTH, MAX_FORMULA_CHARACTERS, FormulaError, parse_formula
from fable_exec.assurance.kripke.structure import KripkeStructure

__all__ = [
    "AF",
    "AG",
    "AU",
    "AX",
    "EF",
    "EG",
    "EU",
    "EX",
    "FALSE",
    "MAX_DEPTH",
    "MAX_FORMULA_CHARACTERS",
    "TRUE",
    "And",
    "Atom",
    "Box",
    "CheckResult",
    "Constant",
    "Diamond",
    "Formula",
    "FormulaError",
    "Implies",
    "KripkeStructure",
    "Not",
    "Or",
    "atoms_of",
    "check",
    "parse_formula",
]
