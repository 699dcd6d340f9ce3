"""`fable-exec policy`: look at policy files without starting anything."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing

import attrs
import click

from fable_exec.broker.absent import absent_here, absent_programs
from fable_exec.broker.arguments import ArgumentJudge
from fable_exec.cli.exits import Exit
from fable_exec.cli.given_policy import WORKSPACE, given_policy
from fable_exec.cli.inputs import AS_JSON
from fable_exec.cli.policy_explaining import explain
from fable_exec.cli.policy_verifying import verify
from fable_exec.cli.showing import at_the_door, print_object, print_text, say
from fable_exec.confine import probe_host
from fable_exec.errors import ConfinementUnavailable, PolicyError
from fable_exec.executables import resolve_executables
from fable_exec.policy import AssurancePolicy, BrokerPolicy, dump_toml, json_schema_text, to_mapping

__all__ = ["command"]

_BY_DEFAULT = attrs.fields(BrokerPolicy).allowed_executables.default
"""Nobody wrote these: one that is missing is no slip."""


@click.group("policy")
def command() -> None:
    """Check policy files, prove what they promise, explain what they decide, show them whole, print their schema."""


@command.command("check")
@WORKSPACE
@AS_JSON
@click.argument("file", type=click.UNPROCESSED)
def check(workspace: str | None, as_json: bool, file: str) -> int:
    """List every fault of FILE with its place, and what a broker under it would refuse at its start here.

    What FILE names and this host does not have is a warning.

    Exit status: 0 for a valid policy, 2 for one with faults or that cannot be read.
    """

    def act() -> int:
        try:
            policy = given_policy(file, workspace)
            warnings = _check_for_a_start(policy)
        except PolicyError as error:
            if not as_json:
                raise
            faults = [{"path": path, "message": text} for path, text in error.faults]
            print_object({"ok": False, "faults": faults, "warnings": [], "policy_digest": None})
            return Exit.USAGE
        if as_json:
            told = [{"path": path, "message": text} for path, text in warnings]
            print_object({"ok": True, "faults": [], "warnings": told, "policy_digest": policy.digest})
        else:
            for path, text in warnings:
                say(f"warning: {path}: {text}")
            say(f"valid: {file} (digest {policy.digest})")
        return Exit.OK

    return at_the_door(act, as_json=as_json)


def _check_for_a_start(policy: BrokerPolicy) -> list[tuple[str, str]]:
    """Look at what the policy names, as a broker does when it is made; the warnings. Raises PolicyError with every fault."""
    faults: list[tuple[str, str]] = []
    warnings: list[tuple[str, str]] = []
    for look in (_look_at_programs, _look_at_the_rest, _look_at_promises):
        try:
            warnings += look(policy)
        except PolicyError as error:
            faults += error.faults
    if faults:
        raise PolicyError.of(faults)
    return warnings


def _look_at_programs(policy: BrokerPolicy) -> Iterable[tuple[str, str]]:
    with closing(resolve_executables(policy, os.environ)) as found:
        return () if policy.allowed_executables == _BY_DEFAULT else tuple(absent_programs(policy, found))


def _look_at_the_rest(policy: BrokerPolicy) -> Iterable[tuple[str, str]]:
    return tuple(absent_here(policy, ArgumentJudge(policy)))


def _look_at_promises(policy: BrokerPolicy) -> Iterable[tuple[str, str]]:
    """What a policy states of itself. Where no launcher can be had no broker asks either."""
    if policy.assurance == AssurancePolicy():
        return ()
    from fable_exec.assurance.model import verify_policy

    try:
        found = verify_policy(policy, probe_host())
    except ConfinementUnavailable:
        return ()
    found.require()
    return tuple(("assurance.formulas", warning) for warning in found.warnings)


@command.command("show")
@WORKSPACE
@AS_JSON
@click.argument("file", type=click.UNPROCESSED)
def show(workspace: str | None, as_json: bool, file: str) -> int:
    """Print the effective policy of FILE as TOML: every field, defaults too.

    Exit status: 0, 2 for a policy with faults.
    """

    def act() -> int:
        policy = given_policy(file, workspace)
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


command.add_command(verify)
command.add_command(explain)
