"""`fable-exec supervise recover` and `prune`."""

from __future__ import annotations

from typing import Any

import click

from fable_exec.cli.exits import Exit
from fable_exec.cli.showing import print_array, print_text, say
from fable_exec.cli.supervise.options import AS_JSON, ROOT, door, seconds
from fable_exec.cli.supervise.printing import print_table
from fable_exec.supervisor import Supervisor

__all__ = ["prune", "recover"]


@click.command("recover", short_help="Record the end of those whose keeper died.")
@ROOT
@AS_JSON
def recover(root: str | None, as_json: bool) -> int:
    """Record the end of executions whose keeper died: keeper_lost, or host_rebooted. Nothing is started again.

    What it did is printed, a row for each; with --json an array. Doing it again does nothing.

    Exit status: 1 when something could not be done; its row says why.
    """

    def act() -> int:
        with Supervisor(root) as supervisor:
            recovered = [each.to_members() for each in supervisor.recover()]
        if as_json:
            print_array(recovered)
        elif recovered:
            rows = [[each["execution_id"], each["found"], each["done"], each["termination_reason"] or "-"] for each in recovered]
            print_table(("execution", "found", "done", "reason"), rows)
        else:
            say("nothing to recover")
        for each in recovered:
            if each["text"]:
                say(f"{each['execution_id']}: {each['text']}")
        return Exit.FAILED if any(each["text"] for each in recovered) else Exit.OK

    return door(act, as_json)


@click.command("prune", short_help="Remove those that have ended, with their logs.")
@ROOT
@click.option(
    "--older-than", metavar="SECONDS", type=float, callback=seconds, help="Only what ended so long ago. [default: 604800, a week]"
)
@click.option("--keep", metavar="N", type=click.IntRange(min=0), help="All but the N that ended last. [default: 0]")
@AS_JSON
def prune(root: str | None, older_than: float | None, keep: int | None, as_json: bool) -> int:
    """Remove executions that have ended, with their logs; print their ids, with --json as an array."""

    given: dict[str, Any] = {"older_than_seconds": older_than, "keep": keep}

    def act() -> int:
        with Supervisor(root) as supervisor:
            removed = supervisor.prune(**{name: value for name, value in given.items() if value is not None})
        if as_json:
            print_array(removed)
        else:
            print_text("".join(f"{each}\n" for each in removed))
        return Exit.OK

    return door(act, as_json)
