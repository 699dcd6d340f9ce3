"""Options apart from operands, as each style of tool reads them; what a table does not know is refused.

The result says what the tool would take as options with which values, as operands, and as the command it would run. Values are
checked elsewhere. Sources: getopt_long(3), POSIX utility conventions, find(1), the Go flag package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs

from fable_exec.argrules.tables import Option, Style, Table, Takes
from fable_exec.argrules.verdict import Refused, shown

__all__ = ["Given", "Parsed", "parse"]


class Given(NamedTuple):
    """An option as it was given: with its value, None for none, and whether the value stood apart."""

    option: Option
    value: str | None = None
    apart: bool = False


@attrs.define
class Parsed:
    """One command's arguments, taken apart."""

    given: list[Given] = attrs.Factory(list)
    operands: list[str] = attrs.Factory(list)
    dashed: int = -1
    """How many operands came before `--`; -1 when there was none. Those after it may begin with a dash."""
    rest: Sequence[str] | None = None
    """Arguments from the first operand on, where that ends the options; None when there is no operand."""
    commands: list[list[str]] = attrs.Factory(list)
    """Commands given within the options (find -exec)."""
    module: list[str] | None = None
    """The module an interpreter would run, with its arguments (python -m)."""


def parse(table: Table, arguments: Sequence[str]) -> Parsed:
    """Take `arguments` (without the tool's own name) apart by `table`. Raises Refused."""
    parsed = Parsed()
    at, count = 0, len(arguments)
    if table.old_bundle and count and arguments[0][:1] not in ("-", ""):
        at = _old_bundle(table, arguments, parsed)
    read = _READERS[table.style]
    stops = table.stops
    while at < count:
        argument = arguments[at]
        if argument[:1] != "-" or len(argument) == 1:
            if argument[:1] == "+" and not table.plus:
                raise Refused(
                    "+", f"{shown(argument)} would be taken for a command of the tool; name the file as ./{shown(argument)[1:-1]}"
                )
            if stops:
                parsed.rest = arguments[at:]
                return parsed
            parsed.operands.append(argument)
            at += 1
        elif argument == "--" and table.style is not Style.SINGLE:
            return _after_dashes(table, arguments, at + 1, parsed)
        else:
            at = read(table, arguments, at, parsed)
            if parsed.module is not None:
                return parsed
    return parsed


def _after_dashes(table: Table, arguments: Sequence[str], at: int, parsed: Parsed) -> Parsed:
    if table.commands:
        raise Refused("--", "-- stands before the sub-command; leave it out")
    if table.stops:
        parsed.rest = arguments[at:] or None
        parsed.dashed = 0
        return parsed
    parsed.dashed = len(parsed.operands)
    if not table.free_after_dashes:
        parsed.operands.extend(arguments[at:])
    return parsed


def _getopt(table: Table, arguments: Sequence[str], at: int, parsed: Parsed) -> int:
    argument = arguments[at]
    option = table.options.get(argument)  # the usual case: one option, exactly
    if option is not None and option.takes is Takes.NOTHING and not option.refused:
        parsed.given.append(Given(option))
        return at + 1
    if argument[1] == "-":
        return _long(table, arguments, at, parsed)
    if table.numeric and argument[1:].isascii() and argument[1:].isdigit():
        return at + 1
    return _bundle(table, arguments, at, argument[1:], parsed)


def _long(table: Table, arguments: Sequence[str], at: int, parsed: Parsed) -> int:
    name, equals, value = arguments[at].partition("=")
    option = table.options.get(name) or _abbreviated(table, name)
    if equals:
        if option.takes is Takes.NOTHING and not option.refused:
            raise Refused(option.name, f"option {option.name} takes no value, but {shown(arguments[at])} gives one; leave it out")
        return _take(option, value, at + 1, arguments, parsed)
    return _take(option, None, at + 1, arguments, parsed)


def _abbreviated(table: Table, name: str) -> Option:
    """The option that getopt_long would take `name` for; only where the table knows all options, else another could be meant."""
    meant = {
        option.name: option for spelling, option in table.options.items() if spelling.startswith(name) and spelling[:2] == "--"
    }
    refused = next((option for option in meant.values() if option.refused), None)
    if refused is not None and len(name) > 2:
        raise _refusal(refused, name)
    if len(meant) == 1 and table.abbreviations:
        return next(iter(meant.values()))
    if meant:
        raise Refused(name, f"option {shown(name)} could abbreviate {', '.join(sorted(meant)[:4])}; write the option in full")
    raise _unknown(name)


