"""Requests of the line protocol, nearly right ones, and lines that are none."""

from __future__ import annotations

import json
from typing import Any

import attrs
from hypothesis import strategies as st

from fable_exec.protocol import ACTIONS
from fable_exec.testing.strategies.jsonvalues import json_values

__all__ = ["request_lines", "request_members"]

_MEMBER_NAMES = st.sampled_from(
    [
        "token",
        "id",
        "action",
        *sorted({field.name for request in ACTIONS.values() for field in attrs.fields(request)} | {"encoding"}),
    ]
)


def request_members() -> st.SearchStrategy[dict[str, Any]]:
    """The members of what is nearly a request: an action that there is, with members of any action and of any type."""
    return st.dictionaries(_MEMBER_NAMES, json_values(), max_size=5).flatmap(
        lambda members: st.sampled_from(sorted(ACTIONS)).map(lambda action: {**members, "action": action})
    )


def request_lines() -> st.SearchStrategy[bytes]:
    """Lines without their newline: such requests, other JSON, and bytes that are none."""
    written = (request_members() | json_values()).map(lambda value: json.dumps(value).encode())
    return st.one_of(written, st.binary(max_size=80).filter(lambda line: b"\n" not in line))
