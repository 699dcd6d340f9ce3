"""Text to formula, and where it is wrong.

formula := or ["->" formula]          names are letters, digits, "_", ".", ":", and begin with a letter or "_"
or      := and {"|" and}              AX EX AF EF AG EG U true false are words; A and E are where "[" follows
and     := unary {"&" unary}
unary   := ("!" | "AX" | "EX" | "AF" | "EF" | "AG" | "EG" | "[]" | "<>") unary
         | ("A" | "E") "[" formula "U" formula "]" | "(" formula ")" | "true" | "false" | name
"""

from __future__ import annotations

import re

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
    Formula,
    Implies,
    Not,
    Or,
)

__all__ = ["MAX_DEPTH", "MAX_FORMULA_CHARACTERS", "FormulaError", "parse_formula"]

MAX_FORMULA_CHARACTERS = 10_000
MAX_DEPTH = 100
"""So deep formulas may be nested: the parser and the formulas' own text recurse."""

_TOKEN = re.compile(r"\s*(?:(?P<mark>->|\[\]|<>|[!&|()\[\]])|(?P<name>[A-Za-z_][A-Za-z0-9_.:]*)|(?P<end>$))", re.ASCII)
_BEFORE_ONE: dict[str, type[Formula]] = {
    "!": Not, "AX": AX, "EX": EX, "AF": AF, "EF": EF, "AG": AG, "EG": EG, "[]": AX, "<>": EX,
}  # fmt: skip
_UNTIL: dict[str, type[EU] | type[AU]] = {"E": EU, "A": AU}
_WORDS = frozenset({*_BEFORE_ONE, "U"})
_CONSTANTS: dict[str, Formula] = {"true": TRUE, "false": FALSE}
_END = ""


class FormulaError(ValueError):
    """The text is no formula; `position` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message, position)
        self.message = message
        self.position = position

    def __str__(self) -> str:
        return f"{self.message} at character {self.position}"


def parse_formula(text: str) -> Formula:
    """The formula that `text` is.

    Raises:
        FormulaError: it is none, is longer than MAX_FORMULA_CHARACTERS, or nested deeper than MAX_DEPTH.
    """
    if len(text) > MAX_FORMULA_CHARACTERS:
        raise FormulaError(f"a formula has at most {MAX_FORMULA_CHARACTERS} characters", MAX_FORMULA_CHARACTERS)
    reader = _Reader(text)
    formula = reader.formula(0)
    reader.take(_END, "the end")
    return formula


class _Reader:
    """A place in the text. Every method leaves it behind what it has read."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0

    @property
    def word(self) -> str:
        return self._tokens[self._next][0]

    def wrong(self, wanted: str) -> FormulaError:
        word, position = self._tokens[self._next]
        return FormulaError(f"expected {wanted}, found {ascii(word) if word else 'the end'}", position)

    def take(self, word: str, wanted: str = "") -> None:
        if self.word != word:
            raise self.wrong(wanted or repr(word))
        self._next += word != _END

    def formula(self, depth: int) -> Formula:
        if depth > MAX_DEPTH:
            raise FormulaError(f"nested deeper than {MAX_DEPTH}", self._tokens[self._next][1])
        left = self._chain("|", Or, depth)
        if self.word != "->":
            return left
        self.take("->")
        return Implies(left, self.formula(depth + 1))

    def _chain(self, mark: str, kind: type[Or] | type[And], depth: int) -> Formula:
        """`f mark f mark f`, grouped from the left, as balanced as it takes to stay shallow."""
        parts = [self._operand(mark, depth)]
        while self.word == mark:
            self.take(mark)
            parts.append(self._operand(mark, depth))
        return _balanced(kind, parts)

    def _operand(self, mark: str, depth: int) -> Formula:
        return self._chain("&", And, depth) if mark == "|" else self._unary(depth + 1)

    def _unary(self, depth: int) -> Formula:
        word = self.word
        if depth > MAX_DEPTH:
            raise FormulaError(f"nested deeper than {MAX_DEPTH}", self._tokens[self._next][1])
        if word in _BEFORE_ONE:
            self.take(word)
            return _BEFORE_ONE[word](self._unary(depth + 1))  # type: ignore[call-arg]  # each of them takes one part
        if word in _UNTIL and self._tokens[self._next + 1][0] == "[":
            return self._until(_UNTIL[word], depth)
        if word == "(":
            self.take("(")
            inner = self.formula(depth + 1)
            self.take(")")
            return inner
        return self._name()

    def _until(self, kind: type[EU] | type[AU], depth: int) -> Formula:
        self._next += 1
        self.take("[")
        left = self.formula(depth + 1)
        self.take("U")
        right = self.formula(depth + 1)
        self.take("]")
        return kind(left, right)

    def _name(self) -> Formula:
        word = self.word
        if not (word[:1].isalpha() or word[:1] == "_") or word in _WORDS:
            raise self.wrong("a formula")
        self.take(word)
        return _CONSTANTS.get(word, Atom(word))


def _balanced(kind: type[Or] | type[And], parts: list[Formula]) -> Formula:
    """Up to eight are grouped from the left, as people read them; long lists as a tree, lest their depth be their length."""
    if len(parts) > 8:
        middle = len(parts) // 2
        return kind(_balanced(kind, parts[:middle]), _balanced(kind, parts[middle:]))
    formula = parts[0]
    for part in parts[1:]:
        formula = kind(formula, part)
    return formula


def _tokens(text: str) -> list[tuple[str, int]]:
    """Words and marks with their places; the last is the end."""
    found: list[tuple[str, int]] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            place = position + len(text[position:]) - len(text[position:].lstrip())
            raise FormulaError(f"{text[place]!a} stands in no formula", place)
        word = match.group("mark") or match.group("name") or _END
        found.append((word, match.end() - len(word)))
        if word == _END:
            return found
        position = match.end()
