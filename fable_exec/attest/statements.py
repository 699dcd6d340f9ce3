"""in-toto Statements, version 1: what is claimed about which bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs

from fable_exec.attest.canonical import canonical_bytes
from fable_exec.errors import InvalidRequest, StateUnreadable
from fable_exec.sha256text import is_sha256
from fable_exec.strictjson import JsonFault, parse_strict

__all__ = [
    "PAYLOAD_TYPE",
    "PREDICATE_TYPE",
    "PROOF_SUBJECT",
    "STATEMENT_TYPE",
    "TREE_SUBJECT",
    "Statement",
    "Subject",
]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://fable-exec.invalid/attestations/workspace-proof/v1"
TREE_SUBJECT = "workspace.treedigest.json"
"""The manifest of the tree, whose SHA-256 as a file is the tree's digest."""
PROOF_SUBJECT = "proof.json"
_ALGORITHM = "sha256"


@attrs.frozen
class Subject:
    """Something that a statement is about."""

    name: str
    sha256: str = ""
    """"" when it is named by other digests alone, which count for nothing here."""


@attrs.frozen
class Statement:
    """What is claimed."""

    subjects: tuple[Subject, ...]
    predicate_type: str
    predicate: Mapping[str, Any] = attrs.field(repr=False)

    def to_json(self) -> bytes:
        """The statement in canonical JSON.

        Raises:
            InvalidRequest: a subject has no SHA-256 or no name of its own, or the predicate holds what cannot be written.
        """
        names = [each.name for each in self.subjects]
        if not names or len(set(names)) != len(names) or not all(names):
            raise InvalidRequest("a statement has subjects, each with a name of its own")
        for each in self.subjects:
            if not is_sha256(each.sha256):
                raise InvalidRequest(f"the digest of {each.name!a:.80} is no SHA-256 of 64 lower-case hexadecimal digits")
        subjects = [{"digest": {_ALGORITHM: each.sha256}, "name": each.name} for each in self.subjects]
        return canonical_bytes(
            {
                "_type": STATEMENT_TYPE,
                "predicate": dict(self.predicate),
                "predicateType": self.predicate_type,
                "subject": subjects,
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """The statement that somebody wrote. Members that are not known are ignored, as the specification says.

        Raises:
            StateUnreadable: it is `torn` (no strict JSON) or `foreign` (no statement of version 1).
        """
        try:
            found = parse_strict(data)
        except JsonFault as fault:
            raise _unreadable("torn", str(fault)) from fault
        if not isinstance(found, dict):
            raise _unreadable("foreign", "it is no object")
        if found.get("_type") != STATEMENT_TYPE:
            raise _unreadable("foreign", "its _type is not that of version 1")
        kind, rows, predicate = found.get("predicateType"), found.get("subject"), found.get("predicate", {})
        if not isinstance(kind, str) or not isinstance(predicate, dict) or not isinstance(rows, list):
            raise _unreadable("foreign", "its predicateType, predicate or subject is not of its form")
        return cls(tuple(_subject(row) for row in rows), kind, predicate)


def _subject(row: Any) -> Subject:
    digests = row.get("digest") if isinstance(row, dict) else None
    if not isinstance(digests, dict) or not isinstance(row.get("name", ""), str):
        raise _unreadable("foreign", "a subject is not of its form")
    sha256 = digests.get(_ALGORITHM, "")
    if sha256 != "" and not is_sha256(sha256):
        raise _unreadable("foreign", "the SHA-256 of a subject is none")
    return Subject(row.get("name", ""), sha256)


def _unreadable(reason: str, what: str) -> StateUnreadable:
    return StateUnreadable(f"a statement ({reason}): {what}", reason=reason)
