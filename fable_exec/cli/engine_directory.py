"""The option that names the run's own directory."""

from __future__ import annotations

import click

from fable_exec.treedigest.values import is_one_name

__all__ = ["one_name"]


def one_name(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """The name of one directory at the top of a workspace, or None."""
    if given is not None and not is_one_name(given):
        raise click.BadParameter("give the name of one directory at the top of the workspace")
    return given
