"""What the proof of a supervised execution has to be, as it is asked for and handed to its keeper: values that go on the wire."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import attrs

from fable_exec.errors import InvalidRequest

__all__ = ["ProofTerms"]

_MAX_KEYS, _MAX_KEY_BYTES = 16, 1 << 20


def _texts(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)):
        raise InvalidRequest("give a list of texts, not one text")
    return tuple(value)


def _absolute(value: str | os.PathLike[str] | None) -> str | None:
    return None if value is None else os.path.realpath(value)


def _sorted_texts(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(_texts(value))))


@attrs.frozen(kw_only=True)
class ProofTerms:
    """What a proof needs beside what `proofbind.bind` always asks of one.

    Args:
        required: words of `proofbind.Axis` that must pass as well; "signature" where an unsigned proof is none. Leave "diff" out
            where the workspace is no git working tree.
        gpg_keys: armoured public keys whose signatures count.
        jwks: a JSON Web Key Set whose tokens count; "" for none.
        profile: which digest of the tree the proof names, a word of `treedigest.Profile`.
        signing_key: the file of a private key (PEM, mode 0600) that the keeper attests a bound execution with, out of the job's
            reach; None for no attestation. Needs the extra `sign`.

    Raises:
        InvalidRequest: a key is too long, or there are too many. What the words mean is checked by the supervisor.
    """

    required: tuple[str, ...] = attrs.field(default=("diff",), converter=_sorted_texts)
    gpg_keys: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    jwks: str = ""
    profile: str = "loki-v3"
    signing_key: str | None = attrs.field(default=None, converter=_absolute)

    def __attrs_post_init__(self) -> None:
        if len(self.gpg_keys) > _MAX_KEYS or any(len(text) > _MAX_KEY_BYTES for text in (*self.gpg_keys, self.jwks)):
            raise InvalidRequest(f"proof keys may be {_MAX_KEYS}, of {_MAX_KEY_BYTES} characters each")

    def to_wire(self) -> dict[str, Any]:
        """As plain JSON."""
        return attrs.asdict(self)
