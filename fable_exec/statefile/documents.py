"""The bytes of a state document, and what makes bytes no document of ours. Pure.

A document is one JSON object: ASCII, members sorted, two spaces a level, a newline at the end. It names its schema and what it is
the state of, so that a file from elsewhere is not taken for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NoReturn

import attrs

from fable_exec.errors import StateUnreadable
from fable_exec.strictjson import is_deeper

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "BadDocument",
    "Form",
    "TooLong",
    "Unreadable",
    "decode_document",
    "encode_document",
    "encode_json",
    "parse_object",
    "unreadable",
]

MAX_DOCUMENT_BYTES = 1024 * 1024
_MAX_DEPTH = 64
_TOO_DEEP = f"it is nested more than {_MAX_DEPTH} levels deep"

_LONGEST_SHOWN = 400
_NESTING = (dict, list, tuple)


class Unreadable(Enum):
    """Why a durable record cannot be believed; the value is the word that a StateUnreadable carries."""

    TORN = "torn"
    """Not whole: cut, empty, or with NUL bytes where a power cut kept the size and not the content."""
    FOREIGN = "foreign"
    """Whole, and of something else: another schema, another execution, no object, a member named twice."""
    NEWER = "newer"
    """Written by a newer version of this library."""
    NOT_PRIVATE = "not-private"
    """A file or directory that another could have put there or changed."""
    MISSING = "missing"
    """The terminal record tells how it ended, and what ended is not there."""


class BadDocument(ValueError):
    """The bytes are none of ours. `reason` says why in one word, the text in a sentence."""

    def __init__(self, reason: Unreadable, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class TooLong(BadDocument):
    """A document of more than MAX_DOCUMENT_BYTES."""

    def __init__(self) -> None:
        super().__init__(Unreadable.FOREIGN, f"it is longer than {MAX_DOCUMENT_BYTES} bytes")


def _copied(members: Mapping[str, str]) -> dict[str, str]:
    return dict(members)


@attrs.frozen
class Form:
    """What all documents of one state file have in common: their schema, and the members that say what they are the state of."""

    schema_version: int
    identity: Mapping[str, str] = attrs.field(converter=_copied)

    @property
    def members(self) -> dict[str, Any]:
        return {"schema_version": self.schema_version, **self.identity}

    def require(self, document: Mapping[str, Any]) -> None:
        """Raise BadDocument unless `document` is of this form."""
        version = document.get("schema_version")
        if type(version) is int and version > self.schema_version:
            raise BadDocument(
                Unreadable.NEWER, f"its schema {version} is newer than {self.schema_version}, which this library knows"
            )
        for name, value in self.members.items():
            if type(document.get(name)) is not type(value) or document[name] != value:
                raise BadDocument(Unreadable.FOREIGN, f"its {name} is {document.get(name)!a:.80}, not {value!a:.80}")


def unreadable(path: str, fault: BadDocument, outcome: Mapping[str, Any] | None = None) -> StateUnreadable:
    """The error that tells of a fault at `path`, and what is known of the outcome all the same."""
    words = f"{ascii(path)[:_LONGEST_SHOWN]} cannot be believed ({fault.reason.value}): {fault}; it was left as it is"
    return StateUnreadable(words, reason=fault.reason.value, path=path, outcome=outcome)


def encode_document(document: Mapping[str, Any], form: Form) -> bytes:
    """The bytes of `document`.

    Raises:
        ValueError: it could not be read back: no JSON, too large, or not of this form.
    """
    raw = encode_json(document, indent=2)
    decode_document(raw, form)
    return raw


def encode_json(members: Mapping[str, Any], indent: int | None = None) -> bytes:
    """The bytes of a JSON object, sorted and in ASCII, a newline at the end; close together without `indent`.

    Raises:
        ValueError: it is no JSON, as a path, NaN or a member whose name is no text, at any depth; or nested too deep.
    """
    try:
        _require_text_names(dict(members), 1)
        text = json.dumps(
            dict(members),
            sort_keys=True,
            indent=indent,
            separators=None if indent else (",", ":"),
            ensure_ascii=True,
            allow_nan=False,
        )
    except TypeError as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from None
    return text.encode("ascii") + b"\n"


def _require_text_names(value: Any, level: int) -> None:
    """Raise where json would make text of a name, and where it would go deeper than a reader does, or for ever."""
    if level > _MAX_DEPTH:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"the name {name!a:.80} is no text")
        value = value.values()
    for inner in value:
        if isinstance(inner, _NESTING):
            _require_text_names(inner, level + 1)


def decode_document(raw: bytes, form: Form) -> dict[str, Any]:
    """The document in `raw`. Raises BadDocument."""
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise TooLong
    if b"\0" in raw:
        raise BadDocument(Unreadable.TORN, "it holds NUL bytes, as after a power cut")
    if not raw.endswith(b"\n"):
        raise BadDocument(Unreadable.TORN, "it is empty" if not raw else "it does not end with a newline")
    document = parse_object(raw)
    form.require(document)
    return document


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object that `raw` is, and nothing that two readers could take for two things. Raises BadDocument."""
    if is_deeper(raw, _MAX_DEPTH):
        raise BadDocument(Unreadable.FOREIGN, _TOO_DEEP)
    try:
        document = _decode(raw.decode("ascii"))
    except BadDocument:
        raise
    except UnicodeDecodeError:
        raise BadDocument(Unreadable.FOREIGN, "it is not ASCII") from None
    except RecursionError:
        raise BadDocument(Unreadable.FOREIGN, _TOO_DEEP) from None
    except ValueError:
        raise BadDocument(Unreadable.TORN, "it is no whole JSON document") from None
    if not isinstance(document, dict):
        raise BadDocument(Unreadable.FOREIGN, "it is not a JSON object")
    return document


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise BadDocument(Unreadable.FOREIGN, "it names a member twice")
    return members


def _refuse_constant(word: str) -> NoReturn:
    raise BadDocument(Unreadable.FOREIGN, f"{word} is no JSON number")


_decode = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_refuse_constant).decode
"""Made once: json.loads would make another one each time."""
