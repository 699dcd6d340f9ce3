"""The page of supervised executions says what the code says."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from fable_exec import supervisor as room
from fable_exec.executions import names
from fable_exec.executions.documents import outcome
from fable_exec.lifecycle import Facts
from fable_exec.supervisor import Done, Supervisor
from tests.supervisor.jobs import Jobs

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/supervision.md").read_text()


def first_cells(heading: str) -> list[str]:
    """The names in the first column of the table with that heading."""
    table = PAGE.partition(f"\n| {heading} | ")[2].partition("\n\n")[0].splitlines()[2:]
    return [name for row in table for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def test_the_table_of_the_state_has_every_member_that_a_state_has_and_no_other(jobs: Jobs) -> None:
    written = json.loads((jobs.ended("exit 1").directory / "state.json").read_text())
    assert sorted(first_cells("member")) == sorted(written)
    assert len(set(first_cells("member"))) == len(first_cells("member"))
    assert sorted(first_cells("member of `descendants`")) == sorted(written["descendants"])


def test_every_member_that_an_outcome_has_is_there_from_the_start(jobs: Jobs) -> None:
    """So a reader never meets a member that is missing."""
    execution = jobs.sleeper()
    begun = json.loads((execution.directory / "state.json").read_text())
    assert {*outcome(Facts(), finished_at="")} <= {*begun}


def test_the_table_of_calls_has_every_public_call_with_its_arguments() -> None:
    rows = PAGE.partition("\n| `Supervisor")[2].partition("\n\n")[0].splitlines()
    cells = " ".join(row.split(" | ")[0] for row in rows)
    documented = dict(re.findall(r"`([a-z_]+)(?:\(([^)]*)\))?`", cells))
    public = {name for name in vars(Supervisor) if not name.startswith("_")}
    assert public == {*documented}
    for name in public - {"start_async", "wait_async"}:
        written = [word.strip().partition("=")[0] for word in documented[name].split(",") if word.strip()]
        expected = list(inspect.signature(getattr(Supervisor, name)).parameters)[1:]
        assert [{"id": "execution_id"}.get(word, word) for word in written] == expected, name


def test_the_page_has_every_word_that_recover_says() -> None:
    assert [word for word in Done if f"`{word.value}`" not in PAGE] == []


def test_the_table_of_files_has_every_name() -> None:
    files = " ".join(first_cells("file"))
    ours = {getattr(names, name) for name in names.__all__ if name.endswith("_NAME")}
    assert ours and {name for name in ours if name not in files} == set()


def test_the_room_exports_what_it_says() -> None:
    assert [name for name in room.__all__ if not hasattr(room, name)] == []
