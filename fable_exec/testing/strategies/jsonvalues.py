"""JSON values: any that a parser may give out, and those that strict JSON has."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fable_exec.protocol import ACTIONS

__all__ = ["json_values", "strict_json_texts", "strict_json_values"]

_MAX_LEAVES = 12


def json_values() -> st.SearchStrategy[Any]:
    """What `json.loads` gives out: NaN, lone surrogates and numbers of any length among it."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.sampled_from(sorted(ACTIONS)),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
        max_leaves=6,
    )


def strict_json_texts() -> st.SearchStrategy[str]:
    """Texts of whole characters."""
    return st.text(st.characters(exclude_categories=["Cs"]))


def strict_json_values() -> st.SearchStrategy[Any]:
    """What fable_exec.strictjson reads: finite numbers of 20 digits at most, texts of whole characters."""
    whole = st.integers(-(10**20) + 1, 10**20 - 1)
    scalars = st.none() | st.booleans() | whole | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        scalars | strict_json_texts(),
        lambda inner: st.lists(inner) | st.dictionaries(strict_json_texts(), inner),
        max_leaves=_MAX_LEAVES,
    )
