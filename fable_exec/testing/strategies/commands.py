"""Argument vectors and environments that a program must get exactly as they were given."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

__all__ = ["arguments", "environments"]

_AWKWARD = st.sampled_from(
    ["", " ", "-", "--", "-rf", "*", "~", "$HOME", "$(id)", "`id`", "a b", "'", '"', "\\", "\n", "a\nb", "&&", "|", ";", ">x",
     "%s", "é", "漢字", "e\u0301", "\u202e", "\x1b[31m", "=", "A=B", "@file", "x" * 1000]
)  # fmt: skip
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def arguments(*, most: int = 6) -> st.SearchStrategy[list[str]]:
    """Arguments, up to `most`, without the program: what a shell would take apart, empty ones, long ones, other scripts.

    Each can be encoded as UTF-8 and holds no NUL, so that every system can hand it over.
    """
    awkward = st.lists(_AWKWARD, min_size=min(3, most), max_size=most, unique=True)
    return awkward | st.lists(_AWKWARD | _TEXTS, max_size=most)


def environments(names: Sequence[str], *, most: int = 4) -> st.SearchStrategy[dict[str, str]]:
    """Variables of some of `names`, up to `most`, with values that a shell or a line-based reader would take apart."""
    return st.dictionaries(st.sampled_from(names), _AWKWARD | _TEXTS, max_size=most)
