"""The canonical bytes: written a second time here, by the rules as they are stated."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from fable_exec.proofbind import ProofDocument, canonical_bytes, parse_document
from fable_exec.proofbind.canonical import canonical_sha256
from fable_exec.testing.strategies.jsonvalues import strict_json_texts, strict_json_values
from tests.proofbind.receipts import VALID

SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def formulated(value: Any) -> str:
    """JSON sorted by code points, without white space, in ASCII, with floats as Python writes them."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case int() | float():
            return repr(value)
        case str():
            return f'"{"".join(escaped(character) for character in value)}"'
        case list():
            return f"[{','.join(formulated(each) for each in value)}]"
    names = sorted(value, key=lambda name: [ord(character) for character in name])
    return f"{{{','.join(f'{formulated(name)}:{formulated(value[name])}' for name in names)}}}"


def escaped(character: str) -> str:
    if character in SHORT:
        return SHORT[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


@pytest.mark.fuzz
@hypothesis.given(strict_json_values())
def test_the_bytes_are_those_of_the_rules(value: Any) -> None:
    assert canonical_bytes(value).decode("ascii") == formulated(value)
    assert canonical_sha256(value) == hashlib.sha256(formulated(value).encode()).hexdigest()


@hypothesis.given(st.dictionaries(strict_json_texts(), strict_json_values(), max_size=3))
def test_neither_order_nor_white_space_nor_escapes_of_a_file_matter(members: dict[str, Any]) -> None:
    turned = dict(reversed(members.items()))
    for raw in (json.dumps(members), json.dumps(turned, indent=3, ensure_ascii=False)):
        document = parse_document(raw.encode())
        assert isinstance(document, ProofDocument)
        assert document.canonical == canonical_bytes({name: members[name] for name in members if name != "verification"})


@hypothesis.given(st.data())
def test_any_one_member_changed_changes_the_digest(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in VALID if name != "verification"]))
    other = data.draw(strict_json_values().filter(lambda value: formulated(value) != formulated(VALID[name])))
    assert ProofDocument({**VALID, name: other}).canonical_sha256 != ProofDocument(VALID).canonical_sha256


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1e16, 1e21, 1e-07, -0.0, 1.0, 5e-324], "[1e+16,1e+21,1e-07,-0.0,1.0,5e-324]"),
        ([2**53 + 1, 10**19], "[9007199254740993,10000000000000000000]"),
        ({"\ue000": 1, "\U0001f600": 2, "\u20ac": 3}, '{"\\u20ac":3,"\\ue000":1,"\\ud83d\\ude00":2}'),
        ("\x7f/", '"\\u007f/"'),
    ],
)
def test_where_it_is_not_rfc_8785_it_is_as_generators_write_it(value: Any, text: str) -> None:
    assert canonical_bytes(value).decode() == text
