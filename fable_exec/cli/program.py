"""The commands by name, loaded when they are asked for, and the way from the last exception to an exit status."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from contextlib import suppress

import click

from fable_exec import __version__
from fable_exec._sys.inherited import take_standard_streams
from fable_exec.cli.exits import Exit

__all__ = ["COMMANDS", "PROGRAM", "main"]

PROGRAM = "fable-exec"
COMMANDS = (
    "run",
    "deadline",
    "supervise",
    "serve",
    "mcp",
    "probe",
    "doctor",
    "policy",
    "seatbelt",
    "boundary",
    "audit",
    "digest",
    "proof",
    "attest",
    "verify-attestation",
)
"""Each is the attribute `command` of the module of its name, with `_` for `-`, and `_command`."""


class _Commands(click.Group):
    """Loads only the command that is used: starting one costs what that one needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"fable_exec.cli.{cmd_name.replace('-', '_')}_command").command
        return command


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Data goes to standard output, notes for people to standard error.  NO_COLOR, FORCE_COLOR and TERM=dumb are honoured.",
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def commands() -> None:
    """Run commands and change files inside one workspace, under one policy."""


_NEVER_GUESSED = frozenset({"--unlocked", "--allow", "--allow-executable"})
"""A guess at a misspelt option must not be one that lets a command do more."""


def _with_what_to_do(error: click.NoSuchOption, arguments: Sequence[str]) -> click.NoSuchOption:
    """`error` without dangerous guesses, and with the place of an option that stands before the command it belongs to."""
    guesses = [each for each in error.possibilities or () if each not in _NEVER_GUESSED]
    name, context = error.option_name, error.ctx
    group = None if context is None else context.command
    if context is not None and isinstance(group, click.Group):
        meant = next((word for word in arguments if word in group.list_commands(context)), None)
        example = f"; it may belong after it: {context.command_path} {meant} {name}" if meant else ""
        message = f"No such option {name!r} before the command{example}."
        return click.NoSuchOption(name, message, None if meant else guesses, context)
    return click.NoSuchOption(name, None, guesses, context)


def _complained(error: click.ClickException) -> int:
    from fable_exec.cli.outlets import OutletGone
    from fable_exec.cli.showing import tell

    words = io.StringIO()
    error.show(words)
    with suppress(OSError, OutletGone):  # nobody listens
        tell(words.getvalue())
    return error.exit_code


def main(arguments: Sequence[str]) -> int:
    """Do what `arguments` say; returns the exit status (docs/reference/cli.md)."""
    take_standard_streams()
    try:
        status = commands.main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except click.NoSuchOption as error:
        return _complained(_with_what_to_do(error, arguments))
    except click.ClickException as error:
        return _complained(error)
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    return status if isinstance(status, int) else Exit.OK
