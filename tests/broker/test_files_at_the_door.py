"""The rules about paths and files that are the broker's own: backslashes, trust, protected names, bounds of searches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fable_exec import Conflict, ExecutionBroker, PathDenied, PathRules
from fable_exec.broker import files, searching
from tests.doors import TOKEN, policy_for


def broker_with(workspace: Path, **rules: Any) -> ExecutionBroker:
    broker = ExecutionBroker(policy_for(workspace, paths=PathRules(**rules)))
    broker.unlock_writes(TOKEN)
    return broker


def refused(reason: str, act: Any) -> None:
    with pytest.raises(PathDenied) as caught:
        act()
    assert caught.value.reason == reason


def test_a_backslash_can_be_refused(workspace: Path) -> None:
    with broker_with(workspace, backslash="refuse") as broker:
        refused("backslash", lambda: broker.write_file("a\\b", "x"))
        refused("backslash", lambda: broker.inspect_files("a\\b"))
    assert list(workspace.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="there it is a separator whatever the policy says")
def test_a_backslash_can_be_a_character_of_a_name_that_exists(workspace: Path) -> None:
    (workspace / "a\\b").write_text("x")
    with broker_with(workspace, backslash="literal", file_trust="regular") as broker:
        assert broker.inspect_files("a\\b").content == "x"
        assert broker.write_file("a\\b", "y").created is False
        refused("backslash", lambda: broker.write_file("c\\d", "x"))


def test_regular_trust_reads_hard_links_and_what_others_can_write(workspace: Path) -> None:
    (workspace / "one").write_text("x")
    os.link(workspace / "one", workspace / "two")
    (workspace / "open").write_text("y")
    (workspace / "open").chmod(0o666)
    with broker_with(workspace, file_trust="regular") as broker:
        assert broker.inspect_files("one").content == "x"
        assert broker.inspect_files("open").content == "y"
        refused("hard-link", lambda: broker.append("two", "more"))  # writing into it would change the other name
        assert broker.write_file("two", "new").created is False  # replacing breaks the link
    assert (workspace / "one").read_text() == "x"


def test_protected_names_are_refused_in_every_spelling_and_within_what_goes_or_moves(workspace: Path) -> None:
    (workspace / "repo/.git").mkdir(parents=True)
    (workspace / "repo/.git/config").write_text("secret needle")
    (workspace / "repo/code.py").write_text("needle")
    (workspace / "repo/code.py").chmod(0o600)
    with broker_with(workspace, protected=(".git",)) as broker:
        for path in ("repo/.git/config", "repo/.GIT/config", "repo/.git/new"):
            refused("protected-name", lambda path=path: broker.inspect_files(path))
            refused("protected-name", lambda path=path: broker.write_file(path, "x"))
        refused("protected-name", lambda: broker.remove_path("repo", recursive=True))
        refused("protected-name", lambda: broker.move_path("repo", "elsewhere"))
        refused("protected-name", lambda: broker.execute_command(["true"], "repo/.git"))
        found = broker.search_files("needle")
        assert [match.path for match in found.matches] == ["repo/code.py"]
    assert (workspace / "repo/.git/config").read_text() == "secret needle"


def test_a_search_stops_at_its_bounds_and_says_so(
    broker: ExecutionBroker, monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    for number in range(20):
        broker.write_file(f"f{number:02}", "needle " * 100)
    monkeypatch.setattr(searching, "MAX_TOTAL_BYTES", 5 * 700)
    few = broker.search_files("needle")
    assert (few.truncated, few.files_searched) == (True, 5)
    monkeypatch.setattr(searching, "MAX_TOTAL_BYTES", 10**9)
    monkeypatch.setattr(searching, "MAX_SECONDS", 0.0)
    assert broker.search_files("needle").truncated
    monkeypatch.setattr(searching, "MAX_SECONDS", 10.0)
    monkeypatch.setattr(searching, "MAX_FILE_BYTES", 100)
    assert broker.search_files("needle").files_skipped == 20


def test_a_match_in_a_long_line_is_shown_with_what_is_around_it(broker: ExecutionBroker) -> None:
    broker.write_file("a", "x" * 5000 + "needle" + "y" * 5000)
    (match,) = broker.search_files("needle").matches
    assert match.column == 5001
    assert len(match.text) <= searching.MAX_LINE_CHARACTERS
    assert "needle" in match.text


def test_a_search_may_be_of_one_file(broker: ExecutionBroker) -> None:
    broker.write_file("a", "needle\r\nneedle")
    assert [match.text for match in broker.search_files("needle", "a").matches] == ["needle", "needle"]


def test_a_file_that_is_too_large_to_be_edited_stays_as_it_is(
    broker: ExecutionBroker, monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    monkeypatch.setattr(files, "MAX_EDITED_BYTES", 10)
    broker.write_file("a", "0123456789X")
    with pytest.raises(ValueError, match="too large"):
        broker.edit_file("a", "0", "1")
    assert (workspace / "a").read_text() == "0123456789X"


def test_an_edit_does_not_overwrite_what_another_wrote_meanwhile(
    broker: ExecutionBroker, monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    broker.write_file("a", "old")
    whole = files.FileWork._whole

    def read_and_let_another_write(*arguments: Any) -> bytes:
        found = whole(*arguments)
        (workspace / "a").write_text("another's old")
        return found

    monkeypatch.setattr(files.FileWork, "_whole", read_and_let_another_write)
    with pytest.raises(Conflict):
        broker.edit_file("a", "old", "new")
    assert (workspace / "a").read_text() == "another's old"


def test_a_link_that_is_named_as_a_directory_is_not_removed(broker: ExecutionBroker, workspace: Path) -> None:
    (workspace / "directory").mkdir()
    (workspace / "link").symlink_to("directory")
    with pytest.raises(NotADirectoryError):
        broker.remove_path("link/")
    with pytest.raises(NotADirectoryError):
        broker.remove_path("link/", recursive=True)
    assert (workspace / "link").is_symlink()
    assert (workspace / "directory").is_dir()
    broker.remove_path("link")
    broker.remove_path("directory/")
    assert list(workspace.iterdir()) == []


def test_a_workspace_that_is_renamed_is_still_the_workspace(broker: ExecutionBroker, workspace: Path) -> None:
    workspace.rename(workspace.with_name("moved"))
    workspace.mkdir()
    broker.write_file("a", "x")
    assert (workspace.with_name("moved") / "a").read_text() == "x"
    assert list(workspace.iterdir()) == []
