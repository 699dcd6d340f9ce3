"""`fable-exec supervise list`, `show` and `logs`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from fable_exec.cli.exits import Exit, SuperviseExit
from fable_exec.cli.outlets import Outlet, exit_when_gone
from fable_exec.cli.showing import print_array, say
from fable_exec.cli.supervise.options import AS_JSON, ID, ROOT, door, found_in
from fable_exec.cli.supervise.printing import print_table, show_execution
from fable_exec.cli.supervise.words import COLUMNS, row, style_of
from fable_exec.errors import StateUnreadable
from fable_exec.supervisor import Supervisor, UnreadableExecution

__all__ = ["list_all", "logs", "show"]


@click.command("list", short_help="List all, the newest last.")
@ROOT
@AS_JSON
def list_all(root: str | None, as_json: bool) -> int:
    """List all executions, the newest last, then those that cannot be read. With --json an array of their states."""

    def act() -> int:
        with Supervisor(root) as supervisor:
            found = sorted((each.to_members() for each in supervisor.list()), key=_in_order)
        if as_json:
            print_array(found)
        elif found:
            now = datetime.now(UTC)
            print_table(COLUMNS, [row(members, now) for members in found], [style_of(members) for members in found])
        else:
            say(f"no executions in {supervisor.root}")
        return Exit.OK

    return door(act, as_json)


def _in_order(members: Mapping[str, Any]) -> tuple[bool, str]:
    """By when they were accepted; what cannot be read is last, beside the prompt."""
    return members["health"] == "unreadable", members.get("accepted_at") or ""


@click.command("show", short_help="Show all of one: how it fares, why it ended, where its logs are.")
@ROOT
@AS_JSON
@ID
def show(root: str | None, as_json: bool, execution_id: str) -> int:
    """Show all of one execution: how it fares, why it ended, where its logs are, what was proved.

    Exit status: 5 for one whose state cannot be believed; what is wrong with it is shown.
    """

    def act() -> int:
        with Supervisor(root) as supervisor:
            try:
                show_execution(found_in(supervisor, execution_id), as_json)
            except StateUnreadable as error:
                show_execution(UnreadableExecution(directory=supervisor.root / execution_id, error=error), as_json, briefly=True)
                return SuperviseExit.UNVERIFIED
        return Exit.OK

    return door(act, as_json)


@click.command("logs", short_help="Print the output of a job, or follow it.")
@ROOT
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@ID
def logs(root: str | None, follow: bool, execution_id: str) -> int:
    """Print the output of a job, both streams as they came, byte for byte."""

    def act() -> int:
        outlet = Outlet(1)
        if follow:
            exit_when_gone(1, Exit.PIPE_CLOSED)
        with Supervisor(root) as supervisor:
            for piece in supervisor.logs(execution_id, follow=follow):
                outlet.write(piece)
            dropped = found_in(supervisor, execution_id).document["output_dropped_bytes"]
        if dropped:
            say(f"{dropped} bytes more were dropped")
        return Exit.OK

    return door(act, False)
