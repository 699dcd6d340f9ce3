"""The commands by name, loaded when they are asked for, and the way from the last exception to an exit status."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

from fable_exec import __version__
from fable_exec.cli.exits import Exit
from fable_exec.cli.showing import keep_standard_descriptors

__all__ = ["COMMANDS", "PROGRAM", "main"]

PROGRAM = "fable-exec"
COMMANDS = ("run", "serve", "probe", "doctor", "policy", "audit")
"""Each is the attribute `command` of the module of its name with `_command`."""


class _Commands(click.Group):
    """Loads only the command that is used: starting one costs what that one needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"fable_exec.cli.{cmd_name}_command").command
        return command


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Data goes to standard output, notes for people to standard error.  NO_COLOR, FORCE_COLOR and TERM=dumb are honoured.",
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def commands() -> None:
    """Run commands and change files inside one workspace, under one policy."""


def main(arguments: Sequence[str]) -> int:
    """Do what `arguments` say; returns the exit status (docs/reference/cli.md)."""
    keep_standard_descriptors()
    try:
        status = commands.main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    return status if isinstance(status, int) else Exit.OK
