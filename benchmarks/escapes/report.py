"""Verdicts and the table: a row for each group, a column for each system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.escapes.attempt import Attempt
from tools.marked import with_between

if TYPE_CHECKING:
    from benchmarks.escapes.__main__ import Column

__all__ = ["insert", "table", "verdicts"]

_BEGIN, _END = "<!-- table: written by `make escapes` -->", "<!-- end of the table -->"


def verdicts(attempts: Iterable[Attempt], control: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, str]:
    """By name: "held" or "escaped", for each attempt that is proved by its control, or that cannot have one."""
    if "skipped" in found:
        return {}
    judged = {}
    for attempt in attempts:
        result = found["results"].get(attempt.name, {"skipped": "not performed"})
        proved = bool(attempt.no_control) or control["results"].get(attempt.name, {}).get("escaped", False)
        if proved and "skipped" not in result:
            judged[attempt.name] = "escaped" if result["escaped"] else "held"
    return judged


def table(
    attempts: Sequence[Attempt], columns: Sequence[Column], judged: Mapping[str, Mapping[str, str]], found: Mapping[str, Any]
) -> str:
    """Escapes of proved attempts, group by group, then what escaped, then what could not be run."""
    groups = list(dict.fromkeys(each.group for each in attempts))
    lines = ["| group | " + " | ".join(each.title for each in columns) + " |", "| --- |" + " ---: |" * len(columns)]
    lines += [_row(group, [each.name for each in attempts if each.group == group], columns, judged) for group in groups]
    lines.append(_row("**all**", [each.name for each in attempts], columns, judged))
    lines += ["", "*Escapes / attempts that are proved by a control.*", ""]
    for column in columns:
        names = [name for name, verdict in judged[column.title].items() if verdict == "escaped"]
        if column.ours and names:
            lines.append(f"- **{column.title}**: {'; '.join(names)}.")
        if "skipped" in found[column.title]:
            lines.append(f"- **{column.title}**: not run: {found[column.title]['skipped']}".replace("\n", " "))
    return "\n".join(lines)


def _row(title: str, names: Sequence[str], columns: Sequence[Column], judged: Mapping[str, Mapping[str, str]]) -> str:
    cells = []
    for column in columns:
        mine = [judged[column.title][name] for name in names if name in judged[column.title]]
        cells.append(f"{mine.count('escaped')} / {len(mine)}" if mine else "-")
    return f"| {title} | " + " | ".join(cells) + " |"


def insert(readme: Path, text: str, where: str) -> None:
    """Put the table between its marks."""
    readme.write_text(with_between(readme.read_text(), _BEGIN, f"Measured on {where}.\n\n{text}", _END))
