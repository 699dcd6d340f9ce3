"""`fable-exec supervise`: jobs that outlive the terminal that started them."""

from __future__ import annotations

import click

from fable_exec.cli.supervise.ending import stop, wait
from fable_exec.cli.supervise.looking import list_all, logs, show
from fable_exec.cli.supervise.start import start
from fable_exec.cli.supervise.tending import prune, recover

__all__ = ["command"]


@click.group("supervise", short_help="Start jobs that outlive this terminal; list, stop and read them.")
def command() -> None:
    """Keep long jobs: each is started once, can be stopped from anywhere, and its end is recorded once, with the reason.

    \b
    Exit status, unless a sub-command says more:
      0  done        1  it failed       2  wrong usage
      3  conflict    4  no such execution
      5  whose it is, or how it fares, cannot be verified
    """


for each in (start, list_all, show, logs, stop, wait, recover, prune):
    command.add_command(each)
