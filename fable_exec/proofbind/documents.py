"""A proof document as it was read: its members, and the bytes that its hash is about. Pure.

What cannot be read is an answer of the axis DOCUMENT, never an exception. What the members mean is for those who judge them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import attrs

from fable_exec.proofbind.axes import Axis, AxisResult, failed, unchecked
from fable_exec.proofbind.canonical import canonical_bytes
from fable_exec.proofbind.facts import Facts, MalformedFacts, read_facts
from fable_exec.strictjson import JsonFault, parse_strict, require_strict

__all__ = ["ProofDocument", "member", "parse_document"]


@attrs.frozen(slots=False)
class ProofDocument:
    """One JSON object that is strict. Its members stand in it as they came, so each reader looks at their types."""

    members: Mapping[str, Any] = attrs.field(repr=False)

    @functools.cached_property
    def canonical(self) -> bytes:
        """What is hashed and signed: all of it but the member `verification`."""
        return canonical_bytes({name: value for name, value in self.members.items() if name != "verification"})

    @functools.cached_property
    def canonical_sha256(self) -> str:
        """The digest that it should carry."""
        return hashlib.sha256(self.canonical).hexdigest()

    @property
    def verification(self) -> Mapping[str, Any]:
        """The block that the hash does not cover; empty where it is no object."""
        return member(self.members, "verification")

    @property
    def honesty(self) -> Mapping[str, Any]:
        """Headline and gaps; empty where it is no object."""
        return member(self.members, "honesty")

    @property
    def run_id(self) -> str:
        """The run that it says it is of; "" where it does not say."""
        said = self.members.get("run_id")
        return said if isinstance(said, str) else ""

    def facts_for(self, axis: Axis) -> Facts | AxisResult:
        """What it says happened, or the answer of `axis` where that is nothing, or cannot be understood."""
        facts, fault = self._facts
        if fault:
            return unchecked(axis, "facts-malformed", f"the facts cannot be understood: {fault}")
        return facts or unchecked(axis, "no-facts", "the document has no object of facts")

    @functools.cached_property
    def _facts(self) -> tuple[Facts | None, str]:
        try:
            return read_facts(self.members.get("facts")), ""
        except MalformedFacts as fault:
            return None, str(fault)


def member(mapping: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object that stands there, or an empty one."""
    value = mapping.get(name)
    return value if isinstance(value, dict) else {}


def parse_document(source: bytes | Mapping[str, Any]) -> ProofDocument | AxisResult:
    """The document in `source`, or the answer of the axis DOCUMENT that says why there is none.

    Args:
        source: the bytes of a file, or the value that somebody else has read from it. That is kept, not copied.
    """
    try:
        members: Any = parse_strict(source) if isinstance(source, bytes) else source
        if members is source:
            require_strict(members)
    except JsonFault as fault:
        return failed(Axis.DOCUMENT, fault.code, f"the document is no strict JSON: {fault}")
    if not isinstance(members, dict):
        return failed(Axis.DOCUMENT, "not-an-object", f"the document is a {type(members).__name__}, not an object")
    return ProofDocument(members)
