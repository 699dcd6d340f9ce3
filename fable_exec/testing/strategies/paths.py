"""Texts that stand where a path is expected."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hypothesis import strategies as st

__all__ = ["any_paths", "honest_paths", "hostile_paths"]

_PIECES = st.sampled_from(
    ["..", ".", "", "/", "\\", ":", "~", " ", "\0", "\n", "a", "é", "e\u0301", "\u200c", "\udc80", "\ud800", "\uf03a", "con",
     "git~1", ".git", ".", "a" * 255, "漢" * 85, "\u2028", "\ufdd0", "*", "C:", "?"]
)  # fmt: skip
_NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "src", "main.py", "README", "x-y_z", "é", "漢字", "a b", ".hidden", "UPPER", "n" * 200]),
    st.from_regex(r"[a-z0-9]{1,12}(\.[a-z0-9]{1,4})?", fullmatch=True).filter(lambda name: not _is_a_device(name)),
)
_MOST_NAMES = 4


def any_paths() -> st.SearchStrategy[str]:
    """Any text, most of them made of what path code stumbles over. Nothing is promised of them."""
    return st.one_of(
        st.text(st.characters(exclude_categories=()), max_size=40),
        st.lists(_PIECES, max_size=12).map("".join),
        st.lists(_PIECES, max_size=12).map("/".join),
        st.binary(max_size=40).map(os.fsdecode),
    )


def honest_paths() -> st.SearchStrategy[str]:
    """Relative paths of names that every host and every profile takes: where nothing stands in the way, each can be written."""
    return st.lists(_NAMES, min_size=1, max_size=_MOST_NAMES).map("/".join)


def hostile_paths(
    links: Sequence[str] = (), outside: Sequence[str] = (), siblings: Sequence[str] = ("secret",)
) -> st.SearchStrategy[str]:
    """Paths that must be refused (PathDenied), to read and to write: up and out, absolute, with a NUL, through a link.

    Args:
        links: names of symbolic links that stand in the workspace; a path through one must be refused wherever it leads.
        outside: absolute paths of files that a path may try to name.
        siblings: paths from the directory above the workspace, which a path may climb to.
    """
    inner = st.lists(_NAMES, max_size=2)
    up = st.sampled_from([[".."], ["..", "..", "etc", "passwd"], *(["..", *sibling.split("/")] for sibling in siblings)])
    kinds = [
        st.builds(lambda before, way, around: "/".join([*around, *before, *[".."] * len(before), *way]), inner, up, _around()),
        st.builds(lambda before, way: "\\".join([*before, *way]), inner, up),
        st.sampled_from(["/", "/etc/passwd", "//etc/passwd", "/proc/self/environ", "/dev/null", *outside]),
        st.builds(lambda name, tail: f"{name}\0{tail}", _NAMES, st.sampled_from(["", ".txt", "/../secret"])),
    ]
    if links:
        through = st.sampled_from(["", "/secret", "/./secret", "//secret", "/new.txt", "/sub/secret"])
        kinds.append(
            st.builds(lambda around, name, tail: "/".join([*around, name]) + tail, _around(), st.sampled_from(links), through)
        )
    return st.one_of(kinds)


def _around() -> st.SearchStrategy[list[str]]:
    """Steps that lead nowhere, which a check of the text alone may be confused by."""
    return st.lists(st.sampled_from([".", ""]), max_size=2).map(lambda steps: [".", *steps] if steps else [])


def _is_a_device(name: str) -> bool:
    """Names that one system or another keeps for itself, whatever follows the dot."""
    stem = name.partition(".")[0]
    return stem in ("con", "prn", "aux", "nul") or stem[:3] in ("com", "lpt")
