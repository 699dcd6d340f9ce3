"""Properties of the resolvers over random real trees: they agree, and nothing that is accepted reaches outside."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.errors import FableExecError, PathDenied
from fable_exec.pathguard import FileContent, Listing, PathProfile, Workspace, WorkspacePath
from tests.pathguard import scenes

pytestmark = [pytest.mark.fuzz, pytest.mark.requires_ability("openat2")]

NAMES = st.sampled_from(["a", "b", "c"])
TARGETS = st.sampled_from(["a", "b", "..", "../out", "../out/secret", "../../out", "/", ".", "c/a", "@OUT@", "@OUT@/sub", "nope"])
PLACES = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("dir"), PLACES),
        st.tuples(st.just("file"), PLACES, st.just("I")),
        st.tuples(st.just("symlink"), PLACES, TARGETS),
        st.tuples(st.just("fifo"), PLACES),
        st.tuples(st.just("hardlink"), PLACES, st.just("../out/secret")),
    ),
    max_size=10,
)
PATHS = st.lists(st.sampled_from(["a", "b", "c", ".", "..", "x"]), min_size=1, max_size=4).map("/".join)
SUFFIXES = st.sampled_from(["", "/", "/."])
OPERATIONS = st.sampled_from(
    ["open_read", "list", "stat", "write_replace", "write_inplace", "create_excl", "mkdir_all", "unlink", "rename", "remove_tree"]
)


def grow(root: Path, steps: list[tuple[Any, ...]]) -> None:
    (root.parent / "out" / "sub").mkdir(parents=True)
    (root.parent / "out" / "secret").write_bytes(b"S")
    root.mkdir()
    for step in steps:
        if leads_through_a_link(root, step[1]):
            continue  # the setup itself must not leave the tree
        try:
            scenes.build(root, [list(step)])
        except OSError:
            continue  # a step that does not fit the tree so far


def leads_through_a_link(root: Path, name: str) -> bool:
    place = root / name
    return any(path.is_symlink() for path in (place, *place.parents) if root in path.parents)


def outcome_of(root: Path, resolver: str, op: str, text: str, to: str) -> tuple[str, object]:
    with Workspace.open(root, resolver=resolver) as workspace:
        try:
            result = scenes.perform(workspace, op, text, to)
        except FableExecError as error:
            return scenes.reason_of(error), type(error).__name__
    if isinstance(result, FileContent):
        return "ok", result.data
    return "ok", [entry.name for entry in result.entries] if isinstance(result, Listing) else None


@given(STEPS, OPERATIONS, PATHS, PATHS, SUFFIXES)
def test_the_resolvers_agree_and_stay_inside(steps: list[tuple[Any, ...]], op: str, text: str, to: str, suffix: str) -> None:
    outcomes, trees = [], []
    for resolver in (*scenes.RESOLVERS, "checked"):
        home = Path(tempfile.mkdtemp(prefix="fable-exec-tree-"))
        try:
            root = home / "w"
            grow(root, steps)
            outside = contents_of(home / "out")
            fds = len(os.listdir("/proc/self/fd"))
            outcome = outcome_of(root, resolver, op, text + suffix, to)
            assert len(os.listdir("/proc/self/fd")) == fds
            outcomes.append(outcome)
            assert contents_of(home / "out") == outside
            trees.append({name: (kind, content) for name, (kind, _, content) in scenes.snapshot(root).items()})
            check_read(root, text, outcome)
        finally:
            shutil.rmtree(home)
    # Absolute link texts name each tree's own sibling, so only trees without them can be compared by content.
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert [set(tree) for tree in trees] == [set(trees[0])] * 3


def contents_of(directory: Path) -> dict[str, object]:
    return {name: content for name, (_, _, content) in scenes.snapshot(directory).items()}


def check_read(root: Path, text: str, outcome: tuple[str, object]) -> None:
    """What was read is what stands at those names without following anything; a hard link's bytes are inside as well."""
    if outcome[0] != "ok" or not isinstance(outcome[1], bytes):
        return
    path = root
    for name in WorkspacePath.parse(text, PathProfile.POSIX).components:
        path /= name
        assert not path.is_symlink()
    assert path.read_bytes() == outcome[1]


@given(st.binary(min_size=1, max_size=30))
def test_any_name_of_bytes_is_created_listed_and_read_back_byte_for_byte(raw: bytes) -> None:
    name = os.fsdecode(raw)
    with tempfile.TemporaryDirectory() as directory, Workspace.open(directory) as workspace:
        try:
            path = WorkspacePath.parse(name, PathProfile.POSIX)
            workspace.write_replace(path, raw)
        except PathDenied as refusal:
            assert refusal.reason in ("nul", "absolute", "dotdot", "control")
            assert os.listdir(directory) == []
            return
        except FableExecError as error:
            assert scenes.reason_of(error) == "is-directory"
            return
        assert workspace.read(path).data == raw
        if len(path.components) == 1:
            assert os.listdir(os.fsencode(directory)) == [os.fsencode(path.components[0])]
            assert [entry.name for entry in workspace.list().entries] == [path.components[0]]
        assert [found.path for found in workspace.iterate()][-1] == path
