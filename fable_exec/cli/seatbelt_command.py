"""`fable-exec seatbelt`: the Seatbelt profile of a boundary, and what it means. Nothing is started; it works on any platform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fable_exec.cli.exits import Exit
from fable_exec.cli.inputs import AS_JSON
from fable_exec.cli.showing import at_the_door, print_object, print_text
from fable_exec.seatbelt import HostBoundary, SeatbeltProfile
from fable_exec.seatbelt import render as render_profile

__all__ = ["command"]


def _of_a_profile(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which profile."""
    for name, meaning in (
        ("--spec", "The file of the specification."),
        ("--workspace", "The workspace, inside one of the boundary's roots."),
        ("--boundary", "A TOML file with the boundary's settings."),
    ):
        function = click.option(name, required=True, type=click.UNPROCESSED, metavar="PATH", help=meaning)(function)
    return function


_OPERATION = click.argument("operation", type=click.UNPROCESSED)
_TARGET = click.argument("target", type=click.UNPROCESSED, default="")


@click.group("seatbelt", short_help="Print the Seatbelt profile of a host boundary, and what it decides.")
def command() -> None:
    """Print the Seatbelt profile of a host boundary, and what it decides.

    A boundary is a TOML file; docs/reference/seatbelt.md has its settings.
    """


@command.command("render")
@_of_a_profile
def render(boundary: str, workspace: str, spec: str) -> int:
    """Print the profile for sandbox-exec.

    Exit status: 0, 2 when the boundary, the workspace or the specification breaks a rule.
    """

    def act() -> int:
        print_text(_profile(boundary, workspace, spec).decode("ascii"))
        return Exit.OK

    return at_the_door(act, as_json=False)


@command.command("decide")
@_of_a_profile
@AS_JSON
@_OPERATION
@_TARGET
def decide(boundary: str, workspace: str, spec: str, as_json: bool, operation: str, target: str) -> int:
    """Print "allow" or "deny": what the profile makes of OPERATION on TARGET.

    OPERATION is Seatbelt's name, such as file-read-data, network-outbound, process-exec. TARGET is an absolute path,
    tcp:HOST:PORT, udp:HOST:PORT, unix:PATH, or, for signals, self, same-sandbox, others.

    Exit status: 0 for either answer, 2 when there is none.
    """

    def act() -> int:
        decision = SeatbeltProfile.parse(_profile(boundary, workspace, spec)).decide(operation, target)
        if as_json:
            print_object({"ok": True, "operation": operation, "target": target, "decision": decision})
        else:
            print_text(f"{decision}\n")
        return Exit.OK

    return at_the_door(act, as_json=as_json)


@command.command("explain")
@_of_a_profile
@AS_JSON
@_OPERATION
@_TARGET
def explain(boundary: str, workspace: str, spec: str, as_json: bool, operation: str, target: str) -> int:
    """Print the decision with the rule that made it, which is the last that matches.

    Exit status: 0 for either answer, 2 when there is none.
    """

    def act() -> int:
        text = _profile(boundary, workspace, spec)
        profile = SeatbeltProfile.parse(text)
        rule = profile.deciding(operation, target)
        decision = profile.decide(operation, target)
        line = None if rule is None else rule.line
        shown = "(deny default)" if line is None else text.decode("ascii").splitlines()[line - 1]
        if as_json:
            members = {"operation": operation, "target": target, "decision": decision, "line": line, "rule": shown}
            print_object({"ok": True, **members})
        else:
            place = "no rule matches, and the default is" if line is None else f"line {line}:"
            print_text(f"{decision}: {place} {shown}\n")
        return Exit.OK

    return at_the_door(act, as_json=as_json)


def _profile(boundary: str, workspace: str, spec: str) -> bytes:
    return render_profile(HostBoundary.from_toml(boundary), workspace, spec)
