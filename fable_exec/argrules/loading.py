"""Rule files to tables: TOML read strictly, every fault collected, every example tried.

The format is described in docs/reference/argument-rules.md. Nothing is coerced; a key that is not known, a kind that does not
exist, an option that stands twice and an example with another outcome are faults, and all of them come in one PolicyError.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fable_exec.argrules.judging import judge_argv, known_names
from fable_exec.argrules.kinds import KINDS, derived_kind, kind_named
from fable_exec.argrules.reading import Faults, Reader, shown_key, tables_in
from fable_exec.argrules.tables import Kind, Place, Table
from fable_exec.argrules.verdict import Verdict
from fable_exec.errors import PolicyError

__all__ = ["MAX_DOCUMENT_CHARACTERS", "read_rules"]

MAX_DOCUMENT_CHARACTERS = 1_048_576
_CONDITIONS = ("also", "choices", "prefixes", "not_choices", "not_prefixes", "not_containing")

Examples = list[tuple[str, list[str], bool]]
"""(path in the document, argv, whether it must be allowed)."""


def read_rules(documents: Mapping[str, str]) -> dict[str, tuple[Table, ...]]:
    """The tables of all `documents` (name to text) by the names of tools. Raises PolicyError with every fault of all of them."""
    faults: Faults = []
    tables: dict[str, tuple[Table, ...]] = {}
    examples: Examples = []
    for name, text in documents.items():
        _Document(f"{name}: " if name else "", faults).read(text, tables, examples)
    if not faults:
        _try_examples(tables, examples, faults)
    if faults:
        raise PolicyError.of(faults)
    return tables


class _Document:
    def __init__(self, prefix: str, faults: Faults) -> None:
        self.prefix = prefix
        self.faults = faults

    def fault(self, path: str, text: str) -> None:
        self.faults.append(((self.prefix + path).removesuffix(": "), text))

    def read(self, text: str, tables: dict[str, tuple[Table, ...]], examples: Examples) -> None:
        parsed = self.parsed(text)
        for key in parsed.keys() - {"kinds", "sets", "tool", "refused"}:
            self.fault(shown_key(key), "unknown key")
        kinds = self.kinds(parsed.get("kinds", {}))
        reader = Reader(self.fault, kinds, tables_in("sets", parsed.get("sets", {}), self.fault))
        for index, raw in enumerate(self.items("tool", parsed)):
            path = f"tool[{index}]"
            names = self.names(path, raw, reader)
            # Without a name it is read all the same: its other faults are to be told now, not with the next attempt.
            table = reader.table(path, names[0] if names else path, raw)
            self.add(path, names, table, tables)
            examples.extend(reader.examples(path, raw, f"{self.prefix}{path}"))
        for index, raw in enumerate(self.items("refused", parsed)):
            self.refused(f"refused[{index}]", raw, reader, tables)

    def parsed(self, text: str) -> dict[str, Any]:
        if len(text) > MAX_DOCUMENT_CHARACTERS:
            self.fault("", f"the document is longer than {MAX_DOCUMENT_CHARACTERS} characters")
            return {}
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            self.fault("", f"not a TOML document: {error!s:.300}")
            return {}

    def names(self, path: str, raw: Mapping[str, Any], reader: Reader) -> list[str]:
        if raw.get("names", []) == []:
            self.fault(f"{path}.names", "must name the tool")
            return []
        return reader.words(f"{path}.names", raw["names"])

    def items(self, key: str, parsed: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        found = parsed.get(key, [])
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            self.fault(key, f"must be tables, written [[{key}]]")
            return
        yield from found

    def kinds(self, raw: Any) -> dict[str, Kind]:
        own: dict[str, Kind] = {}
        for name, conditions in tables_in("kinds", raw, self.fault).items():
            path = f"kinds.{name}"
            if name in KINDS or name in ("command", "module"):
                self.fault(path, "is a built-in kind")
            for key in conditions.keys() - {"base", *_CONDITIONS}:
                self.fault(f"{path}.{key}", "unknown key")
            lists = {key: conditions[key] for key in _CONDITIONS if key in conditions}
            if any(not _is_words(value) for value in lists.values()):
                self.fault(path, "its conditions must be lists of strings")
                continue
            try:
                own[name] = derived_kind(name, kind_named(str(conditions.get("base", "word")), own), **lists)
            except ValueError as error:
                self.fault(f"{path}.base", str(error))
        return own

    def add(self, path: str, names: Sequence[str], table: Table, tables: dict[str, tuple[Table, ...]]) -> None:
        for name in names:
            if name in tables:
                self.fault(f"{path}.names", f"{name!a} has a rule already")
            tables[name] = (table,)

    def refused(self, path: str, raw: dict[str, Any], reader: Reader, tables: dict[str, tuple[Table, ...]]) -> None:
        for key in raw.keys() - {"names", "reason"}:
            self.fault(f"{path}.{key}", "unknown key")
        names, reason = reader.words(f"{path}.names", raw.get("names")), raw.get("reason")
        if not isinstance(reason, str) or not reason:
            self.fault(f"{path}.reason", "must say why")
            return
        for name in names:
            self.add(path, [name], Table(rule=name, refused=reason), tables)


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _try_examples(tables: Mapping[str, tuple[Table, ...]], examples: Examples, faults: Faults) -> None:
    """Each example must have its outcome, and each table be reached by one that is allowed."""
    reached: set[str] = set()
    for path, argv, allowed in examples:
        verdict = judge_argv(_looking_in(tables), argv, Place(), False)
        _note_rules(verdict, reached)
        if verdict.allowed != allowed:
            faults.append((path, f"{argv} is {'refused: ' + verdict.reason if allowed else 'allowed'}"))
    for name, (table,) in tables.items():
        for rule in _rules_below(table):
            if rule not in reached:
                faults.append((name, f"no match example of {rule!a} is allowed"))
                reached.add(rule)


def _looking_in(tables: Mapping[str, tuple[Table, ...]]) -> Callable[[str], Sequence[Table]]:
    return lambda name: next((tables[other] for other in known_names(name) if other in tables), ())


def _note_rules(verdict: Verdict, reached: set[str]) -> None:
    if verdict.allowed:
        reached.add(verdict.rule)
        for inner in verdict.inner:
            _note_rules(inner, reached)


def _rules_below(table: Table) -> Iterator[str]:
    if table.commands and not table.refused:
        for below in set(table.commands.values()):
            yield from _rules_below(below)
    elif not table.refused:
        yield table.rule
