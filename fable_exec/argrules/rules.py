"""Argument rules as one value: loading, combining, narrowing, asking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Literal

import attrs

from fable_exec.argrules.judging import judge_argv, known_names
from fable_exec.argrules.loading import read_rules
from fable_exec.argrules.tables import Place, Table
from fable_exec.argrules.verdict import Verdict

__all__ = ["ArgumentRules"]

_LEFT_OUT = Table(rule="narrowed", refused="the rules were narrowed to other tools; use one of those")


@attrs.frozen(eq=False)
class ArgumentRules:
    """Rules by the names of tools. A name has one table or several; a command is allowed when all of them allow it.

    Immutable, safe to share between threads. The rules judge text: they slow a model down and catch mistakes, but only the
    kernel's confinement holds a program that is allowed to run. See docs/reference/argument-rules.md.
    """

    tables: Mapping[str, tuple[Table, ...]] = attrs.field(repr=lambda tables: f"<{len(tables)} tools>")

    @classmethod
    def builtin(cls) -> ArgumentRules:
        """The rules that come with the library, read and checked once in a process."""
        return _builtin()

    @classmethod
    def from_toml(cls, text: str) -> ArgumentRules:
        """The rules of one document; its examples are tried. Raises PolicyError with every fault."""
        return cls(MappingProxyType(read_rules({"": text})))

    @property
    def tools(self) -> frozenset[str]:
        """Every name that has a rule."""
        return frozenset(self.tables)

    def merge(self, other: ArgumentRules) -> ArgumentRules:
        """Both: a tool that both know must pass both, so that nothing which either refuses becomes allowed."""
        both = dict(self.tables)
        for name, tables in other.tables.items():
            both[name] = (*both.get(name, ()), *tables)
        return ArgumentRules(MappingProxyType(both))

    def override(self, other: ArgumentRules) -> ArgumentRules:
        """`other` where it knows the tool, these rules else. It can widen: an administrator's act, never a request's."""
        return ArgumentRules(MappingProxyType({**self.tables, **other.tables}))

    def narrow(self, tools: Iterable[str]) -> ArgumentRules:
        """Only `tools`; the others that have a rule now are refused, not unknown."""
        kept = frozenset(tools)
        return ArgumentRules(
            MappingProxyType({name: tables if name in kept else (_LEFT_OUT,) for name, tables in self.tables.items()})
        )

    def judge(
        self,
        argv: Sequence[str],
        *,
        unknown_tools: Literal["allow", "deny"] = "deny",
        workspace: str = "",
        cwd: Sequence[str] = (),
    ) -> Verdict:
        """Whether the rules let `argv` run. Raises nothing for any strings; some ten microseconds for an ordinary command.

        Args:
            unknown_tools: what a tool without a rule is, when it stands first. One that another tool would run is always refused.
            workspace: absolute path of the workspace; without it no absolute path counts as inside.
            cwd: components of the starting directory below the workspace, so that `..` can be followed.
        """
        place = Place(workspace=workspace.rstrip("/"), depth=len(cwd)) if workspace or cwd else _NOWHERE
        return judge_argv(self._look_up, argv, place, unknown_tools == "allow")

    def _look_up(self, name: str) -> tuple[Table, ...]:
        found = self.tables.get(name)
        if found is None:
            found = next((self.tables[other] for other in known_names(name) if other in self.tables), ())
        return found


_NOWHERE = Place()


@cache
def _builtin() -> ArgumentRules:
    from importlib import resources  # only who asks for the rules pays for the import

    directory = resources.files("fable_exec.argrules") / "builtin"
    files = sorted((entry for entry in directory.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name)
    return ArgumentRules(MappingProxyType(read_rules({entry.name: entry.read_text("utf-8") for entry in files})))
