"""`fable-exec boundary`: whether a host boundary is valid, what it is called, and whether this host holds it."""

from __future__ import annotations

import click

from fable_exec.cli.exits import Exit, of_failure
from fable_exec.cli.inputs import AS_JSON
from fable_exec.cli.showing import at_the_door, print_object, print_text, say
from fable_exec.errors import BoundaryUnproved
from fable_exec.seatbelt import HostBoundary

__all__ = ["command"]


@click.group("boundary")
def command() -> None:
    """Check host boundaries."""


@command.command("check")
@click.option(
    "--boundary", type=click.UNPROCESSED, metavar="PATH", help="A TOML file; without it the variables FABLE_EXEC_HOST_* are read."
)
@click.option("--workspace-root", type=click.UNPROCESSED, metavar="PATH", help="Which root to name where there are several.")
@click.option("--probe", is_flag=True, help="Run the smoke program inside it.")
@AS_JSON
def check(boundary: str | None, workspace_root: str | None, probe: bool, as_json: bool) -> int:
    """List every fault of a boundary, or print its identity.

    --probe shows that this host holds it, and prints probe_sha256. It needs a reserved port that is free, takes up to 15 s, and
    makes what it needs in the first root.

    \b
    Exit status:
      0   valid, and it holds as far as it was tried
      1   it cannot be tried or held here       2  it has faults
      40  the smoke program could not do what it must
      41  it read a file of a sibling workspace
      42  it connected to a Unix socket of the host
      43  it could bind a reserved port
    """

    def act() -> int:
        found = HostBoundary.from_env() if boundary is None else HostBoundary.from_toml(boundary)
        root = workspace_root or found.workspace_roots[0]
        identity: dict[str, object] = dict(found.identity(root))
        if probe:
            from fable_exec.bounded import smoke_probe  # what runs programs, for those who ask for it

            identity["probe_sha256"] = smoke_probe(found).probe_sha256
        if as_json:
            print_object({"ok": True, **identity})
        else:
            print_text("".join(f"{name} = {value}\n" for name, value in identity.items()))
            say("valid, and it holds here" if probe else "valid")
        return Exit.OK

    return at_the_door(act, as_json=as_json, status_of=_status_of)


def _status_of(error: Exception) -> int:
    found_out = error.finding if isinstance(error, BoundaryUnproved) else 0
    return found_out or of_failure(error)
