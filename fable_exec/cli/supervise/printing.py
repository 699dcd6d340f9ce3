"""Executions on standard output: one as lines, many as a table, or as JSON. rich is loaded only for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fable_exec.cli.showing import one_line, print_object, print_parts
from fable_exec.cli.supervise.words import details, essence, style_of
from fable_exec.supervisor import Execution, UnreadableExecution

__all__ = ["print_table", "show_execution"]

_LEAST_LIST_COLUMNS = 80
_LEAST_DETAIL_COLUMNS = 10_000
"""Lines of one execution are never folded: paths in them are copied."""


def show_execution(execution: Execution | UnreadableExecution, as_json: bool, *, briefly: bool = False) -> None:
    """Print one: as JSON whole, else a line for each thing, with `briefly` only what matters first."""
    members = execution.to_members()
    if as_json:
        print_object(members)
        return
    from rich.text import Text

    lines = [*essence(members, datetime.now(UTC)), *(() if briefly else details(members))]
    width = max(len(name) for name, _ in lines)
    parts = [Text(f"{name:<{width}}  {one_line(text)}") for name, text in lines]
    for part, (name, _) in zip(parts, lines, strict=True):
        part.stylize("dim", 0, width)
        if name in ("health", "reason"):
            part.stylize(style_of(members), width)
    print_parts(*parts, least_columns=_LEAST_DETAIL_COLUMNS)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """A row a line, whatever its last cell holds; `styles` are those of the second."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=name != columns[-1])
    for number, each in enumerate(rows):
        cells = [Text(one_line(cell), no_wrap=True, overflow="ellipsis") for cell in each]
        if styles:
            cells[1].stylize(styles[number])
        table.add_row(*cells)
    print_parts(table, least_columns=_LEAST_LIST_COLUMNS)
