"""`fable-exec policy explain`: what would happen to one command, what it could reach, and what stands before that, as a tree."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs
import click

from fable_exec.broker import ExecutionBroker
from fable_exec.cli.exits import Exit
from fable_exec.cli.inputs import AS_JSON
from fable_exec.cli.run_policy import UNLOCK_TOKEN, RunRules, givers, run_policy
from fable_exec.cli.showing import at_the_door, one_line, print_object, report
from fable_exec.errors import ConfinementUnavailable, PolicyError

if TYPE_CHECKING:
    from rich.tree import Tree

    from fable_exec.assurance.model import AssetReach, BlastRadius
    from fable_exec.broker.explain import Explanation

__all__ = ["explain"]

_MOST_ALIKE = 3
_LONGEST_STEP = 110


@click.command("explain", context_settings={"allow_interspersed_args": False})
@click.option("--workspace", metavar="DIRECTORY", help="The workspace. [default: the policy's, or the current directory]")
@click.option("--policy", "file", metavar="FILE", help="TOML or JSON. Without one just ARGV's program may run.")
@click.option("--cwd", metavar="DIRECTORY", help="Where to run, below the workspace.")
@click.option("--unlocked", is_flag=True, help="Explain it with workspace writes unlocked.")
@AS_JSON
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def explain(
    workspace: str | None, file: str | None, cwd: str | None, unlocked: bool, as_json: bool, argv: tuple[str, ...]
) -> int:
    """Tell what would happen to ARGV, what it could reach, and which layers stand before the rest. Nothing is run.

    Exit status: 0 when it would be run, 1 when not, 2 for wrong usage or a policy with faults.
    """

    def act() -> int:
        place = "." if workspace is None and file is None else workspace
        rules = RunRules(workspace=place, file=file, unlocked=unlocked)
        with closing(_broker(rules, argv[0])) as broker:
            if unlocked:
                broker.unlock_writes(UNLOCK_TOKEN)
            explanation = broker.explain(argv, cwd)
            radius = _radius(broker, read_only=not unlocked)
        if as_json:
            reach = [] if radius is None else radius.to_json()
            print_object({"ok": explanation.allowed, "command": list(argv), **_members(explanation), "reach": reach})
        else:
            report(_tree(argv, explanation, radius))
        return Exit.OK if explanation.allowed else Exit.FAILED

    return at_the_door(act, as_json=as_json)


def _broker(rules: RunRules, program: str) -> ExecutionBroker:
    try:
        return ExecutionBroker(run_policy(rules, program))
    except PolicyError as error:
        raise error.told_by(givers(rules)) from None


def _radius(broker: ExecutionBroker, *, read_only: bool) -> BlastRadius | None:
    """None where no launcher can be had, and so nothing is run."""
    from fable_exec.assurance.model import blast_radius

    _, confined, _ = broker.command_parts
    try:
        return blast_radius(confined.plan(read_only=read_only))
    except ConfinementUnavailable:
        return None


def _members(explanation: Explanation) -> dict[str, Any]:
    """Without the values of variables: they may be secrets."""
    members = attrs.asdict(explanation, filter=lambda field, _: field.name != "environment")
    return {**members, "environment": sorted(explanation.environment)}


def _tree(argv: tuple[str, ...], explanation: Explanation, radius: BlastRadius | None) -> Tree:
    from rich.tree import Tree

    tree = Tree(one_line(shlex.join(argv)))
    decision = "would be run" if explanation.allowed else "refused"
    tree.add(f"decision: {decision}{f': {one_line(explanation.message)}' if explanation.message else ''}")
    tree.add(f"rule: {explanation.rule}{f' ({one_line(explanation.argument_rule)})' if explanation.argument_rule else ''}")
    tree.add(f"executable: {one_line(explanation.executable or 'none is listed')}")
    tree.add(f"working directory: {one_line(explanation.cwd)}, at most {explanation.timeout_seconds:g} s")
    tree.add(f"environment: {one_line(', '.join(sorted(explanation.environment)))}")
    plan = tree.add("plan")
    for line in _short(explanation.plan):
        plan.add(one_line(line))
    reach = tree.add("reach")
    for each in () if radius is None else radius.assets:
        asset = reach.add(f"{each.asset.value}: {_brittleness(each)}")
        for line in _ways(each):
            asset.add(line)
    return tree


def _short(plan: str) -> Iterator[str]:
    """The plan without the lists in it: many steps of one kind in one line, and long ones cut; `--json` has all of it."""
    for kind, lines in itertools.groupby(plan.splitlines(), lambda line: " ".join(line.split(" ", 2)[:2])):
        steps = list(lines)
        if len(steps) > _MOST_ALIKE:
            yield f"{kind}, {len(steps)} times"
        else:
            yield from (step if len(step) <= _LONGEST_STEP else f"{step[:_LONGEST_STEP]} ..." for step in steps)


def _brittleness(reach: AssetReach) -> str:
    return "reachable" if reach.reachable else f"cut, brittleness {reach.brittleness:.2f}"


def _ways(reach: AssetReach) -> Iterator[str]:
    for way in reach.ways:
        layers = ", ".join(layer.value for layer in way.layers) or "nothing"
        yield f"{way.mechanism}: {layers} before it{f' ({way.protection})' if way.protection else ''}"
