"""What holds of any tree: one change changes the digest, two trees never give one manifest, `diff` names what was changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from fable_exec.treedigest import Difference, Manifest, Profile, diff, tree_digest, verify
from fable_exec.treedigest.loki import _not_among
from fable_exec.treedigest.values import are_names, is_one_name
from tests.treedigest import growing

pytestmark = pytest.mark.fuzz


def digest_of(tree: growing.Directory, profile: Profile = Profile.TREE) -> Manifest:
    """Its manifest; in the profile loki-v3 as a worktree in which nothing is tracked."""
    with tempfile.TemporaryDirectory() as directory:
        root = growing.make(tree, Path(directory) / "tree")
        if profile is Profile.LOKI_V3:
            for name in ("objects", "refs"):
                (root / ".git" / name).mkdir(parents=True)
            (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
        found = tree_digest(root, profile, level="fast").manifest
        assert found is not None
        return found


@hypothesis.given(growing.TREES.filter(bool), st.data())
def test_any_one_change_changes_the_digest_and_is_named_by_diff(tree: growing.Directory, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(growing.paths(tree)))
    other, way = growing.changed(tree, place, data.draw)
    before, after = digest_of(tree), digest_of(other)
    assert before.sha256 != after.sha256
    difference = diff(before, after)
    path = os.fsdecode(b"/".join(place))
    if way in ("byte", "grown", "target", "kind"):
        assert difference == Difference(changed=(path,))
    elif way == "mode":
        assert difference == Difference(mode_changed=(path,))
    elif way == "added":
        assert difference.added and not (difference.removed or difference.changed or difference.mode_changed)
    else:
        assert path in difference.removed and bool(difference.added) == (way == "name")


@hypothesis.given(growing.TREES, growing.TREES)
def test_two_trees_have_one_manifest_only_if_they_are_one(one: growing.Directory, other: growing.Directory) -> None:
    assert (digest_of(one).data == digest_of(other).data) == (one == other)


@hypothesis.given(growing.TREES)
def test_a_manifest_that_was_kept_is_read_again_and_verifies(tree: growing.Directory) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = growing.make(tree, Path(directory) / "tree")
        found = tree_digest(root, level="fast")
        assert found.manifest is not None
        kept = Manifest.from_bytes(found.manifest.data)
        assert kept.sha256 == found.sha256
        assert {entry.path for entry in kept.entries} == {"", *(os.fsdecode(b"/".join(path)) for path in growing.paths(tree))}
        assert verify(kept, root, "fast").is_empty


@hypothesis.given(growing.TREES.filter(lambda tree: tree and b".git" not in tree and b".loki" not in tree), st.data())
def test_any_change_of_a_file_or_link_changes_the_digest_of_loki_v3(tree: growing.Directory, data: st.DataObject) -> None:
    def is_bound(place: tuple[bytes, ...]) -> bool:
        node: growing.Node = ("directory", 0, tree)
        for name in place:
            node = node[2][name]
        return node[0] != "directory" and b".git" not in place

    places = [place for place in growing.paths(tree) if is_bound(place)]
    hypothesis.assume(places)
    other, way = growing.changed(tree, data.draw(st.sampled_from(places)), data.draw)
    hypothesis.assume(b".git" not in other)
    hypothesis.assume(way != "mode" or any_execute_changed(tree, other))
    assert digest_of(tree, Profile.LOKI_V3).sha256 != digest_of(other, Profile.LOKI_V3).sha256


def any_execute_changed(one: growing.Directory, other: growing.Directory) -> bool:
    """Whether a file became executable for somebody, or for nobody: the only thing of modes that the reference binds."""

    def executable(tree: growing.Directory) -> list[bool]:
        return [
            flag
            for node in tree.values()
            for flag in ([bool(node[2] & 0o111)] if node[0] == "file" else executable(node[2]) if node[0] == "directory" else [])
        ]

    return executable(one) != executable(other)


@hypothesis.given(st.lists(st.text("./a\0b", max_size=4), min_size=1))
def test_names_joined_by_slashes_are_names_if_each_of_them_is_one(names: list[str]) -> None:
    parts = "/".join(names).split("/")
    assert are_names("/".join(names).encode()) == all(map(is_one_name, parts))


_SOME_PATHS = st.lists(st.sampled_from("abcdef"), max_size=6)


@hypothesis.given(_SOME_PATHS, _SOME_PATHS)
def test_tracked_paths_that_no_walk_met_are_found_in_any_order(tracked: list[str], met: list[str]) -> None:
    assert _not_among(tracked, met) == {*tracked} - {*met}
    assert _not_among(sorted(tracked), met) == {*tracked} - {*met}
