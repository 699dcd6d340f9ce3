"""Writing lines: one JSON document, one newline, valid UTF-8."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.frames import encode_frame


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"a": 1, "b": [True, None]}, b'{"a":1,"b":[true,null]}\n'),
        ({"text": "two\nlines"}, b'{"text":"two\\nlines"}\n'),
        ({"text": "漢"}, '{"text":"漢"}\n'.encode()),
        ({"text": "\udcff漢"}, b'{"text":"\\udcff\\u6f22"}\n'),
        ({"text": "\u2028\x00"}, '{"text":"\u2028\\u0000"}\n'.encode()),
    ],
)
def test_a_value_becomes_one_line(value: Any, line: bytes) -> None:
    assert encode_frame(value) == line


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
def test_what_is_no_json_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_frame(value)


@pytest.mark.fuzz
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(st.characters()), st.lists, max_leaves=8))
def test_every_line_holds_one_newline_and_reads_back(value: Any) -> None:
    line = encode_frame(value)
    assert line.count(b"\n") == 1
    line.decode()
    assert json.loads(line) == value
