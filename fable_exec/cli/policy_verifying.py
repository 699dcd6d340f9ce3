"""`fable-exec policy verify`: what must always be true under a policy on this host, and the path that breaks what is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from fable_exec.cli.exits import Exit
from fable_exec.cli.given_policy import WORKSPACE, given_policy
from fable_exec.cli.inputs import AS_JSON
from fable_exec.cli.showing import at_the_door, one_line, print_object, report, say
from fable_exec.confine import probe_host

if TYPE_CHECKING:
    from rich.text import Text

    from fable_exec.assurance.model import Finding

__all__ = ["verify"]

_STYLES = {"holds": "green", "fails": "red", "not claimed": "yellow"}


@click.command("verify")
@WORKSPACE
@AS_JSON
@click.argument("file", type=click.UNPROCESSED)
def verify(workspace: str | None, as_json: bool, file: str) -> int:
    """Prove the built-in invariants, and the formulas of FILE, for a broker under it on this host.

    Exit status: 0 when all hold, 1 when one fails, 2 for a policy with faults.
    """

    def act() -> int:
        from fable_exec.assurance.model import verify_policy, verify_supervisor

        policy = given_policy(file, workspace)
        found = verify_policy(policy, probe_host())
        supervised = verify_supervisor()
        failed = any(each.verdict.value == "fails" for each in (*found.findings, *supervised))
        if as_json:
            members = {
                "broker": [each.to_json() for each in found.findings],
                "supervisor": [each.to_json() for each in supervised],
            }
            warnings = list(found.warnings)
            print_object({"ok": not failed, "policy_digest": found.policy_digest, **members, "warnings": warnings})
        else:
            for warning in found.warnings:
                say(f"warning: {warning}")
            report(*_shown("broker", found.findings), *_shown("supervised executions", supervised))
        return Exit.FAILED if failed else Exit.OK

    return at_the_door(act, as_json=as_json)


def _shown(title: str, findings: Iterable[Finding]) -> Iterator[Text]:
    from rich.text import Text

    yield Text(f"{title}:", style="bold")
    for each in findings:
        word = each.verdict.value
        reason = f" ({one_line(each.reason)})" if each.reason else ""
        yield Text.assemble("  ", (f"{word:<11}", _STYLES[word]), f" {each.name}: {each.meaning}{reason}")
        if word == "fails":
            yield Text(f"      {one_line(each.formula)}", style="bold")
            yield from (Text(f"      {one_line(line)}") for line in each.lines())
