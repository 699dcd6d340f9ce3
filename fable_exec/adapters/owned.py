"""What a framework's sandbox owns: a directory, and a broker over it whose writes are unlocked.

The directory is made for one sandbox and goes with it, so whoever makes it is its administrator. The policy is a document without
the two fields that are the sandbox's own.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fable_exec._launcher.removal import remove_tree
from fable_exec.broker import AsyncExecutionBroker
from fable_exec.errors import PolicyError
from fable_exec.policy import BrokerPolicy, read_document

__all__ = ["overlaid", "owned_document", "remove_directory", "unlocked_broker"]

_OWN_FIELDS = ("workspace", "write_token_digest")


def owned_document(given: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """The policy document that a user gave, as a mapping or by the path of a TOML or JSON file.

    Raises:
        PolicyError: it cannot be read, or names a field that is the sandbox's own.
    """
    document = {} if given is None else dict(given) if isinstance(given, Mapping) else read_document(given)
    own = [name for name in _OWN_FIELDS if name in document]
    if own:
        raise PolicyError.of([(name, "each sandbox has its own; leave it out") for name in own])
    return document


def overlaid(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`defaults` with what was given in its place, table by table; a null means the default here too."""
    document = dict(defaults)
    for name, value in given.items():
        default = defaults.get(name)
        if isinstance(default, Mapping) and isinstance(value, Mapping):
            document[name] = overlaid(default, value)
        elif value is not None or name not in defaults:
            document[name] = value
    return document


async def unlocked_broker(document: Mapping[str, Any], workspace: str) -> AsyncExecutionBroker:
    """A broker over `workspace` with writes unlocked. Nobody else has its token. Raises PolicyError for a faulty document."""
    token = secrets.token_hex(16)
    own = {"workspace": os.path.realpath(workspace), "write_token_digest": hashlib.sha256(token.encode()).hexdigest()}
    broker = AsyncExecutionBroker(BrokerPolicy.from_mapping({**document, **own}))
    try:
        await broker.unlock_writes(token)
    except BaseException:
        await broker.close()
        raise
    return broker


def remove_directory(path: str) -> None:
    """Remove it with all that commands put there, also where they took the rights to it away; through no link."""
    remove_tree(path)
