"""The kinds of requests that a model asks for: the facts that a broker would state of each, and what is true of it in any case.

One of each kind that the rules tell apart. What is true (it can write, it interprets) is never told to the decision.
"""

from __future__ import annotations

import attrs

from fable_exec.assurance.model.locking import SCOPE
from fable_exec.decision import ArgumentFacts, CommandFacts, WriteFacts

__all__ = ["COMMANDS", "WRITES", "CommandAct", "WriteAct"]


@attrs.frozen(kw_only=True)
class WriteAct:
    """A request that changes the workspace; `in_scope`: all of it lies where an unlock for some paths is for."""

    name: str
    facts: WriteFacts
    in_scope: bool


@attrs.frozen(kw_only=True)
class CommandAct:
    """A command. `arguments` is what the argument rules would say if they were asked."""

    name: str
    facts: CommandFacts
    arguments: ArgumentFacts | None
    can_write: bool = True
    interprets: bool = False
    is_listed: bool = True
    """It is on the allow-list, was found, and is still the file that was listed."""


_READS = ArgumentFacts(allowed=True, reads_only=True)
_WRITES = ArgumentFacts(allowed=True)
_REFUSED = ArgumentFacts(allowed=False, rule="model", reason="an argument rule refuses it")
_UNKNOWN = ArgumentFacts(known=False, allowed=False, rule="model", reason="no argument rule knows it")


def _command(name: str, **others: str | bool) -> CommandFacts:
    return CommandFacts(**{"name": name, "listed": True, "unchanged": True, **others})  # type: ignore[arg-type]  # facts by name


COMMANDS = (
    CommandAct(name="a known reader", facts=_command("cat"), arguments=_READS, can_write=False),
    CommandAct(name="a program that writes", facts=_command("cp"), arguments=_WRITES),
    CommandAct(name="an interpreter", facts=_command("python3"), arguments=_UNKNOWN, interprets=True),
    CommandAct(
        name="a link to an interpreter", facts=_command("tool", resolved_name="bash"), arguments=_UNKNOWN, interprets=True
    ),
    CommandAct(name="a program that no rule knows", facts=_command("tool"), arguments=_UNKNOWN),
    CommandAct(name="a program with arguments that a rule refuses", facts=_command("git"), arguments=_REFUSED),
    CommandAct(name="a program that was not judged", facts=_command("git"), arguments=None),
    CommandAct(name="an unlisted program", facts=_command("rm", listed=False), arguments=_WRITES, is_listed=False),
    CommandAct(
        name="a listed program that is missing",
        facts=_command("rm", unchanged=False, missing="it is not there"),
        arguments=_WRITES,
        is_listed=False,
    ),
    CommandAct(
        name="a program that changed since it was listed",
        facts=_command("cp", unchanged=False),
        arguments=_WRITES,
        is_listed=False,
    ),
)

_INSIDE, _OUTSIDE = (*SCOPE[0], "file"), ("b", "file")
WRITES = (
    WriteAct(name="a write below a", facts=WriteFacts(targets=(_INSIDE,)), in_scope=True),
    WriteAct(name="a write below b", facts=WriteFacts(targets=(_OUTSIDE,)), in_scope=False),
    WriteAct(name="a move from a to b", facts=WriteFacts(targets=(_INSIDE, _OUTSIDE)), in_scope=False),
)
