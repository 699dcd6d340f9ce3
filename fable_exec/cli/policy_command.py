"""`fable-exec policy`: look at policy files without starting anything."""

from __future__ import annotations

import os

import click

from fable_exec.broker.arguments import ArgumentJudge
from fable_exec.cli.exits import Exit
from fable_exec.cli.showing import at_the_door, print_object, print_text, say
from fable_exec.errors import PolicyError
from fable_exec.executables import resolve_executables
from fable_exec.policy import BrokerPolicy, dump_toml, json_schema_text, load_policy, to_mapping

__all__ = ["command"]

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one object.")


@click.group("policy")
def command() -> None:
    """Check policy files, show them whole, print their schema."""


@command.command("check")
@_AS_JSON
@click.argument("file", type=click.UNPROCESSED)
def check(as_json: bool, file: str) -> int:
    """List every fault of FILE with its place, and what a broker under it would refuse at its start here.

    Exit status: 0 for a valid policy, 2 for one with faults or that cannot be read.
    """

    def act() -> int:
        try:
            policy = load_policy(file)
            _check_for_a_start(policy)
        except PolicyError as error:
            if not as_json:
                raise
            faults = [{"path": path, "message": text} for path, text in error.faults]
            print_object({"ok": False, "faults": faults, "policy_digest": None})
            return Exit.USAGE
        if as_json:
            print_object({"ok": True, "faults": [], "policy_digest": policy.digest})
        else:
            say(f"valid: {file} (digest {policy.digest})")
        return Exit.OK

    return at_the_door(act, as_json=as_json)


def _check_for_a_start(policy: BrokerPolicy) -> None:
    """Look at what the policy names, as a broker does when it is made. Raises PolicyError with every fault."""
    faults: list[tuple[str, str]] = []
    for look in (lambda: resolve_executables(policy, os.environ).close(), lambda: ArgumentJudge(policy)):
        try:
            look()
        except PolicyError as error:
            faults += error.faults
    if faults:
        raise PolicyError.of(faults)


@command.command("show")
@_AS_JSON
@click.argument("file", type=click.UNPROCESSED)
def show(as_json: bool, file: str) -> int:
    """Print the effective policy of FILE as TOML: every field, defaults too.

    Exit status: 0, 2 for a policy with faults.
    """

    def act() -> int:
        policy = load_policy(file)
        if as_json:
            print_object({"ok": True, "policy": to_mapping(policy), "policy_digest": policy.digest})
        else:
            print_text(f"# digest {policy.digest}\n{dump_toml(policy)}")
        return Exit.OK

    return at_the_door(act, as_json=as_json)


@command.command("schema")
def schema() -> int:
    """Print the JSON Schema of policy files, for editors and other programs."""

    def act() -> int:
        print_text(json_schema_text())
        return Exit.OK

    return at_the_door(act, as_json=False)
