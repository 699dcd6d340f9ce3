"""`fable-exec digest`: what it prints, where, and with which exit status."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from fable_exec.treedigest import tree_digest
from tests.cli.typed import PROGRAM, environment, the_object, typed_here
from tests.treedigest import vectors
from tests.treedigest.test_loki import repository


@pytest.fixture
def tree(workspace: Path) -> Path:
    (workspace / "sub").mkdir()
    (workspace / "a").write_text("x")
    (workspace / "sub/b").write_text("y")
    return workspace


@pytest.mark.parametrize("name", ["basic", "name_newline_quote_tab"])
def test_the_digest_comes_first_and_is_that_of_the_reference(name: str, tmp_path: Path) -> None:
    top = vectors.build(name, tmp_path / "tree")
    finished = typed_here("digest", str(top), "--profile", "loki-v3")
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert finished.stdout.decode() == vectors.expected(name)["loki_tree_sha256"] + "\n"


def test_a_manifest_that_was_printed_can_be_compared_with(tree: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(typed_here("digest", str(tree), "--manifest", "--engine-dir", ".engine").stdout)
    digest, manifest = kept.read_text().splitlines()
    assert digest == tree_digest(tree, engine_directory=".engine").sha256
    unchanged = typed_here("digest", str(tree), "--diff", str(kept))
    assert (unchanged.returncode, unchanged.stdout.decode()) == (0, digest + "\n")
    kept.write_text(manifest)
    (tree / "new\n").write_text("")
    (tree / "a").chmod(0o755)
    (tree / "sub/b").write_text("z")
    changed = typed_here("digest", str(tree), "--diff", str(kept))
    assert changed.returncode == 1
    assert changed.stdout.decode().splitlines()[1:] == ["+ new\\n", "M sub/b", "m a"]


def test_json_is_one_object(tree: Path, tmp_path: Path) -> None:
    (tree / os.fsdecode(b"\xff")).write_text("")
    members = the_object(typed_here("digest", str(tree), "--json", "--manifest", "--level", "sealed"))
    assert (members["ok"], members["sha256"], members["level"]) == (True, tree_digest(tree).sha256, "sealed")
    (tmp_path / "kept").write_text(members["manifest"])
    (tree / os.fsdecode(b"\xff")).unlink()
    finished = typed_here("digest", str(tree), "--json", "--diff", str(tmp_path / "kept"))
    members = the_object(finished)
    assert (finished.returncode, members["ok"], members["difference"]["removed"]) == (1, False, ["\udcff"])


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_what_is_no_name_of_a_directory_is_wrong_usage(name: str, tree: Path) -> None:
    for profile in ("tree", "loki-v3"):
        assert typed_here("digest", "--engine-dir", name, "--profile", profile, str(tree)).returncode == 2
        with pytest.raises(ValueError, match="name of one directory"):
            tree_digest(tree, profile, engine_directory=name)


@pytest.mark.parametrize("profile", ["tree", "loki-v3"])
def test_an_engine_directory_may_have_any_name(profile: str, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff")
    top = repository(tmp_path / "tree", "a")
    (top / name).mkdir()
    words = ("digest", "--profile", profile, str(top))
    printed = typed_here(*words, "--engine-dir", name, "--manifest").stdout
    (tmp_path / "kept").write_bytes(printed)
    (top / name / "later").write_text("")
    compared = typed_here(*words, "--diff", str(tmp_path / "kept"))
    assert (compared.returncode, compared.stdout) == (0, printed.partition(b"\n")[0] + b"\n"), compared.stderr


def test_no_worktree_has_no_digest_and_says_what_has_one(tree: Path) -> None:
    finished = typed_here("digest", str(tree), "--profile", "loki-v3")
    assert (finished.returncode, finished.stdout) == (1, b"\n")
    assert b"profile tree" in finished.stderr
    assert the_object(typed_here("digest", str(tree), "--profile", "loki-v3", "--json"))["sha256"] == ""


def test_a_tree_that_is_being_changed_has_no_digest_and_names_the_file(tree: Path) -> None:
    with (tree / "sub/b").open("a"):
        finished = typed_here("digest", str(tree))
        failed = the_object(typed_here("digest", str(tree), "--json"))
    assert (finished.returncode, finished.stdout) == (1, b"")
    assert b"'sub/b'" in finished.stderr and b"level 'fast'" in finished.stderr
    assert (failed["ok"], failed["code"]) == (False, "tree-unstable")


def test_usage_errors_exit_2(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "no manifest").write_text("{}")
    (tmp_path / "manifest").write_bytes(typed_here("digest", str(tree), "--manifest").stdout)
    for arguments in (
        [str(tree), "--diff", str(tmp_path / "no manifest")],
        [str(tree), "--diff", str(tmp_path / "none")],
        [str(tree), "--diff", str(tmp_path / "manifest"), "--profile", "loki-v3"],
        [str(tree), "--profile", "what"],
        [],
    ):
        finished = typed_here("digest", *arguments)
        assert (finished.returncode, finished.stdout) == (2, b""), arguments
        assert b"Traceback" not in finished.stderr


def test_a_terminal_sees_a_bar_for_what_takes_a_while_and_the_digest_stays_alone(workspace: Path) -> None:
    for number in range(6):
        with (workspace / f"long{number}").open("wb") as long:
            long.truncate(128 << 20)
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [*PROGRAM, "digest", str(workspace), "--level", "fast"],
            env=environment(TERM="xterm"),
            stdout=subprocess.PIPE,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            drawn = b""
            try:
                while piece := os.read(ours, 65536):
                    drawn += piece
            except OSError:
                pass  # the other end is closed
            assert process.stdout is not None
            printed = process.stdout.read().decode()
    finally:
        os.close(ours)
    assert printed == tree_digest(workspace, level="fast").sha256 + "\n"
    assert b"files" in drawn and b"MB" in drawn


def test_without_a_terminal_nothing_is_drawn(tree: Path) -> None:
    finished = typed_here("digest", str(tree), env={"FORCE_COLOR": "1"})
    assert finished.stderr == b""
    assert finished.stdout.decode() == tree_digest(tree).sha256 + "\n"
