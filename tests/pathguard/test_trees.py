"""Listing, iterating over and removing whole trees."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from fable_exec.errors import PathDenied, PathError, PathNotDirectory, PathNotFound
from fable_exec.pathguard import PathProfile, TreeWalk, Workspace, WorkspacePath
from tests import abilities
from tests.pathguard import scenes

RESOLVERS = [name for name in (*scenes.RESOLVERS, "checked") if name != "openat2" or not abilities.missing("openat2")]


@pytest.fixture(params=RESOLVERS)
def held(request: pytest.FixtureRequest, workspace: Path) -> object:
    with Workspace.open(workspace, resolver=request.param) as opened:
        yield opened


def at(text: str) -> WorkspacePath:
    return WorkspacePath.parse(text, PathProfile.POSIX)


@pytest.fixture
def tree(workspace: Path) -> Path:
    (workspace.parent / "out").mkdir()
    (workspace.parent / "out" / "secret").write_bytes(b"S")
    (workspace / "a" / "deep").mkdir(parents=True)
    (workspace / "a" / "deep" / "f").write_bytes(b"1")
    (workspace / "a" / "l").symlink_to("../../out")
    (workspace / "b").mkdir()
    (workspace / "c").write_bytes(b"22")
    os.mkfifo(workspace / "p")
    return workspace


def seen(walk: TreeWalk) -> list[str]:
    return [str(found.path) for found in walk]


def test_a_listing_tells_kinds_and_follows_nothing(held: Workspace, tree: Path) -> None:
    listing = held.list()
    assert [(entry.name, entry.kind.value) for entry in listing.entries] == [
        ("a", "directory"), ("b", "directory"), ("c", "file"), ("p", "fifo")
    ]  # fmt: skip
    assert (listing.entries[2].size_bytes, listing.entries[2].link_count, listing.truncated) == (2, 1, False)
    assert [(entry.name, entry.kind.value) for entry in held.list(at("a")).entries] == [("deep", "directory"), ("l", "symlink")]
    cut = held.list(limit=3)
    assert (len(cut.entries), cut.truncated) == (3, True)
    assert not held.list(limit=4).truncated


def test_iterating_meets_everything_once_in_order_and_no_link_is_entered(held: Workspace, tree: Path) -> None:
    walk = held.iterate()
    assert seen(walk) == ["a", "a/deep", "a/deep/f", "a/l", "b", "c", "p"]
    assert (walk.truncated, walk.skipped) == (False, 0)
    assert seen(held.iterate(at("a"))) == ["a/deep", "a/deep/f", "a/l"]
    assert seen(held.iterate(descend=lambda path: path.name != "deep")) == ["a", "a/deep", "a/l", "b", "c", "p"]


@pytest.mark.parametrize(
    ("bounds", "expected"), [({"max_entries": 3}, 3), ({"max_depth": 1}, 4), ({"max_depth": 2}, 6), ({"max_entries": 0}, 0)]
)
def test_iterating_is_bounded_and_says_what_it_left_out(
    held: Workspace, tree: Path, bounds: dict[str, int], expected: int
) -> None:
    walk = held.iterate(**bounds)  # type: ignore[arg-type]  # bounds from the table
    assert len(seen(walk)) == expected
    assert walk.truncated
    with pytest.raises(ValueError, match="at least 1"):
        held.iterate(max_depth=0)


def test_an_iteration_may_be_dropped_and_survives_changes(held: Workspace, tree: Path) -> None:
    fds = len(os.listdir("/proc/self/fd"))
    steps = iter(held.iterate())
    next(steps)
    assert len(os.listdir("/proc/self/fd")) == fds
    walk = held.iterate()
    for found in walk:
        if found.path.name == "a":
            (tree / "a").rename(tree / "z")
            (tree / "a").symlink_to("../out")
    assert walk.skipped == 1
    with pytest.raises(PathNotFound):
        seen(held.iterate(at("nope")))


def test_removing_a_tree_leaves_what_its_links_point_at(held: Workspace, tree: Path) -> None:
    os.link(tree.parent / "out" / "secret", tree / "a" / "h")
    assert held.remove_tree(at("a")) == 5
    assert sorted(os.listdir(tree)) == ["b", "c", "p"]
    assert (tree.parent / "out" / "secret").read_bytes() == b"S"
    with pytest.raises(PathNotDirectory):
        held.remove_tree(at("c"))
    (tree / "l").symlink_to("b")
    with pytest.raises(PathDenied, match="symlink"):
        held.remove_tree(at("l"))
    assert held.remove_tree(at("b/")) == 1


def test_a_tree_with_a_protected_name_in_it_stays_whole(held: Workspace, tree: Path) -> None:
    (tree / "a" / "deep" / ".GIT").mkdir()
    before = scenes.snapshot(tree)
    with pytest.raises(PathDenied) as refusal:
        held.remove_tree(at("a"), protected=[".git"])
    assert (refusal.value.reason, refusal.value.path) == ("protected-name", "a/deep/.GIT")
    assert scenes.snapshot(tree) == before
    assert held.remove_tree(at("b"), protected=[".git"]) == 1


@pytest.mark.parametrize("resolver", scenes.RESOLVERS)
@pytest.mark.parametrize("depth", [500, pytest.param(5000, marks=pytest.mark.deep)])
def test_a_tree_deeper_than_the_descriptors_reach_is_removed(resolver: str, depth: int, workspace: Path) -> None:
    grow_deep(workspace, depth)
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 90, old[1]))
    try:
        with Workspace.open(workspace, resolver=resolver) as held:
            assert held.remove_tree(at("d")) == 2 * depth
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
    assert os.listdir(workspace) == []


def grow_deep(root: Path, depth: int) -> None:
    fd = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@pytest.mark.requires_ability("ordinary_user")
def test_what_cannot_be_removed_stops_the_removal_with_its_reason(workspace: Path) -> None:
    (workspace / "d" / "e").mkdir(parents=True)
    (workspace / "d" / "e" / "f").touch()
    (workspace / "d" / "e").chmod(0o500)
    try:
        with Workspace.open(workspace) as held, pytest.raises(PathError) as failure:
            held.remove_tree(at("d"))
        assert failure.value.reason == "permission"
    finally:
        (workspace / "d" / "e").chmod(0o700)


def test_the_text_of_a_link_is_only_text(held: Workspace, tree: Path) -> None:
    assert held.read_link(at("a/l")) == "../../out"
    with pytest.raises(PathError, match="invalid"):
        held.read_link(at("c"))


@pytest.mark.parametrize("name", [b"\xff\xfe", "e\u0301".encode(), "\u00e9".encode(), b"a\\b", b" ", b"..."])
def test_names_are_bytes(held: Workspace, workspace: Path, name: bytes) -> None:
    (workspace / os.fsdecode(name)).write_bytes(b"x")
    (entry,) = held.list().entries
    assert os.fsencode(entry.name) == name
    assert held.read(at(entry.name)).data == b"x"


def test_two_normal_forms_of_one_name_are_two_files(held: Workspace, workspace: Path) -> None:
    held.write_replace(at("\u00e9"), b"composed")
    held.write_replace(at("e\u0301"), b"decomposed")
    if len(os.listdir(workspace)) == 1:
        pytest.skip("the file system normalises names")
    assert (held.read(at("\u00e9")).data, held.read(at("e\u0301")).data) == (b"composed", b"decomposed")
