"""SQLite while writes are locked: in WAL mode a reader must write beside the database; what helps, and what that does not see."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fable_exec import CommandResult, ExecutionBroker
from tests.confinement.places import confined, in_modes

PLAIN, IMMUTABLE = "file:db", "file:db?immutable=1"
COUNT = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1], uri=True).execute('select count(*) from t').fetchone()[0])"
COPIED = 'cp db db-wal "$TMPDIR" && cd "$TMPDIR" && exec python3 -c "$0" file:db'


@contextmanager
def database(workspace: Path, journal: str) -> Iterator[sqlite3.Connection]:
    """An open database with one row that is in the file itself, and one more that in WAL mode is in the `-wal` only."""
    with closing(sqlite3.connect(workspace / "db")) as connection:
        connection.execute(f"pragma journal_mode={journal}")
        connection.execute("create table t (x)")
        connection.execute("insert into t values (1)")
        connection.commit()
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.execute("insert into t values (2)")
        connection.commit()
        yield connection


def rows(broker: ExecutionBroker, name: str) -> CommandResult:
    return broker.execute_command(["python3", "-c", COUNT, name])


@in_modes("slots", "plain")
def test_a_database_in_wal_mode_that_nobody_has_open_is_read_as_immutable(mode: str, workspace: Path) -> None:
    with database(workspace, "wal"):
        pass
    assert [each.name for each in workspace.iterdir()] == ["db"]
    with confined(workspace, mode) as broker:
        plain = rows(broker, PLAIN)
        assert plain.exit_code == 1
        assert "unable to open database file" in plain.stderr or "attempt to write a readonly database" in plain.stderr
        assert {each.protection for each in plain.denials} == {"workspace_writes"}
        assert rows(broker, IMMUTABLE).stdout == "2\n"


@in_modes("slots", "plain")
def test_what_a_dead_writer_left_in_its_log_is_seen_in_a_copy_only(mode: str, workspace: Path, tmp_path: Path) -> None:
    with database(workspace, "wal"):
        for name in ("db", "db-wal"):
            shutil.copy(workspace / name, tmp_path / name)  # as a writer that was killed leaves them
    for name in ("db", "db-wal"):
        shutil.copy(tmp_path / name, workspace / name)
    with confined(workspace, mode, allowed_executables=("bash", "python3")) as broker:
        assert rows(broker, PLAIN).exit_code == 1
        assert rows(broker, IMMUTABLE).stdout == "1\n"
        assert broker.execute_command(["bash", "-c", COPIED, COUNT]).stdout == "2\n"


@in_modes("slots", "plain")
def test_a_database_that_its_writer_has_open_is_read_under_its_plain_name(mode: str, workspace: Path) -> None:
    with database(workspace, "wal"), confined(workspace, mode) as broker:
        assert rows(broker, PLAIN).stdout == "2\n"
        assert rows(broker, IMMUTABLE).stdout == "1\n"


@in_modes("slots", "plain")
@pytest.mark.parametrize("journal", ["delete", "truncate", "persist"])
def test_other_journals_are_read_as_they_are(mode: str, journal: str, workspace: Path) -> None:
    with database(workspace, journal):
        pass
    with confined(workspace, mode) as broker:
        assert rows(broker, PLAIN).stdout == "2\n"
