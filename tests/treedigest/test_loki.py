"""The profile loki-v3 where the vectors that are here do not reach: other shapes of repositories, and what git would have run."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import PathDenied, StateUnreadable
from fable_exec.treedigest import Progress, tree_digest
from fable_exec.treedigest.gitindex import GITLINK
from tests.bounds import BUSY_SECONDS
from tests.treedigest.test_gitindex import git, written


def repository(top: Path, *names: str) -> Path:
    top.mkdir(exist_ok=True)
    git(top, "init", "-q", "-b", "main", ".")
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    git(top, "add", "-A", "-f")
    git(top, "commit", "-qm", "c", "--allow-empty")
    return top


def entries(top: Path, **options: Any) -> dict[str, dict[str, Any]]:
    found = tree_digest(top, "loki-v3", **options).manifest
    assert found is not None
    return {entry["path"]: entry for entry in json.loads(found.data)["entries"]}


def digest(top: Path) -> str:
    return tree_digest(top, "loki-v3").sha256


def test_what_is_in_excluded_directories_counts_only_if_it_is_tracked(workspace: Path) -> None:
    repository(workspace, "a", "node_modules/tracked.js", "sub/venv/tracked", "target/tracked")
    (workspace / "node_modules/other.js").write_text("x")
    (workspace / "sub/__pycache__").mkdir()
    (workspace / "sub/__pycache__/x.pyc").write_text("x")
    (workspace / "sub/target").mkdir()
    (workspace / "sub/target/kept").write_text("x")
    (workspace / ".next").mkdir()
    (workspace / ".next/x").write_text("x")
    assert list(entries(workspace)) == ["a", "node_modules/tracked.js", "sub/target/kept", "sub/venv/tracked", "target/tracked"]
    before = digest(workspace)
    (workspace / "node_modules/other.js").write_text("changed")
    assert digest(workspace) == before
    (workspace / "node_modules/tracked.js").write_text("changed")
    assert digest(workspace) != before


def test_a_linked_worktree_has_the_digest_of_its_files(workspace: Path) -> None:
    main = repository(workspace / "main", "a", "sub/b")
    git(main, "worktree", "add", "-q", "--detach", str(workspace / "linked"))
    assert (workspace / "linked/.git").is_file()
    assert digest(workspace / "linked") == digest(main) != ""


def test_the_engine_directory_can_have_another_name(workspace: Path) -> None:
    repository(workspace, "a", ".engine/state", ".loki/state")
    assert list(entries(workspace, engine_directory=".engine")) == [".loki/state", "a"]
    assert list(entries(workspace)) == [".engine/state", "a"]


@pytest.mark.parametrize("target", ["bin", "./bin/../bin", "{workspace}/bin"])
def test_a_link_in_place_of_a_tracked_directory_is_read_through_within_the_workspace(target: str, workspace: Path) -> None:
    repository(workspace, "bin/f", "d/f")
    (workspace / "d/f").unlink()
    (workspace / "d").rmdir()
    (workspace / "d").symlink_to(target.format(workspace=workspace))
    found = entries(workspace)
    assert (found["d"]["kind"], found["d/f"]["sha256"]) == ("symlink", found["bin/f"]["sha256"])


@pytest.mark.parametrize("target", ["../outside", "{outside}", "loop", "bin/../../outside", "/"])
def test_a_link_that_leads_out_is_refused_and_nothing_outside_is_read(target: str, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    repository(workspace, "bin/f", "d/f")
    (workspace / "d/f").unlink()
    (workspace / "d").rmdir()
    (workspace / "d").symlink_to(target.format(outside=outside))
    (workspace / "loop").symlink_to("loop")
    with pytest.raises(PathDenied) as refused:
        digest(workspace)
    assert refused.value.reason == "outside"


def test_a_tracked_path_that_is_a_directory_now_is_something_else(workspace: Path) -> None:
    repository(workspace, "a", "b/c")
    (workspace / "a").unlink()
    (workspace / "a").mkdir()
    (workspace / "a/inner").write_text("x")
    (workspace / "b/c").unlink()
    (workspace / "b").rmdir()
    (workspace / "b").write_text("a file")
    found = entries(workspace)
    assert {path: entry["kind"] for path, entry in found.items()} == {
        "a": "other", "a/inner": "file", "b": "file", "b/c": "missing",
    }  # fmt: skip


def test_a_submodule_binds_its_head_and_its_files(workspace: Path) -> None:
    inner = repository(workspace / "inner", "x")
    outer = repository(workspace / "outer", "a")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "lib")
    git(outer, "commit", "-qm", "s")
    assert (outer / "lib/.git").is_file()
    entry = entries(outer)["lib"]
    assert entry["head_oid"] == entry["index"][0]["oid"] == git(inner, "rev-parse", "HEAD").decode().strip()
    assert entry["worktree_sha256"] == digest(outer / "lib") != ""
    (outer / "lib/x").write_text("changed")
    assert entries(outer)["lib"]["worktree_sha256"] == digest(outer / "lib") != entry["worktree_sha256"]


def test_head_is_found_in_packed_references_and_behind_links(workspace: Path) -> None:
    inner = repository(workspace / "lib", "x")
    outer = repository(workspace, "a")
    oid = git(inner, "rev-parse", "HEAD").decode().strip()
    git(inner, "pack-refs", "--all")
    assert entries(outer)["lib"]["head_oid"] == oid
    (inner / ".git/HEAD").unlink()
    (inner / ".git/HEAD").symlink_to("refs/heads/main")
    assert entries(outer)["lib"]["head_oid"] == oid
    (inner / ".git/HEAD").unlink()
    (inner / ".git/HEAD").write_text("ref: refs/heads/../../../outside\n")
    assert entries(outer)["lib"]["head_oid"] == ""


@pytest.mark.parametrize(
    "damage",
    [
        lambda top: (top / ".git/HEAD").write_text("nothing"),
        lambda top: os.rename(top / ".git/objects", top / ".git/o"),
        lambda top: os.rename(top / ".git", top / "git"),
        lambda top: (os.rename(top / ".git", top / "git"), os.mkfifo(top / ".git")),
        lambda top: (os.rename(top / ".git", top / "git"), (top / ".git").write_text("gitdir: /nowhere\n")),
    ],
)
def test_what_is_no_worktree_has_no_digest_and_is_no_error(damage: Any, workspace: Path) -> None:
    repository(workspace, "a")
    damage(workspace)
    found = tree_digest(workspace, "loki-v3")
    assert (found.sha256, found.manifest) == ("", None)


def test_a_torn_index_is_an_error_and_no_digest_without_it(workspace: Path) -> None:
    repository(workspace, "a")
    data = (workspace / ".git/index").read_bytes()
    (workspace / ".git/index").write_bytes(data[: len(data) // 2])
    for profile in ("loki-v3", "tree"):
        with pytest.raises(StateUnreadable) as refused:
            tree_digest(workspace, profile)
        assert refused.value.reason == "torn"


@pytest.mark.parametrize("profile", ["loki-v3", "tree"])
def test_nothing_that_a_repository_configures_runs(profile: str, workspace: Path) -> None:
    """Each of these runs when git looks at the worktree; the last line shows that the bait works."""
    repository(workspace, "a", ".gitattributes")
    ran = workspace.parent / "ran"
    hook = workspace.parent / "hook"
    hook.write_text(f"#!/bin/sh\necho ran >> {ran}\ncat\n")
    hook.chmod(0o755)
    (workspace / ".gitattributes").write_text("* filter=bait\n")
    for setting in ("core.fsmonitor", "filter.bait.clean", "filter.bait.process", "diff.external"):
        git(workspace, "config", setting, str(hook))
    (workspace / ".git/hooks").mkdir(exist_ok=True)
    (workspace / ".git/hooks/post-index-change").write_text(hook.read_text())
    (workspace / ".git/hooks/post-index-change").chmod(0o755)
    (workspace / "a").write_text("changed")
    assert tree_digest(workspace, profile).sha256
    assert not ran.exists()
    subprocess.run(["git", "-C", str(workspace), "status"], capture_output=True)
    assert ran.exists()


def test_the_configuration_cannot_take_the_digest_away(workspace: Path) -> None:
    """With these settings git would say that there is no worktree here, or another one."""
    repository(workspace, "a")
    before = digest(workspace)
    git(workspace, "config", "core.bare", "true")
    git(workspace, "config", "core.worktree", "/")
    assert digest(workspace) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look at everything; `make test` runs this as an ordinary user, too")
@pytest.mark.parametrize("level", ["fast", "stable"])
def test_what_can_be_listed_and_not_looked_at_is_unreadable(level: str, workspace: Path) -> None:
    repository(workspace, "a", "sub/b")
    (workspace / "sub").chmod(0o400)
    try:
        assert entries(workspace, level=level)["sub/b"] == {"kind": "unreadable", "path": "sub/b"}
    finally:
        (workspace / "sub").chmod(0o700)


def bare(top: Path) -> Path:
    """What git takes for a repository, and no more."""
    for name in ("objects", "refs/heads"):
        (top / ".git" / name).mkdir(parents=True)
    (top / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return top


def test_submodules_that_are_listed_many_times_are_read_once_each(workspace: Path) -> None:
    tops = [workspace / "/".join("a" * level) for level in range(20)]
    for level, top in enumerate(tops):
        below = ["/".join("a" * deeper).encode() for deeper in range(1, len(tops) - level)]
        (bare(top) / ".git/index").write_bytes(written(*((path, GITLINK) for path in below)))
    told: list[Progress] = []
    assert tree_digest(workspace, "loki-v3", on_progress=told.append).sha256
    assert len(told) < len(tops) ** 2


def test_many_submodules_take_time_by_their_number(workspace: Path) -> None:
    (bare(workspace) / ".git/index").write_bytes(written(*((b"%05d" % number, GITLINK) for number in range(50_000))))

    def enough(_: Progress) -> None:
        raise TimeoutError

    began = time.process_time()
    with pytest.raises(TimeoutError):
        tree_digest(workspace, "loki-v3", "fast", on_progress=enough)
    assert time.process_time() - began < BUSY_SECONDS  # for each of them all of them: 87 s


def test_links_that_go_round_in_the_tree_cannot_keep_a_caller_waiting(workspace: Path) -> None:
    bare(workspace)
    (workspace / "x").mkdir()
    (workspace / "l").symlink_to("x/../" * 800 + ".")
    paths = [b"l/" * 39 + b"%d/f" % number for number in range(5000)]
    (workspace / ".git/index").write_bytes(written(*((path, 0o100644) for path in paths)))
    give_up_at = time.monotonic() + 0.2

    def until(_: Progress) -> None:
        if time.monotonic() > give_up_at:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        tree_digest(workspace, "loki-v3", on_progress=until)
    assert time.monotonic() < give_up_at + BUSY_SECONDS


@pytest.mark.parametrize("profile", ["loki-v3", "tree"])
def test_a_reference_with_a_nul_in_its_name_names_no_commit(profile: str, workspace: Path) -> None:
    (bare(workspace) / ".git/HEAD").write_bytes(b"ref: refs/heads/a\0b\n")
    assert len(tree_digest(workspace, profile).sha256) == 64
