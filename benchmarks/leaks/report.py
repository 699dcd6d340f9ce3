"""The table of leaks, from what was found, and its place in a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.leaks.scene import CHILDREN
from tools.marked import with_between

__all__ = ["insert", "table"]

_BEGIN, _END = "<!-- leaks: written by `make leaks` -->", "<!-- end of leaks -->"
_HEAD = (
    "| executor | returned after | same group alive | `setsid` child alive | double fork alive | output kept |",
    "| --- | ---: | :-: | :-: | :-: | :-: |",
)


def table(found: Mapping[str, Any]) -> str:
    """A row for each executor, ours first, and one for the frameworks that are not there; below it the versions of the others."""
    rows = sorted(found["executors"].values(), key=lambda row: not row["ours"])
    lines = [*_HEAD, *(_row(row) for row in rows)]
    if found["not_installable"]:
        lines.append(f"| {', '.join(sorted(found['not_installable']))} | not installable here | - | - | - | - |")
    if found["frameworks"]:
        lines += ["", f"With {', '.join(found['frameworks'])}."]
    return "\n".join(lines)


def _row(row: Mapping[str, Any]) -> str:
    title = f"**fable_exec** {row['title']}" if row["ours"] else row["title"]
    if "failed" in row:
        return f"| {title} | {row['failed']} | - | - | - | - |"
    alive = ["**yes**" if name in row["alive"] else "no" for name in CHILDREN]
    return f"| {title} | {row['returned_seconds']:.2f} s | {' | '.join(alive)} | {'yes' if row['output_kept'] else '**no**'} |"


def insert(page: Path, text: str) -> None:
    """Put the table between its marks."""
    page.write_text(with_between(page.read_text(), _BEGIN, text, _END))
