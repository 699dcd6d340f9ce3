"""Write the diagram and the table of an execution's transitions into docs/reference, from the table that the library follows.

`python tools/lifecycle_diagram.py` writes both. A phase is a box, in the band of the word that the state file holds meanwhile; an
arrow has the events that take it and, after a slash, what is done then; what stays in its phase stands in the box. The one arrow
that leads back up has a line of its own on the right.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fable_exec.lifecycle import TRANSITIONS, Phase, Row, State
from tools.marked import with_between

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
DIAGRAM = REFERENCE / "lifecycle.svg"
PAGE = REFERENCE / "lifecycle.md"
BEGIN, END = "<!-- transitions: written by tools/lifecycle_diagram.py -->", "<!-- end of transitions -->"

FONT_SIZE = 12
CHARACTER_WIDTH = 0.6 * FONT_SIZE
LINE_HEIGHT = 15
WIDTH = 960
BOX_LEFT, BOX_RIGHT = 400, 640
BUS_LEFT, BUS_RIGHT, BUS_BACK = 110, 850, 900
GAP = 74
MARGIN = 24
COLOURS = {State.ACCEPTED: "#fff6dd", State.RUNNING: "#e6f2e6", State.EXITED: "#e8ecf4"}


@attrs.frozen
class Arrow:
    """The events that lead from one phase to another with the same actions."""

    source: Phase | None
    target: Phase
    events: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def label(self) -> list[str]:
        """Two events a line, then the actions."""
        pairs = [", ".join(self.events[at : at + 2]) for at in range(0, len(self.events), 2)]
        done = [f"/ {', '.join(self.actions)}"] if self.actions else []
        return [f"{pair}," for pair in pairs[:-1]] + pairs[-1:] + done

    @property
    def is_next(self) -> bool:
        """It leads to the box below."""
        phases = [None, *Phase]
        return phases.index(self.target) == phases.index(self.source) + 1


def arrows() -> list[Arrow]:
    """Every transition, those of one way together."""
    ways: dict[tuple[Phase | None, Row], list[str]] = {}
    for (source, event), row in TRANSITIONS.items():
        ways.setdefault((source, row), []).append(event.__name__)
    return [
        Arrow(source, row.phase, tuple(events), tuple(action.value for action in row.actions))
        for (source, row), events in ways.items()
    ]


def leaving(phase: Phase, side: str) -> list[Arrow]:
    """The arrows that go round other boxes: to the end on the left, elsewhere on the right."""
    round_others = [arrow for arrow in arrows() if arrow.source is phase is not arrow.target and not arrow.is_next]
    return [arrow for arrow in round_others if (arrow.target is Phase.EXITED) == (side == "left")]


def staying(phase: Phase) -> list[str]:
    """The lines in a box that tell of events which leave it where it is."""
    return [line for arrow in arrows() if arrow.source is phase is arrow.target for line in arrow.label]


def height(phase: Phase) -> int:
    rows = max(1, len(leaving(phase, "left")), len(leaving(phase, "right")))
    return max(44 * rows, 30 + LINE_HEIGHT * len(staying(phase)))


def places() -> dict[Phase, tuple[int, int]]:
    """Top and bottom of each box."""
    found, top = {}, MARGIN + GAP
    for phase in Phase:
        found[phase] = top, top + height(phase)
        top += height(phase) + GAP
    return found


def text(x: float, y: float, lines: list[str], anchor: str = "start", weight: str = "normal") -> Iterator[str]:
    for number, line in enumerate(lines):
        at = f'x="{x:g}" y="{y + number * LINE_HEIGHT:g}" text-anchor="{anchor}" font-weight="{weight}"'
        yield f"<text {at}>{escape(line)}</text>"


def path(points: list[tuple[float, float]], *, head: bool) -> str:
    marker = ' marker-end="url(#head)"' if head else ""
    return f'<path d="M {" L ".join(f"{x:g} {y:g}" for x, y in points)}"{marker}/>'


def bands() -> Iterator[str]:
    at = places()
    for state in State:
        inside = [at[phase] for phase in Phase if phase.state is state]
        top, bottom = inside[0][0] - 12, inside[-1][1] + 12
        yield f'<rect x="8" y="{top}" width="{WIDTH - 16}" height="{bottom - top}" fill="{COLOURS[state]}" stroke="none"/>'
        yield from text(16, top + 18, [state.value], weight="bold")


def boxes() -> Iterator[str]:
    middle = (BOX_LEFT + BOX_RIGHT) / 2
    for phase, (top, bottom) in places().items():
        width = BOX_RIGHT - BOX_LEFT
        yield f'<rect x="{BOX_LEFT}" y="{top}" width="{width}" height="{bottom - top}" rx="8" fill="white"/>'
        yield from text(middle, top + 20, [phase.value], "middle", "bold")
        yield from text(middle, top + 20 + LINE_HEIGHT, staying(phase), "middle")


def straight() -> Iterator[str]:
    middle, at = (BOX_LEFT + BOX_RIGHT) / 2, places()
    for arrow in arrows():
        if arrow.is_next:
            start = at[arrow.source][1] if arrow.source else MARGIN
            yield path([(middle, start), (middle, at[arrow.target][0])], head=True)
            yield from text(middle + 10, start + 26, arrow.label)
    yield f'<circle cx="{middle:g}" cy="{MARGIN - 6}" r="6" fill="#333"/>'


def round_about(side: str) -> Iterator[str]:
    edge, bus = (BOX_LEFT, BUS_LEFT) if side == "left" else (BOX_RIGHT, BUS_RIGHT)
    at = places()
    for phase in Phase:
        for number, arrow in enumerate(leaving(phase, side)):
            y, (top, bottom) = at[phase][0] + 22 + 44 * number, at[arrow.target]
            end = (top + bottom) / 2
            column = BUS_BACK if top < y and side == "right" else bus
            yield path([(edge, y), (column, y), (column, end), (edge, end)], head=True)
            start = bus + 8 if side == "left" else edge + 8
            yield from text(start, y - 5 - LINE_HEIGHT * (len(arrow.label) - 2), arrow.label[:-1])
            yield from text(start, y + LINE_HEIGHT - 2, arrow.label[-1:])


def svg() -> str:
    """The diagram."""
    bottom = places()[Phase.EXITED][1] + MARGIN
    head = '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    size = f'viewBox="0 0 {WIDTH} {bottom}" width="{WIDTH}" height="{bottom}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="{FONT_SIZE}">',
        f'<defs>{head}<path d="M 0 0 L 8 4 L 0 8 z" fill="#333"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{bottom}" fill="white"/>',
        *bands(),
        '<g fill="none" stroke="#333">',
        *[part for part in (*straight(), *round_about("left"), *round_about("right")) if not part.startswith("<text")],
        *[part for part in boxes() if not part.startswith("<text")],
        "</g>",
        '<g fill="#111">',
        *[part for part in (*straight(), *round_about("left"), *round_about("right"), *boxes()) if part.startswith("<text")],
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def table() -> str:
    """The transitions as rows of Markdown."""
    rows = ["| in | when | then | do |\n", "|---|---|---|---|\n"]
    for (phase, event), row in TRANSITIONS.items():
        source = "" if phase is None else phase.value
        actions = ", ".join(action.value for action in row.actions)
        rows.append(f"| {source} | `{event.__name__}` | {row.phase.value if row.phase is not phase else ''} | {actions} |\n")
    return "".join(rows)


def page_with_table(page: str) -> str:
    """The page with the rows between its two marks."""
    return with_between(page, BEGIN, table(), END)


if __name__ == "__main__":
    DIAGRAM.write_text(svg())
    PAGE.write_text(page_with_table(PAGE.read_text()))
