"""One argv against the tables: options, values, operands, sub-commands, and the commands that it would run in turn.

Total: for any sequence of strings it gives a verdict. Its time grows with the length of the argv and not faster; how deep
commands may run commands is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fable_exec.argrules.grammar import Parsed, parse
from fable_exec.argrules.kinds import word_fault
from fable_exec.argrules.paths import inside_fault
from fable_exec.argrules.shell_words import plain_commands
from fable_exec.argrules.tables import Inner, Kind, Operands, Place, Table
from fable_exec.argrules.verdict import Refused, Verdict, shown

__all__ = ["MAX_ARGUMENTS", "MAX_CHARACTERS", "LookUp", "judge_argv", "known_names"]

LookUp = Callable[[str], Sequence[Table]]
"""The tables for a tool's name; all of them must allow. None at all: the tool is unknown."""

MAX_ARGUMENTS = 4096
MAX_CHARACTERS = 1_048_576
_MAX_DEPTH = 4
_NOWHERE = Place()
_FIND_TOKENS = frozenset({"(", ")", "!", ","})
_VERSION = re.compile(r"[-._]?[0-9].*$")
_VARIANT = re.compile(r"\.(basic|bin|bsd|distrib|exe|gnu|nox|openbsd|orig|real|static|tiny|traditional|wrapped|ws)$")


def known_names(name: str) -> list[str]:
    """The names a rule may stand under for a tool called `name`: itself, in lower case, without .exe and the like or version."""
    lower = _VARIANT.sub("", name.lower())
    return [name, lower, _VERSION.sub("", lower)]


def judge_argv(look_up: LookUp, argv: Sequence[str], place: Place, unknown_allowed: bool, depth: int = 0) -> Verdict:
    """The verdict on `argv`; a command inside another one (`depth` above 0) must have a rule."""
    name, rule = "", "argv"
    try:
        name = _tool_name(argv)
        tables = look_up(name)
        if not tables and not unknown_allowed:
            raise Refused("unknown-tool", f"there is no argument rule for {shown(name)}; add one, or use a tool that has one")
        if not tables:
            return Verdict(allowed=True, tool=name, rule="unknown-tool")
        verdict = Verdict(allowed=True, tool=name, rule="", read_only=True)
        for table in tables:
            rule = table.rule
            judge = _Judge(look_up, place, depth)
            try:
                judge.command(table, argv[1:])
            finally:
                rule = judge.rule
            verdict = judge.verdict(name, verdict)
        return verdict
    except Refused as refusal:
        return Verdict(
            allowed=False,
            tool=name,
            rule=f"{rule}:{refusal.rule}",
            reason=f"{rule}: {refusal.reason}",
            inner=refusal.inner,
        )


def _tool_name(argv: Sequence[str]) -> str:
    if isinstance(argv, str):
        raise Refused("string", "the command is one string; give a list with each argument as its own item")
    if not argv:
        raise Refused("empty", "there is no command; give the tool's name first")
    whole = "".join(argv)
    if len(argv) > MAX_ARGUMENTS or len(whole) > MAX_CHARACTERS:
        raise Refused("length", f"more than {MAX_ARGUMENTS} arguments or {MAX_CHARACTERS} characters; split the work")
    if "\0" in whole:
        raise Refused("nul", "an argument contains NUL, which no program can receive; remove it")
    name = argv[0].rpartition("/")[2]
    if "=" in argv[0]:
        raise Refused("assignment", f"{shown(argv[0])} sets a variable as in a shell; no shell reads this, use the request's env")
    if name in ("", ".", "..") or " " in name or word_fault(name, _NOWHERE) or name[0] in "-+":
        raise Refused("name", f"{shown(argv[0])} is no name of a tool; give the tool alone, each argument as its own item")
    return name


