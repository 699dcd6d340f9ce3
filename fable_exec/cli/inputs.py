"""What several commands take alike: `--json`, digests, and files that are named on the command line."""

from __future__ import annotations

import os

import click

from fable_exec.cli.showing import one_line
from fable_exec.sha256text import sha256_given

__all__ = ["AS_JSON", "MAX_KEY_BYTES", "contents", "one_digest"]

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one object.")
MAX_KEY_BYTES = 1 << 20
"""Of a file with keys: more than key rings of one embedder have."""


def one_digest(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """A SHA-256, or None."""
    digest = None if given is None else sha256_given(given)
    if given is not None and digest is None:
        raise click.BadParameter("give 64 hexadecimal digits")
    return digest


def contents(path: str, max_bytes: int) -> bytes:
    """What the file holds; of a longer one a byte more than `max_bytes`, so that whoever reads it can tell.

    Raises:
        click.BadParameter: it cannot be read.
    """
    try:
        with open(path, "rb", opener=_opened_at_once) as file:
            return file.read(max_bytes + 1)
    except OSError as error:
        raise click.BadParameter(one_line(f"{path}: {error.strerror}")) from error


def _opened_at_once(path: str, flags: int) -> int:
    """A job may have put a FIFO there; one that nobody writes to is empty then, and the one of a shell's <(command) is read."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    os.set_blocking(descriptor, True)
    return descriptor
