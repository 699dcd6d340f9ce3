"""The committed diagram and tables say what the library does, and the diagram can be read."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree

from fable_exec.lifecycle import RULES, TRANSITIONS, Health, Phase, State
from tools import lifecycle_diagram as tool

AGAIN = "write both again with `python tools/lifecycle_diagram.py`"
PAGE = tool.PAGE.read_text()


def test_the_committed_diagram_and_table_are_current() -> None:
    assert tool.DIAGRAM.read_text() == tool.svg(), AGAIN
    assert tool.page_with_table(PAGE) == PAGE, AGAIN
    assert tool.table() in PAGE


def texts() -> list[tuple[float, float, float, str]]:
    """Left end, right end, base line and words of every text, in a font of one width."""
    found = []
    for element in ElementTree.fromstring(tool.svg()).iter("{http://www.w3.org/2000/svg}text"):
        words, x = element.text or "", float(element.attrib["x"])
        width = len(words) * tool.CHARACTER_WIDTH
        left = x - width / 2 if element.attrib["text-anchor"] == "middle" else x
        found.append((left, left + width, float(element.attrib["y"]), words))
    return found


def test_the_diagram_names_everything_in_the_table() -> None:
    words = " ".join(words for *_, words in texts())
    assert all(re.search(rf"\b{name}\b", words) for name in {event.__name__ for _, event in TRANSITIONS})
    assert all(action.value in words for row in TRANSITIONS.values() for action in row.actions)
    assert all(re.search(rf"\b{word.value}\b", words) for word in (*Phase, *State))


def test_no_text_of_the_diagram_lies_on_another_or_outside() -> None:
    size = ElementTree.fromstring(tool.svg())
    for left, right, y, words in texts():
        assert left >= 0 and right <= float(size.attrib["width"]), words
        assert tool.FONT_SIZE <= y <= float(size.attrib["height"]), words
    for one, other in itertools.combinations(texts(), 2):
        apart = one[1] <= other[0] or other[1] <= one[0] or abs(one[2] - other[2]) >= tool.FONT_SIZE
        assert apart, (one, other)


def test_the_page_lists_the_reasons_in_the_order_of_the_rules_and_every_health() -> None:
    assert re.findall(r"^\| `([a-z_]+)` \| ", PAGE, re.MULTILINE)[1:] == [reason.value for reason, _ in RULES]
    assert set(re.findall(r"\| `([a-z]+)` \|$", PAGE, re.MULTILINE)) - {"health"} == {health.value for health in Health}
