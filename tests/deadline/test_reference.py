"""The page of deadlines says what the code says."""

from __future__ import annotations

import json
import re

import pytest

from fable_exec import deadline
from fable_exec.deadline import MAX_CANCEL_BYTES, DeadlineEnd, write_cancel_file
from fable_exec.procident import BirthToken, ProcessIdentity
from tests.cli.typed import PROJECT

PAGE = (PROJECT / "docs/reference/deadline.md").read_text()
BOOT = "cdda642c-2827-49cf-ba80-5aa5d2e61366"


def test_the_page_lists_every_name_and_every_end() -> None:
    names, ends = PAGE.partition("\n## Ends\n")[0], PAGE.partition("\n## Ends\n")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in names.splitlines() if row.startswith("| `")]
    assert {name for cell in rows for name in re.findall(r"`(\w+)`", cell)} == set(deadline.__all__)
    told = [row.split("|")[1] for row in ends.splitlines() if row.startswith("| `") and "ended_by" not in row]
    assert [name for cell in told for name in re.findall(r"`(\w+)`", cell)] == [each.value for each in DeadlineEnd]


@pytest.mark.requires_ability("linux")
def test_the_example_that_opens_the_page_does_what_it_asserts() -> None:
    example = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    assert "assert " in example
    exec(example, {})


def test_the_cancel_file_of_the_page_has_the_members_of_one(tmp_path: object) -> None:
    shown = json.loads(re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0])
    identity = ProcessIdentity(4711, BirthToken.parse(f"proc:{BOOT}:7"), 2**64 - 1, 2**32 - 1, BOOT, 2**32 - 1)
    write_cancel_file(f"{tmp_path}/cancel", identity)
    with open(f"{tmp_path}/cancel", "rb") as file:
        written = file.read()
    assert len(written) < MAX_CANCEL_BYTES / 2
    document = json.loads(written)
    assert (document.keys(), document["process"].keys()) == (shown.keys(), shown["process"].keys())
    assert document["type"] == shown["type"]
