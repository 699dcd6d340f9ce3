"""Where state is kept: one rule for the records of executions and for the quarantine."""

from __future__ import annotations

from pathlib import Path

import pytest

from fable_exec import PolicyError
from fable_exec.executions.names import STATE_DIR_VARIABLE, default_root
from fable_exec.laterfiles.kept import standard_place
from fable_exec.statehome import state_homes


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(STATE_DIR_VARIABLE, raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("named", "first"), [(None, None), ("", None), ("relative", None), ("../up", None), ("/place", "/place")]
)
def test_records_and_quarantine_have_one_place(
    named: str | None, first: str | None, home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named is not None:
        monkeypatch.setenv("XDG_STATE_HOME", named.replace("/place", str(home.parent / "place")))
    place = home / ".local/state" if first is None else home.parent / "place"
    assert state_homes() == list(dict.fromkeys([place, home / ".local/state"]))
    assert default_root() == place / "fable-exec/executions"
    assert standard_place(str(workspace)) == str(place / "fable-exec/quarantine")


@pytest.mark.parametrize("without", ["/no/such/home", "relative"])
def test_without_a_home_a_place_must_be_named_and_none_is_made(
    without: str, home: Path, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relative").mkdir()
    monkeypatch.setenv("HOME", without)
    assert state_homes() == []
    with pytest.raises(PolicyError, match="FABLE_EXEC_STATE_DIR: must name a directory: this user has no home here"):
        default_root()
    assert standard_place(str(workspace)).startswith("/var/tmp/")
    monkeypatch.setenv(STATE_DIR_VARIABLE, "named")
    assert default_root() == tmp_path / "named"
