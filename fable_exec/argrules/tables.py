"""The values that a rule file becomes: tables of options, operands and sub-commands for each tool. Nothing here judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType

import attrs

__all__ = ["NO_OPERANDS", "Inner", "Kind", "Operands", "Option", "Place", "Style", "Table", "Takes"]


@attrs.frozen(kw_only=True)
class Place:
    """Where the command would run, as far as paths in its arguments can be judged by their text."""

    workspace: str = ""
    """Absolute path of the workspace without a slash at its end; "" is unknown, then no absolute path counts as inside."""
    depth: int = 0
    """How many directories below the workspace the command starts."""


@attrs.frozen
class Kind:
    """What a value or operand may be. `check` gives "" or what is wrong, as the end of a sentence about the argument."""

    name: str
    check: Callable[[str, Place], str] = attrs.field(eq=False, repr=False)
    writes: bool = False
    """The value names something that the command changes."""
    free: bool = False
    """May begin with a dash also where it stands apart from its option."""


class Style(Enum):
    """How a tool reads its options."""

    GNU = "gnu"  # getopt_long: options anywhere, bundles, --long=value
    POSIX = "posix"  # the same, but the first operand ends the options
    SINGLE = "single"  # long names with one dash, exact, no bundles: find, openssl, gcc
    GO = "go"  # Go's flag package: -name and --name, =value, the first operand ends the options
    GO_ANYWHERE = "go-anywhere"  # the same, and options after operands too: go test


class Takes(Enum):
    """What follows an option."""

    NOTHING = "nothing"
    VALUE = "value"  # joined or the next argument
    OPTIONAL = "optional"  # joined or nothing
    MODULE = "module"  # a name, and all that follows belongs to it: python -m
    COMMAND = "command"  # a command up to `;` or `{} +`: find -exec


class Inner(Enum):
    """What a command that another one runs must be."""

    ANY = "any"  # allowed
    READ_ONLY = "read_only"  # allowed and marked read_only
    INERT = "inert"  # of a tool that can neither write nor run anything whatever its arguments: they come from elsewhere


@attrs.frozen(kw_only=True)
class Option:
    """One option under all its spellings; `refused` says why it is known and not allowed."""

    name: str
    takes: Takes = Takes.NOTHING
    kind: Kind | None = None
    writes: bool = False
    refused: str = ""
    separable: bool = True
    """A value may also be the next argument."""
    directly: bool = False
    """A value may be joined without anything between in the single-dash style: -Ipath."""


@attrs.frozen(kw_only=True)
class Operands:
    """Kinds of operands: the first ones, any number in between, the last ones."""

    head: tuple[Kind, ...] = ()
    optional: tuple[Kind, ...] = ()
    repeated: Kind | None = None
    tail: tuple[Kind, ...] = ()
    at_least: int = 0


NO_OPERANDS = Operands()


@attrs.frozen(kw_only=True, eq=False)
class Table:
    """The rule of one tool or sub-command. Field by field as docs/reference/argument-rules.md describes the file."""

    rule: str
    style: Style = Style.GNU
    options: Mapping[str, Option] = MappingProxyType({})
    abbreviations: bool = False
    numeric: bool = False
    plus: bool = True
    operands: Operands = NO_OPERANDS
    operands_with: tuple[tuple[frozenset[str], Operands], ...] = ()
    values_with: Mapping[str, Mapping[str, Kind]] = MappingProxyType({})
    variables: Mapping[str, Kind] | None = None
    read_only: bool = False
    read_only_with: str = ""
    inert: bool = False
    commands: Mapping[str, Table] = MappingProxyType({})
    bare: bool = False
    wraps: tuple[Kind, ...] | None = None
    inner: Inner = Inner.ANY
    program: Kind | None = None
    modules: Mapping[str, str] = MappingProxyType({})
    free_after_dashes: bool = False
    old_bundle: bool = False
    response_files: bool = False
    refused: str = ""

    @property
    def stops(self) -> bool:
        """Whether the first operand ends the options."""
        return self.style in (Style.POSIX, Style.GO) or bool(self.commands)
