"""May it? One pure function from policy, lock and request to a decision; the broker acts on it and the assurance model checks it.

The rules, first that applies wins:

- a command must be on the allow-list, have been found when the broker started, and still the file that was listed;
- where the policy has argument rules obeyed, the command's arguments must pass them;
- while writes are locked no write action is done, and a command runs with the workspace read-only where the kernel holds that;
- where it does not (confinement is off, or the host cannot), or the policy says `locked_commands = "deny"`, no interpreter or
  shell runs, and of the others only commands whose arguments show that they read and run nothing else;
- an unlock for some paths unlocks write actions below them; for commands it counts as locked: no path binds a command;
- without a token digest in the policy nothing can have unlocked writes, whatever the caller says;
- what runs may only be fed where it could be started now, and not while it can write and could no more;
- every command has a deadline, within the policy's limits.

It resolves no path and looks up no file, and arguments are judged elsewhere: the caller states those facts.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import PurePath
from typing import Literal

import attrs

from fable_exec.errors import ArgumentDenied, Denied, ExecutableDenied, InvalidRequest, WritesLocked
from fable_exec.policy import BrokerPolicy, Limits

__all__ = [
    "INTERPRETERS",
    "ArgumentFacts",
    "CommandFacts",
    "Decision",
    "ObserveFacts",
    "Rule",
    "UnlockScope",
    "WriteFacts",
    "asks_for_arguments",
    "deadlines_of",
    "decide",
    "decide_input",
    "is_interpreter",
    "is_whole",
    "words_for_a_shell",
]

INTERPRETERS: frozenset[str] = frozenset(
    {"bash", "cmd", "node", "perl", "php", "powershell", "pwsh", "pypy", "pytest", "python", "ruby", "sh", "zsh"}
)
"""Programs that run what they are told. The list slows a model down; only the kernel can hold a program to reading."""

_VERSION = re.compile(r"[-._]?[0-9][0-9._-]*$")

_MOST_LISTED_CHARACTERS = 200
_FOR_A_SHELL = re.compile(r"[\s|;&<>`$*?'\"]")

UnlockScope = tuple[tuple[str, ...], ...]
"""Paths below which writes are unlocked, each as its components; `((),)` is the whole workspace, `()` is nothing."""


class Rule(Enum):
    """Which rule decided."""

    OBSERVE = "observe"
    COMMAND = "command"
    WRITE = "write"
    NOT_LISTED = "not-listed"
    NOT_FOUND = "not-found"
    CHANGED = "changed-since-listed"
    WRITE_LOCK = "write-lock"
    WRITE_SCOPE = "write-scope"
    INTERPRETER_LOCK = "interpreter-lock"
    ARGUMENTS = "argument-rule"
    READER_LOCK = "reader-lock"


@attrs.frozen(kw_only=True)
class ObserveFacts:
    """A request that changes nothing: probing, reading, listing, following or ending a command."""

    action: str = "read"


@attrs.frozen(kw_only=True)
class WriteFacts:
    """A request that changes the workspace. `targets` are all paths it would change, as components (a move has two)."""

    targets: tuple[tuple[str, ...], ...]
    unlock_scope: UnlockScope | None = None
    """Where the current unlock holds; None is everywhere."""


@attrs.frozen(kw_only=True)
class ArgumentFacts:
    """What argument rules say about a command line.

    `known` tells whether any rule knows the tool, `reads_only` that no accepted form of it writes or runs another command;
    `rule` is who decided, `reason` why not.
    """

    known: bool = True
    allowed: bool
    reads_only: bool = False
    rule: str = ""
    reason: str = ""


@attrs.frozen(kw_only=True)
class CommandFacts:
    """A request to start a command, or to feed one that runs.

    `name` is the basename it was looked up by, `resolved_name` that of the file behind it: a link named `tool` to an interpreter
    is an interpreter.
    """

    name: str
    listed: bool
    unchanged: bool
    missing: str = ""
    """Why a listed name means no file here, in words; "" when it means one."""
    resolved_name: str = ""
    cwd: tuple[str, ...] = ()
    """Part of the question so that a rule about it needs no new caller; no rule reads it today."""
    unlock_scope: UnlockScope | None = None
    arguments: ArgumentFacts | None = None
    """None: not judged; what needs the verdict is refused then. `asks_for_arguments` says when it is needed."""


@attrs.frozen
class Decision:
    """The answer. `code` is "allowed" or the code of the error, `message` says which rule refused and what to do."""

    allowed: bool
    rule: Rule
    code: Literal["allowed", "argument-denied", "executable-denied", "writes-locked"]
    message: str
    read_only: bool = False
    """Allowed only with the workspace read-only for the whole tree of the command, as far as the kernel holds that."""

    def refusal(self) -> Denied:
        """The exception that says this refusal. Only for one that is not allowed."""
        return _REFUSALS[self.code](self.message)


_REFUSALS: dict[str, type[Denied]] = {kind.code: kind for kind in (ArgumentDenied, ExecutableDenied, WritesLocked)}


_OBSERVE = Decision(True, Rule.OBSERVE, "allowed", "")
_WRITE = Decision(True, Rule.WRITE, "allowed", "")
_COMMAND = Decision(True, Rule.COMMAND, "allowed", "")
_COMMAND_READ_ONLY = Decision(True, Rule.COMMAND, "allowed", "", read_only=True)
_WRITE_LOCKED = Decision(False, Rule.WRITE_LOCK, "writes-locked", "workspace writes are locked")
_CAN_STILL_WRITE = Decision(
    False, Rule.WRITE_LOCK, "writes-locked", "workspace writes are locked, and this command was started while it could write"
)
_OUT_OF_SCOPE = Decision(
    False, Rule.WRITE_SCOPE, "writes-locked", "workspace writes are locked here: they are unlocked for other paths only"
)


def decide(
    policy: BrokerPolicy,
    writes_unlocked: bool,
    kernel_readonly: bool,
    facts: ObserveFacts | WriteFacts | CommandFacts,
) -> Decision:
    """Whether the policy lets a request with these `facts` be done now.

    Args:
        writes_unlocked: the admin's token has unlocked writes and the unlock has not run out.
        kernel_readonly: the kernel of this host can hold the workspace read-only for the whole tree of a command.

    Returns:
        The same decision for the same arguments. It raises nothing, blocks on nothing, and costs a microsecond or two.
    """
    unlocked = writes_unlocked and policy.write_token_digest is not None
    if isinstance(facts, WriteFacts):
        return _decide_write(unlocked, facts)
    if isinstance(facts, CommandFacts):
        return _decide_command(policy, unlocked and is_whole(facts.unlock_scope), kernel_readonly, facts)
    return _OBSERVE


def decide_input(start_now: Decision, started_read_only: bool) -> Decision:
    """Whether a command that runs may be fed, from the decision on starting it now: what may not be started now may not be told
    what to do either, and what can still write may not be while it could not now."""
    if start_now.allowed and start_now.read_only and not started_read_only:
        return _CAN_STILL_WRITE
    return start_now


def deadlines_of(limits: Limits, timeout_seconds: float | None, idle_timeout_seconds: float | None) -> tuple[float, float | None]:
    """How long a command may run in all, and without output (None: as long as it may run), from what its request asks for.

    Raises:
        InvalidRequest: more than the limits allow.
    """
    for name, seconds in (("timeout_seconds", timeout_seconds), ("idle_timeout_seconds", idle_timeout_seconds)):
        if seconds is not None and seconds > limits.max_timeout_seconds:
            raise InvalidRequest(f"{name} must be at most {limits.max_timeout_seconds:g} under this policy")
    idle = limits.idle_timeout_seconds if idle_timeout_seconds is None else idle_timeout_seconds
    return timeout_seconds or limits.timeout_seconds, idle


def asks_for_arguments(policy: BrokerPolicy, unlocked: bool, kernel_readonly: bool) -> bool:
    """Whether the decision on a command depends on its arguments; judging them costs something."""
    return policy.argument_rules.mode != "off" or (not unlocked and _must_be_a_reader(policy, kernel_readonly))


def is_interpreter(name: str) -> bool:
    """Whether a program of this name runs code or commands it is given: the list, `python*`, each with any version digits.

    One suffix does not hide a name: `python.exe` and `bash.real` count.
    """
    lower = name.lower()
    if lower.startswith("python") or lower in INTERPRETERS:
        return True
    return _VERSION.sub("", lower) in INTERPRETERS or _VERSION.sub("", lower.rpartition(".")[0]) in INTERPRETERS


def words_for_a_shell(name: str) -> str:
    """What to add about a program that cannot be run whose `name` looks like a line for a shell; else ""."""
    if _FOR_A_SHELL.search(name) is None:
        return ""
    return "; no shell reads it: give the program and each argument apart, or a shell with -c and the line"


def _instead(policy: BrokerPolicy, name: str) -> str:
    """What to add about a program that no policy lists: why, where that can be seen, and what is listed."""
    if for_a_shell := words_for_a_shell(name):
        return for_a_shell
    listed = ascii(", ".join(PurePath(entry).name for entry in policy.allowed_executables) or "no program")[1:-1]
    shown = listed if len(listed) <= _MOST_LISTED_CHARACTERS else listed[:_MOST_LISTED_CHARACTERS] + "…"
    path = "; a program is named without a path, and a script of the workspace is run by its interpreter" if "/" in name else ""
    return f", which has {shown}{path}"


def _decide_write(unlocked: bool, facts: WriteFacts) -> Decision:
    if not unlocked:
        return _WRITE_LOCKED
    scope = facts.unlock_scope
    if scope is None or all(_within(target, scope) for target in facts.targets):
        return _WRITE
    return _OUT_OF_SCOPE


def _must_be_a_reader(policy: BrokerPolicy, kernel_readonly: bool) -> bool:
    """Whether a locked command must show by its arguments that it reads."""
    return policy.locked_commands == "deny" or not kernel_readonly


def _decide_command(policy: BrokerPolicy, unlocked: bool, kernel_readonly: bool, facts: CommandFacts) -> Decision:
    if not facts.listed:
        return _refused(
            Rule.NOT_LISTED, f"executable {_shown(facts.name)} is not on the allow-list{_instead(policy, facts.name)}"
        )
    if facts.missing:
        return _refused(Rule.NOT_FOUND, f"executable {_shown(facts.name)} is on the allow-list, but {facts.missing}")
    if not facts.unchanged:
        return _refused(Rule.CHANGED, f"executable {_shown(facts.name)} is no longer the file that was allow-listed")
    if policy.argument_rules.mode == "enforce" and not _arguments_pass(policy, facts.arguments):
        reason = "its arguments were not judged" if facts.arguments is None else facts.arguments.reason
        return Decision(False, Rule.ARGUMENTS, "argument-denied", f"refused by an argument rule: {reason}")
    if unlocked:
        return _COMMAND
    if not _must_be_a_reader(policy, kernel_readonly):
        return _COMMAND_READ_ONLY
    if is_interpreter(facts.name) or is_interpreter(facts.resolved_name):
        text = f"workspace writes are locked, and {_shown(facts.name)} is an interpreter or shell that could write"
        return Decision(False, Rule.INTERPRETER_LOCK, "writes-locked", text)
    if facts.arguments is not None and facts.arguments.allowed and facts.arguments.reads_only:
        return _COMMAND_READ_ONLY
    return Decision(False, Rule.READER_LOCK, "writes-locked", _not_a_reader(facts))


def _arguments_pass(policy: BrokerPolicy, arguments: ArgumentFacts | None) -> bool:
    if arguments is None:
        return False
    return arguments.allowed or (not arguments.known and policy.argument_rules.unknown_tools == "allow")


def _not_a_reader(facts: CommandFacts) -> str:
    why = "it can write, or run another command" if facts.arguments is None or facts.arguments.allowed else facts.arguments.reason
    return f"workspace writes are locked, and {_shown(facts.name)} is not known to only read with these arguments: {why}"


def _refused(rule: Rule, message: str) -> Decision:
    return Decision(False, rule, "executable-denied", message)


def is_whole(scope: UnlockScope | None) -> bool:
    """Whether an unlock for `scope` is for the whole workspace, and so for commands, too."""
    return scope is None or () in scope


def _within(target: tuple[str, ...], scope: UnlockScope) -> bool:
    return any(target[: len(root)] == root for root in scope)


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 100 else name[:99] + "…")
