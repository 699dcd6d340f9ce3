"""in-toto Links: the files of a tree as in-toto records them, by way of links also, and nothing from outside the tree."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from fable_exec.attest import Envelope, link, link_file_name
from fable_exec.errors import InvalidRequest
from fable_exec.treedigest import Manifest, Profile, tree_digest
from tests.attest.made import INTEROP, KEYS, interop_key

KEY = KEYS["ed25519"]


def recorded(directory: Path) -> dict[str, dict[str, str]]:
    """What in-toto records: every name that is a file once links are followed, to directories also."""
    found = {}
    for top, _, names in os.walk(directory, followlinks=True):
        for name in names:
            path = Path(top, name)
            if path.is_file():
                found[str(path.relative_to(directory))] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return found


def manifest_of(directory: Path, profile: Profile = Profile.TREE) -> Manifest:
    manifest = tree_digest(directory, profile, "fast").manifest
    assert manifest is not None
    return manifest


def payload(envelope: Envelope) -> dict[str, object]:
    found: dict[str, object] = json.loads(envelope.payload)
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "sub/deep").mkdir(parents=True)
    (top / "a").write_text("a")
    (top / "sub/b").write_text("b")
    (top / "sub/deep/é").write_text("c")
    for name, target in {
        "to_file": "sub/b", "to_dir": "sub", "through": "to_dir/deep/é", "sub/up": "../a", "to_link": "through", "dot": "./a/.",
        "nowhere": "missing", "loop": "loop", "slash": "sub/", "file_then_up": "a/../sub/b", "dir_then_up": "to_deep/../b",
        "to_deep": "sub/deep", "sub/deep/far": "../../to_deep/../up", "empty_end": "to_dir//b",
    }.items():  # fmt: skip
        (top / name).symlink_to(target)
    return top


def test_products_are_what_in_toto_records(tree: Path) -> None:
    found = payload(link(KEY, "build", ["make"], manifest_of(tree), exit_code=0))
    assert found["products"] == recorded(tree)
    assert {"to_file", "through", "to_link", "dir_then_up", "sub/deep/far", "to_dir/deep/é", "slash/b"} <= recorded(tree).keys()
    assert (found["_type"], found["name"], found["command"], found["byproducts"], found["environment"], found["materials"]) == (
        "link", "build", ["make"], {"return-value": 0}, {}, {},
    )  # fmt: skip


def test_what_a_link_finds_outside_is_not_vouched_for(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tree / "out").symlink_to("../secret")
    (tree / "absolute").symlink_to(tree / "a")
    (tree / "back").symlink_to("../tree/a")
    (tree / "top").symlink_to("/a")
    products = payload(link(KEY, "build", ["make"], manifest_of(tree)))["products"]
    assert products == {name: digest for name, digest in recorded(tree).items() if name not in ("out", "absolute", "back")}


@hypothesis.settings(max_examples=50, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(
    st.lists(st.sampled_from(["a", "b", "sub", "deep", "up", "to_dir", "to_deep", "through", "..", ".", ""]), min_size=1)
)
def test_any_link_leads_where_the_kernel_says(tree: Path, parts: list[str]) -> None:
    target = "/".join(parts).lstrip("/") or "."
    probe = tree / "sub/probe"
    probe.unlink(missing_ok=True)
    without = recorded(tree)
    probe.symlink_to(target)
    if leaves := _leaves(tree, target):
        hypothesis.event("leaves the tree")
    else:
        hypothesis.assume(not probe.parent.is_relative_to(probe.resolve()))  # below, for there a name has no end
    assert payload(link(KEY, "build", [], manifest_of(tree)))["products"] == (without if leaves else recorded(tree))


def test_a_link_to_where_it_lies_is_followed_as_often_as_the_kernel_does(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "here").symlink_to(".")
    (tmp_path / "to_here").symlink_to("here/a")
    products = payload(link(KEY, "build", [], manifest_of(tmp_path)))["products"]
    assert products == recorded(tmp_path)
    assert isinstance(products, dict)
    assert "here/" * 40 + "a" in products and "here/" * 38 + "to_here" in products
    assert "here/" * 41 + "a" not in products and "here/" * 39 + "to_here" not in products


def test_two_links_to_where_they_lie_give_more_names_than_anybody_records(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "here").symlink_to(".")
    (tmp_path / "there").symlink_to(".")
    with pytest.raises(InvalidRequest, match="through links to directories have more than 67108864 characters"):
        link(KEY, "build", [], manifest_of(tmp_path))


def _leaves(tree: Path, target: str) -> bool:
    """Whether the way leads through what is above the tree, from where it may come back."""
    here = tree / "sub"
    for part in target.split("/"):
        here = (here / part).resolve()
        if not here.is_relative_to(tree):
            return True
    return False


def test_materials_and_products_are_two_trees(tree: Path) -> None:
    before = manifest_of(tree)
    (tree / "made").write_text("new")
    found = payload(link(KEY, "build", ["make"], manifest_of(tree), materials=before, exit_code=2))
    materials, products = found["materials"], found["products"]
    assert isinstance(materials, dict) and isinstance(products, dict)
    assert products.keys() - materials.keys() == {"made"}
    assert found["byproducts"] == {"return-value": 2}


def test_its_file_is_called_as_in_toto_expects_and_so_is_the_vector() -> None:
    vector = INTEROP / "agent-run.9ed1f7b5.link"
    envelope = Envelope.from_json(vector.read_bytes())
    assert link_file_name("agent-run", envelope) == vector.name
    assert interop_key("ed25519").verify(envelope.signatures[0].value, envelope.signed_bytes)
    layout = Envelope.from_json((INTEROP / "root.layout").read_bytes())
    assert interop_key("owner").verify(layout.signatures[0].value, layout.signed_bytes)
    assert not interop_key("owner").verify(envelope.signatures[0].value, envelope.signed_bytes)


def test_what_a_link_cannot_hold_is_refused(tree: Path) -> None:
    manifest = manifest_of(tree)
    for step in ("", "a/b"):
        with pytest.raises(InvalidRequest, match="step"):
            link(KEY, step, ["make"], manifest)
    with pytest.raises(InvalidRequest, match="UTF-8"):
        link(KEY, "build", ["\udcff"], manifest)
    (tree / os.fsdecode(b"\xff")).write_text("x")
    with pytest.raises(InvalidRequest, match="UTF-8"):
        link(KEY, "build", ["make"], manifest_of(tree))


@pytest.mark.requires_ability("git")
def test_a_manifest_of_the_other_profile_is_refused(tree: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    with pytest.raises(InvalidRequest, match="profile tree"):
        link(KEY, "build", ["make"], manifest_of(tree, Profile.LOKI_V3))
