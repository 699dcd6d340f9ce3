"""`fable-exec serve`, for the list of commands. The console entry has gone to the server before it comes here."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command(
    "serve",
    short_help="Serve a broker over JSON lines.",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def command(flags: tuple[str, ...]) -> int:
    """Serve one broker over JSON lines on standard input and output; `serve --help` lists its flags."""
    from fable_exec.server import main as serve

    return serve(flags, program="fable-exec serve")
