"""What the sub-commands of `supervise` have in common: options, how an execution is found, and the way to an exit status."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import click

from fable_exec.cli.exits import of_supervise_failure
from fable_exec.cli.showing import at_the_door
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.names import canonical_id
from fable_exec.outcome import display_text
from fable_exec.supervisor import Execution, Supervisor
from fable_exec.supervisor.execution import required

__all__ = ["AS_JSON", "ID", "ROOT", "canonical", "door", "found_in", "pairs", "seconds"]


def canonical(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """The one spelling of an id."""
    try:
        return None if given is None else canonical_id(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def pairs(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> Mapping[str, str]:
    """NAME=VALUE, repeated; the last of a name wins."""
    for text in given:
        if "=" not in text:
            raise click.BadParameter(f'"{display_text(text)}" is not NAME=VALUE')
    return {name: value for name, _, value in (text.partition("=") for text in given)}


def seconds(_: click.Context, __: click.Parameter, given: float | None) -> float | None:
    """A time to wait, or to look back."""
    if given is not None and not (math.isfinite(given) and given >= 0):
        raise click.BadParameter(f"{given:g} must be a finite number of seconds, 0 or more")
    return given


ROOT = click.option("--root", metavar="DIRECTORY", help="All executions. [default: FABLE_EXEC_STATE_DIR, or the user's]")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
ID = click.argument("execution_id", metavar="ID", callback=canonical)


def door(act: Callable[[], int], as_json: bool) -> int:
    """Run `act` for its exit status, at the door of `supervise`."""
    return at_the_door(act, as_json=as_json, status_of=of_supervise_failure)


def found_in(supervisor: Supervisor, execution_id: str) -> Execution:
    """The execution of that id. Raises UnknownExecution, StateUnreadable."""
    return required(ExecutionDirectory.of(supervisor.root, execution_id))