def _bundle(table: Table, arguments: Sequence[str], at: int, letters: str, parsed: Parsed) -> int:
    for index, letter in enumerate(letters):
        option = table.options.get("-" + letter)
        if option is None:
            raise _unknown("-" + letter, arguments[at])
        if option.takes is not Takes.NOTHING:
            joined = letters[index + 1 :]
            return _take(option, joined or None, at + 1, arguments, parsed)
        if option.refused:
            raise _refusal(option, arguments[at])
        parsed.given.append(Given(option))
    return at + 1


def _take(option: Option, value: str | None, at: int, arguments: Sequence[str], parsed: Parsed) -> int:
    """Note `option` with its joined `value`, or with the next argument where it needs one; the index after it all."""
    if option.refused:
        raise _refusal(option, arguments[at - 1])
    apart = False
    if option.takes is Takes.COMMAND:
        return _command(option, at, arguments, parsed)
    if value is None and option.takes in (Takes.VALUE, Takes.MODULE):
        if at >= len(arguments) or not option.separable:
            raise Refused(option.name, f"option {option.name} needs a value; give one or leave it out")
        value, at, apart = arguments[at], at + 1, True
    if option.takes is Takes.MODULE and value is not None:
        parsed.module = [value, *arguments[at:]]
    parsed.given.append(Given(option, value, apart))
    return at


def _command(option: Option, at: int, arguments: Sequence[str], parsed: Parsed) -> int:
    for end in range(at, len(arguments)):
        if arguments[end] == ";" or (arguments[end] == "+" and end > at and arguments[end - 1] == "{}"):
            parsed.commands.append(list(arguments[at:end]))
            parsed.given.append(Given(option))
            return end + 1
    raise Refused(option.name, f"the command after {option.name} has no end; end it with the argument ;")


def _single(table: Table, arguments: Sequence[str], at: int, parsed: Parsed) -> int:
    argument = arguments[at]
    option = table.options.get(argument)
    if option is not None:
        return _take(option, None, at + 1, arguments, parsed)
    name, equals, value = argument.partition("=")
    option = table.options.get(name) if equals else None
    if option is not None and option.takes is not Takes.NOTHING:
        return _take(option, value, at + 1, arguments, parsed)
    for length in range(min(len(argument) - 1, 24), 1, -1):
        option = table.options.get(argument[:length])
        if option is not None and (option.directly or option.refused):
            return _take(option, argument[length:], at + 1, arguments, parsed)
    raise _unknown(argument)


def _go(table: Table, arguments: Sequence[str], at: int, parsed: Parsed) -> int:
    name, equals, value = arguments[at].partition("=")
    name = "-" + name.lstrip("-") if len(name) - len(name.lstrip("-")) <= 2 else name
    option = table.options.get(name)
    if option is None:
        raise _unknown(name)
    if option.takes is Takes.NOTHING and not option.refused:
        if equals and value not in ("true", "false", "1", "0"):
            raise Refused(option.name, f"option {option.name} is true or false, not {shown(value)}")
        return _take(option, None, at + 1, arguments, parsed)
    return _take(option, value if equals else None, at + 1, arguments, parsed)


def _old_bundle(table: Table, arguments: Sequence[str], parsed: Parsed) -> int:
    """tar xzf FILE: letters without a dash, whose values are the next arguments in their order."""
    at = 1
    for letter in arguments[0]:
        option = table.options.get("-" + letter)
        if option is None:
            raise _unknown("-" + letter, arguments[0])
        if option.takes is Takes.VALUE:
            at = _take(option, None, at, arguments, parsed)
        else:
            _take(option, None, 1, arguments, parsed)
    return at


def _refusal(option: Option, written: str) -> Refused:
    also = "" if written == option.name else f" (in {shown(written)})"
    return Refused(option.name, f"option {option.name}{also} {option.refused}; leave it out")


def _unknown(name: str, written: str = "") -> Refused:
    within = f" in {shown(written)}" if written and written != name else ""
    return Refused(name[:40], f"option {shown(name)}{within} is not among those the rule allows; leave it out")


_READERS = {
    Style.GNU: _getopt,
    Style.POSIX: _getopt,
    Style.SINGLE: _single,
    Style.GO: _go,
    Style.GO_ANYWHERE: _go,
}
