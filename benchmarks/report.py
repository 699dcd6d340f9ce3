"""Figures as a table for people, and as JSON; the README's tables stand between markers and are rewritten whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.marked import with_between

__all__ = ["markdown", "plain", "write_readme"]

BEGIN, END = "<!-- results: written by `make bench` -->", "<!-- end of results -->"
HEADINGS = ("figure", "fable_exec", "measured against", "its figure", "ratio", "target", "verdict", "fable-engine 1.3.1")


def plain(rows: Sequence[dict[str, Any]]) -> str:
    """For a terminal, one figure a paragraph."""
    lines = []
    for row in rows:
        lines.append(f"{row['title']}: {row['cells']['fable_exec']}")
        if row["reference"]:
            lines.append(f"    {row['reference']['name']}: {row['cells']['reference']}, ratio {row['cells']['ratio']}")
        lines += [f"    {name}: {cell}" for name, cell in row["cells"]["others"].items()]
        if row["fable_engine"]:
            lines.append(f"    fable-engine 1.3.1: {row['cells']['fable_engine']}")
        if row["target"]:
            lines.append(f"    target {row['target']}: {row['verdict']}")
    return "\n".join(lines)


def markdown(runs: Sequence[dict[str, Any]]) -> str:
    """Of all runs the figures with a target, then the others beside each, then the figures without one."""
    rows = [row for run in runs for row in run["figures"]]
    bound, free = [row for row in rows if row["target"]], [row for row in rows if not row["target"]]
    notes = [f"- {row['title']}: {row['note']}" for row in rows if row["note"]]
    beside = [(row["title"], name, cell) for row in rows for name, cell in row["cells"]["others"].items()]
    parts = [
        *map(_about, runs),
        "### Figures with a target",
        _table(HEADINGS, [_cells(row) for row in bound]),
        "### Beside them",
        _table(("figure", "also measured, in the same rounds", "its figure"), beside),
        "### Figures without a target",
        _table((*HEADINGS[:5], HEADINGS[7]), [(*_cells(row)[:5], _cells(row)[7]) for row in free]),
        "### Notes",
        "\n".join(notes),
    ]
    return "\n\n".join(parts)


def write_readme(path: Path, text: str) -> None:
    """Put `text` between the markers."""
    path.write_text(with_between(path.read_text("utf-8"), BEGIN, text, END), "utf-8")


def _about(run: dict[str, Any]) -> str:
    modules = ", ".join(f"`{name}`" for name in dict.fromkeys(figure["module"] for figure in run["figures"]))
    missing = "; ".join(f"{name}: {reason}" for name, reason in run["missing_peers"].items())
    load = f"{run['load_before']:.1f} before and {run['load_after']:.1f} after, the benchmarks' own part included"
    lines = [
        f"{modules}: measured {run['date']} on {run['machine']}. Load average {load}; {run['duration_seconds']:.0f} s in all."
    ]
    if run["scale"] != 1.0:
        lines.append(f"**A short run: {run['scale']:g} of the rounds.**")
    if missing:
        lines.append(f"Peers that could not be installed: {missing}.")
    if run["failed"]:
        lines.append(f"**Did not finish: {', '.join(run['failed'])}.**")
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    cells, reference = row["cells"], row["reference"]
    verdict = row["verdict"] if row["verdict"] in ("met", "-") else f"**{row['verdict']}**"
    name = reference["name"] if reference else "-"
    return (
        row["title"], cells["fable_exec"], name, cells["reference"], cells["ratio"], row["target"] or "-", verdict,
        cells["fable_engine"],
    )  # fmt: skip


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "None."
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