class _Judge:
    """One walk down the tables of a tool."""

    __slots__ = ("depth", "given", "inner", "look_up", "place", "read_only", "rule")

    def __init__(self, look_up: LookUp, place: Place, depth: int) -> None:
        self.look_up = look_up
        self.place = place
        self.depth = depth
        self.rule = ""
        self.given: set[str] = set()
        self.inner: list[Verdict] = []
        self.read_only = True

    def verdict(self, name: str, other: Verdict) -> Verdict:
        """What this walk found, together with what another table of the same tool found before."""
        read_only = self.read_only and all(inner.read_only for inner in self.inner) and other.read_only
        return Verdict(allowed=True, tool=name, rule=self.rule, read_only=read_only, inner=tuple(self.inner))

    def command(self, table: Table, arguments: Sequence[str]) -> None:
        self.rule = table.rule
        if table.refused:
            raise Refused("refused", table.refused)
        if table.response_files and any(argument[:1] == "@" for argument in arguments):
            raise Refused(
                "@", "an argument that begins with @ names a file of more arguments, which no rule has seen; write them out"
            )
        parsed = parse(table, arguments)
        for given in parsed.given:
            self.given.add(given.option.name)
            if given.option.writes:
                self.read_only = False
            if given.value is not None and given.option.kind is not None:
                self.value(given.option.kind, given.value, f"value {shown(given.value)} of {given.option.name}", given.apart)
        if table.values_with:
            self.values_with(table, parsed)
        if table.commands:
            self.sub_command(table, parsed)
            return
        if not table.read_only and not (table.read_only_with and table.read_only_with in self.given):
            self.read_only = False
        self.what_follows(table, parsed)
        for command in parsed.commands:
            self.found_files(table, command, parsed.operands)

    def values_with(self, table: Table, parsed: Parsed) -> None:
        """Kinds that hold for a value because of another option: an archive is written when tar creates it."""
        for name, kinds in table.values_with.items():
            if name in self.given:
                for given in parsed.given:
                    kind = kinds.get(given.option.name)
                    if kind is not None and given.value is not None:
                        self.value(kind, given.value, f"value {shown(given.value)} of {given.option.name}", given.apart)

    def sub_command(self, table: Table, parsed: Parsed) -> None:
        if not parsed.rest:
            if not table.bare:
                raise Refused("sub-command", "it needs a sub-command; name one")
            if not table.read_only:
                self.read_only = False
            return
        name = parsed.rest[0]
        below = table.commands.get(name)
        if below is None:
            raise Refused("sub-command", f"{shown(name)} is not among the sub-commands the rule allows; use one of those")
        self.command(below, parsed.rest[1:])

    def what_follows(self, table: Table, parsed: Parsed) -> None:
        """Operands, or the program or command that stands in their place."""
        special = next((operands for names, operands in table.operands_with if names <= self.given), None)
        if parsed.module is not None:
            self.module(table, parsed.module)
        elif special is not None:
            self.operands(special, table, parsed)
        elif table.wraps is not None:
            self.wrapped(table, list(parsed.rest or ()))
        elif table.program is not None:
            self.program(table, table.program, parsed)
        else:
            self.operands(table.operands, table, parsed)

    def value(self, kind: Kind, text: str, called: str, apart: bool = True) -> None:
        if apart and text[:1] == "-" and len(text) > 1 and not kind.free:
            raise Refused("value", f"{called} begins with a dash and could be taken for an option; join it or write ./NAME")
        fault = kind.check(text, self.place)
        if fault:
            raise Refused(kind.name, f"{called} {fault}")
        if kind.writes:
            self.read_only = False
        if kind.name == "shell":
            for command in plain_commands(text):
                self.run(command, Inner.ANY)

    def operands(self, expected: Operands, table: Table, parsed: Parsed) -> None:
        words = parsed.operands if parsed.rest is None else [*parsed.operands, *parsed.rest]
        dashed = parsed.dashed
        if table.variables is not None:
            assigned = [word for word in words if "=" in word]
            words = [word for word in words if "=" not in word]
            for word in assigned:
                self.assignment(table, word)
        count = len(words)
        if count < expected.at_least:
            raise Refused(
                "operands",
                f"needs at least {expected.at_least} operands, not {count}; add them",
            )
        last = count - len(expected.tail)
        for index, word in enumerate(words):
            kind = expected.tail[index - last] if index >= last else _kind_at(expected, index)
            if kind is None:
                raise Refused("operands", f"operand {shown(word)} is one too many; leave it out")
            self.value(kind, word, f"operand {shown(word)}", apart=dashed < 0 or index < dashed)

    def assignment(self, table: Table, word: str) -> None:
        name, _, content = word.partition("=")
        variables = table.variables or {}
        kind = variables.get(name) or next(
            (kind for pattern, kind in variables.items() if pattern[-1:] == "*" and name.startswith(pattern[:-1])), None
        )
        if kind is None:
            raise Refused("variable", f"{shown(word)} sets {shown(name)}, which no rule allows; leave it out")
        self.value(kind, content, f"value {shown(content)} of {name}", apart=False)

    def wrapped(self, table: Table, rest: list[str]) -> None:
        """A tool that runs the command in its arguments: env, timeout, xargs."""
        at = 0
        for kind in table.wraps or ():
            if at >= len(rest):
                raise Refused("operands", "an operand before the command is missing; add it")
            self.value(kind, rest[at], f"operand {shown(rest[at])}")
            at += 1
        while table.variables is not None and at < len(rest) and "=" in rest[at]:
            self.assignment(table, rest[at])
            at += 1
        if at < len(rest):
            # the operands that come from elsewhere are words; one stands for them
            more = ["./x"] if table.inner is Inner.INERT and "--replace" not in self.given else []
            self.run([*rest[at:], *more], table.inner)
        elif not table.bare:
            raise Refused("operands", "there is no command to run; name one")

    def program(self, table: Table, kind: Kind, parsed: Parsed) -> None:
        """An interpreter: the first operand is its script, everything after that belongs to the script."""
        words = parsed.operands if parsed.rest is None else parsed.rest
        if words:
            self.value(kind, words[0], f"script {shown(words[0])}", apart=parsed.dashed < 0)
        else:
            raise Refused("operands", "without a script it would run its standard input; name a script in the workspace")

    def module(self, table: Table, module: list[str]) -> None:
        tool = table.modules.get(module[0])
        if tool is None:
            raise Refused("module", f"module {shown(module[0])} is not among those the rule allows; use one of those or a script")
        if tool:
            self.run([tool, *module[1:]], Inner.ANY)

    def found_files(self, table: Table, command: list[str], starts: Sequence[str]) -> None:
        """A command of find: `{}` stands for a path below a starting point, the one that says most about where that may be."""
        if any("{}" in word and word != "{}" for word in command):
            raise Refused("inner", "{} must stand alone in a command; a file's name within other text could change its meaning")
        outside = [start for start in starts if start not in _FIND_TOKENS and inside_fault(start, self.place)]
        found = f"{outside[0].rstrip('/')}/x" if outside else "./x"
        self.run([found if word == "{}" else word for word in command], table.inner)

    def run(self, argv: Sequence[str], need: Inner) -> None:
        """Judge a command that this one runs; it must have a rule, because the list of allowed executables never sees it."""
        if self.depth >= _MAX_DEPTH:
            raise Refused("depth", f"commands run commands more than {_MAX_DEPTH} deep; run the inner one itself")
        verdict = judge_argv(self.look_up, argv, self.place, False, self.depth + 1)
        if not verdict.allowed:
            raise Refused("inner", f"it would run {shown(verdict.tool)}, which is refused: {verdict.reason[:1000]}", (verdict,))
        if need is Inner.READ_ONLY and not verdict.read_only:
            raise Refused(
                "inner",
                f"it may run only what cannot write, and {shown(verdict.tool)} can; run that itself",
                (verdict,),
            )
        if need is Inner.INERT and not all(table.inert for table in self.look_up(verdict.tool)):
            text = f"it gives {shown(verdict.tool)} arguments that no rule has seen, and few tools may take such; name the files"
            raise Refused("inner", text, (verdict,))
        self.inner.append(verdict)


def _kind_at(expected: Operands, index: int) -> Kind | None:
    if index < len(expected.head):
        return expected.head[index]
    index -= len(expected.head)
    return expected.optional[index] if index < len(expected.optional) else expected.repeated
