"""Parts of pages that programs write: between two marks, which stay."""

from __future__ import annotations

__all__ = ["with_between"]


def with_between(page: str, begin: str, text: str, end: str) -> str:
    """`page` with `text` between the marks `begin` and `end`, a blank line on either side.

    Raises:
        ValueError: the page has lost a mark; what follows `begin` would go with it.
    """
    before, begins, rest = page.partition(begin)
    _, ends, after = rest.partition(end)
    if not (begins and ends):
        raise ValueError(f"the page has lost {begin if not begins else end}; put it back where the text belongs")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"
