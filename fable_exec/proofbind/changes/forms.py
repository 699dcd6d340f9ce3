"""What an object of git is: its kinds, its name, how long it may be; and what is told of one that is not so."""

from __future__ import annotations

import hashlib

from fable_exec.proofbind.changes.values import CannotTell

__all__ = ["KINDS", "MAX_OBJECT_BYTES", "damaged", "object_head", "object_id", "too_large"]

KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
"""By the number that stands in packs."""
MAX_OBJECT_BYTES = 64 << 20
"""A longer object is not read; nor is a longer file compared line by line."""


def object_head(kind: str, size: int) -> bytes:
    """What stands before the content of an object, in its file and in what its id is the digest of."""
    return b"%s %d\0" % (kind.encode(), size)


def object_id(kind: str, data: bytes, hash_kind: str) -> str:
    """The name that git gives `data` as an object of `kind`, by the hash function `hash_kind`: `sha1` or `sha256`."""
    digest = hashlib.new(hash_kind, object_head(kind, len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def damaged(what: str) -> CannotTell:
    """`objects-damaged`, for the reason `what`."""
    return CannotTell("objects-damaged", f"the object store of the repository is damaged: {what}")


def too_large(oid: str) -> CannotTell:
    """`too-large`, of one object."""
    return CannotTell("too-large", f"object {oid} is longer than {MAX_OBJECT_BYTES} bytes")
