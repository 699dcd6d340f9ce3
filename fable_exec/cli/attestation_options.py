"""What `attest` and `verify-attestation` have in common: digests and files by name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import click

from fable_exec.cli.showing import one_line

__all__ = ["ARTIFACTS", "digests", "named"]


def named(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> Mapping[str, str]:
    """NAME=VALUE, repeated. A name that is given twice would have two values, of which one counts."""
    pairs = [text.partition("=")[::2] for text in given]
    found: dict[str, str] = {}
    for text, (name, value) in zip(given, pairs, strict=True):
        if not name or not value:
            raise click.BadParameter(f'"{one_line(text)}" is not NAME=VALUE')
        if name in found:
            raise click.BadParameter(f'"{one_line(name)}" is given twice')
        found[name] = value
    return found


ARTIFACTS = click.option("--artifact", "artifacts", metavar="NAME=FILE", multiple=True, callback=named, help="A file besides.")


def digests(files: Mapping[str, str]) -> dict[str, str]:
    """The SHA-256 of each file, by its name. Raises OSError."""
    found = {}
    for name, path in files.items():
        with open(path, "rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
