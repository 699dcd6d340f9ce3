"""One table of a rule file: its keys, the short notation of options and operands, its examples.

An option is written as its spellings and what it takes: `-n --lines=integer`, `--color[=word]` (joined or nothing),
`--format==text` (joined only), `-I~path` (directly joined or apart), `--[no-]stat` (two flags), `-exec=command`, `-m=module`;
a leading `!` says that it writes. A refused one is its spellings, a colon and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fable_exec.argrules.kinds import kind_named
from fable_exec.argrules.tables import Inner, Kind, Operands, Option, Style, Table, Takes

__all__ = ["Faults", "Reader", "shown_key", "tables_in"]

Faults = list[tuple[str, str]]

_FLAGS = ("abbreviations", "numeric", "plus", "read_only", "inert", "bare", "free_after_dashes", "old_bundle", "response_files")
_KEYS = frozenset(_FLAGS) | {
    "aliases", "commands", "inner", "match", "modules", "names", "no_match", "operands", "operands_with", "options", "program",
    "read_only_with", "refuse", "refused", "style", "use", "values_with", "variables", "wraps",
}  # fmt: skip


class Reader:
    """Reads tables of one document; faults go to `fault` under their paths and reading goes on."""

    def __init__(self, fault: Callable[[str, str], None], kinds: Mapping[str, Kind], sets: Mapping[str, Any]) -> None:
        self.fault = fault
        self.kinds = kinds
        self.sets = sets

    def table(self, path: str, rule: str, raw: Mapping[str, Any]) -> Table:
        for key in raw.keys() - _KEYS:
            self.fault(f"{path}.{shown_key(key)}", "unknown key")
        options = self.options(path, raw)
        given = {key: self.flag(f"{path}.{key}", raw[key]) for key in _FLAGS if key in raw}
        return Table(
            rule=rule,
            style=self.member(f"{path}.style", raw.get("style", "gnu"), Style),
            inner=self.member(f"{path}.inner", raw.get("inner", "any"), Inner),
            options=options,
            operands=self.operands(f"{path}.operands", raw.get("operands", [])),
            operands_with=self.operands_with(f"{path}.operands_with", raw.get("operands_with", {}), options),
            values_with=self.values_with(f"{path}.values_with", raw.get("values_with", {}), options),
            variables=self.variables(f"{path}.variables", raw.get("variables")),
            commands=self.commands(f"{path}.commands", rule, raw.get("commands", {})),
            wraps=tuple(self.kind(f"{path}.wraps", name) for name in self.words(f"{path}.wraps", raw["wraps"]))
            if "wraps" in raw
            else None,
            program=self.kind(f"{path}.program", raw["program"]) if "program" in raw else None,
            modules=self.texts(f"{path}.modules", raw.get("modules", {})),
            read_only_with=self.spelled(f"{path}.read_only_with", raw.get("read_only_with", "")),
            refused=self.text(f"{path}.refused", raw.get("refused", "")),
            **given,
        )

    def commands(self, path: str, rule: str, raw: Any) -> Mapping[str, Table]:
        found: dict[str, Table] = {}
        for name, below in tables_in(path, raw, self.fault).items():
            table = self.table(f"{path}.{name}", f"{rule} {name}", below)
            for spelling in (name, *self.words(f"{path}.{name}.aliases", below.get("aliases", []))):
                if spelling in found:
                    self.fault(f"{path}.{name}", f"sub-command {spelling!a} stands twice")
                found[spelling] = table
        return found

    def options(self, path: str, raw: Mapping[str, Any]) -> dict[str, Option]:
        found: dict[str, Option] = {}
        sources = [(path, raw)]
        for name in self.words(f"{path}.use", raw.get("use", [])):
            if name not in self.sets:
                self.fault(f"{path}.use", f"no set is called {name!a}")
            sources.append((f"sets.{name}", self.sets.get(name, {})))
        for where, source in sources:
            for text in self.words(f"{where}.options", source.get("options", [])):
                self.add(found, *self.option(f"{where}.options", text), where)
            for text in self.words(f"{where}.refuse", source.get("refuse", [])):
                names, _, reason = text.partition(":")
                spellings = self.spellings(where, names.split())
                option = Option(name=spellings[-1] if spellings else "", refused=reason.strip() or "is refused")
                self.add(found, option, spellings, where)
        return found

    def add(self, found: dict[str, Option], option: Option, spellings: Sequence[str], path: str) -> None:
        for spelling in spellings:
            if spelling in found:
                self.fault(path, f"option {spelling!a} stands twice")
            found[spelling] = option

    def option(self, path: str, text: str) -> tuple[Option, list[str]]:
        writes, text = text.startswith("!"), text.removeprefix("!")
        takes, kind_name, directly, separable = Takes.NOTHING, "", False, True
        if text.endswith("]") and "[=" in text:
            text, _, kind_name = text[:-1].partition("[=")
            takes = Takes.OPTIONAL
        elif "==" in text:
            text, _, kind_name = text.partition("==")
            takes, separable = Takes.VALUE, False
        elif "=" in text:
            text, _, kind_name = text.partition("=")
            takes = Takes.VALUE
        elif "~" in text:
            text, _, kind_name = text.partition("~")
            takes, directly = Takes.VALUE, True
        spellings = self.spellings(path, text.split())
        takes = {"command": Takes.COMMAND, "module": Takes.MODULE}.get(kind_name, takes)
        kind = self.kind(path, kind_name) if takes in (Takes.VALUE, Takes.OPTIONAL) else None
        name = spellings[-1] if spellings else ""
        return Option(name=name, takes=takes, kind=kind, writes=writes, separable=separable, directly=directly), spellings

    def spellings(self, path: str, words: Sequence[str]) -> list[str]:
        found: list[str] = []
        for word in words:
            found += ["--no-" + word[7:], "--" + word[7:]] if word.startswith("--[no-]") else [word]
        for spelling in found:
            if not spelling.startswith("-") or len(spelling) < 2 or not spelling.isascii() or not spelling.isprintable():
                self.fault(path, f"{spelling!a} is no option")
        if not found:
            self.fault(path, "an option has no spelling")
        return found

    def operands(self, path: str, raw: Any) -> Operands:
        """`["text", "path*"]`: kinds in order; `?` may be absent, `*` any number, `+` one or more; after those, the last ones."""
        head: list[Kind] = []
        optional: list[Kind] = []
        tail: list[Kind] = []
        repeated, at_least = None, 0
        for word in self.words(path, raw):
            kind = self.kind(path, word.rstrip("?*+"))
            if word[-1:] in "*+" and repeated is None:
                repeated, at_least = kind, at_least + (word[-1:] == "+")
            elif word[-1:] == "?" and repeated is None:
                optional.append(kind)
            elif word[-1:] in "?*+" or (optional and repeated is None):
                self.fault(path, f"{word!a} cannot stand there")
            else:
                (head if repeated is None else tail).append(kind)
                at_least += 1
        return Operands(head=tuple(head), optional=tuple(optional), repeated=repeated, tail=tuple(tail), at_least=at_least)

    def operands_with(self, path: str, raw: Any, options: Mapping[str, Option]) -> tuple[tuple[frozenset[str], Operands], ...]:
        """Other operands where options are given: `"-e"`, or `"-i -e"` for both; the first entry that fits counts."""
        found: list[tuple[frozenset[str], Operands]] = []
        if not isinstance(raw, dict):
            self.fault(path, "must be a table")
            return ()
        for key, value in raw.items():
            unknown = [spelling for spelling in key.split() if spelling not in options]
            if unknown or not key.split():
                self.fault(path, f"there is no option {key!a}")
            else:
                found.append((frozenset(options[name].name for name in key.split()), self.operands(f"{path}.{key}", value)))
        return tuple(found)

    def wraps(self, path: str, raw: Any) -> tuple[Kind, ...]:
        return tuple(self.kind(path, name) for name in self.words(path, raw))

    def values_with(self, path: str, raw: Any, options: Mapping[str, Option]) -> Mapping[str, Mapping[str, Kind]]:
        found: dict[str, Mapping[str, Kind]] = {}
        for given, kinds in tables_in(path, raw, self.fault).items():
            for spelling in (given, *kinds):
                if spelling not in options:
                    self.fault(path, f"there is no option {spelling!a}")
                    return {}
            found[options[given].name] = {options[name].name: self.kind(path, kind) for name, kind in kinds.items()}
        return found

    def variables(self, path: str, raw: Any) -> Mapping[str, Kind] | None:
        if raw is None:
            return None
        return {name: self.kind(path, kind) for name, kind in self.texts(path, raw).items() if name}

    def examples(self, path: str, raw: Mapping[str, Any], where: str) -> list[tuple[str, list[str], bool]]:
        found: list[tuple[str, list[str], bool]] = []
        for key, allowed in (("match", True), ("no_match", False)):
            items = raw.get(key, [])
            if not isinstance(items, list):
                self.fault(f"{path}.{key}", "must be a list")
                continue
            for item in items:
                argv = item.split() if isinstance(item, str) else item
                if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
                    self.fault(f"{path}.{key}", "an example is a string, split at blanks, or a list of strings")
                    continue
                found.append((f"{where}.{key}", argv, allowed))
            if not items and not (raw.get("refused") and allowed):
                self.fault(f"{path}.{key}", "must have an example")
        return found

    def kind(self, path: str, name: Any) -> Kind:
        try:
            return kind_named(name if isinstance(name, str) else "", self.kinds)
        except ValueError as error:
            self.fault(path, str(error))
            return kind_named("word", {})

    def words(self, path: str, raw: Any) -> list[str]:
        if isinstance(raw, list) and all(isinstance(item, str) and item for item in raw):
            return raw
        self.fault(path, "must be a list of strings")
        return []

    def texts(self, path: str, raw: Any) -> dict[str, str]:
        if isinstance(raw, dict) and all(isinstance(value, str) for value in raw.values()):
            return raw
        self.fault(path, "must be a table of strings")
        return {}

    def flag(self, path: str, raw: Any) -> bool:
        if not isinstance(raw, bool):
            self.fault(path, "must be true or false")
        return raw is True

    def text(self, path: str, raw: Any) -> str:
        if not isinstance(raw, str):
            self.fault(path, "must be a string")
            return ""
        return raw

    def spelled(self, path: str, raw: Any) -> str:
        text = self.text(path, raw)
        if text and not text.startswith("-"):
            self.fault(path, f"{text!a} is no option")
        return text

    def member(self, path: str, raw: Any, kind: type[Any]) -> Any:
        try:
            return kind(raw)
        except ValueError:
            self.fault(path, f"must be one of {', '.join(each.value for each in kind)}")
            return kind(next(each.value for each in kind))


def tables_in(path: str, raw: Any, fault: Callable[[str, str], None]) -> dict[str, dict[str, Any]]:
    """The tables by name in what should be a table of them; none where it is not, which is a fault."""
    if isinstance(raw, dict) and all(isinstance(value, dict) for value in raw.values()):
        return raw
    fault(path, "must be a table of tables")
    return {}


def shown_key(key: str) -> str:
    """A key for the path of a fault: escaped and bounded."""
    return ascii(key[:80])[1:-1]
