"""in-toto Links: the files of a tree as in-toto would record them, links to files included, and nothing from outside the tree."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from fable_exec.attest import Envelope, link, link_file_name
from fable_exec.attest.attesting import sign
from fable_exec.attest.statements import PAYLOAD_TYPE
from fable_exec.errors import InvalidRequest
from fable_exec.treedigest import Manifest, Profile, tree_digest
from tests.attest.made import INTEROP, KEYS, interop_key

KEY, OWNER = KEYS["ed25519"], KEYS["p256"]


def recorded(directory: Path) -> dict[str, dict[str, str]]:
    """What in-toto records: every name that is a file once links are followed, directories behind links left out."""
    found = {}
    for top, _, names in os.walk(directory):
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
    assert {"to_file", "through", "to_link", "dir_then_up", "sub/deep/far"} <= recorded(tree).keys()
    assert (found["_type"], found["name"], found["command"], found["byproducts"], found["environment"], found["materials"]) == (
        "link", "build", ["make"], {"return-value": 0}, {}, {},
    )  # fmt: skip


def test_what_a_link_finds_outside_is_not_vouched_for(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tree / "out").symlink_to("../secret")
    (tree / "absolute").symlink_to(tree / "a")
    (tree / "back").symlink_to("../tree/a")
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
    probe.symlink_to(target)
    found = payload(link(KEY, "build", [], manifest_of(tree)))["products"]
    expected = recorded(tree)
    if not probe.resolve().is_relative_to(tree) or _leaves(tree, target):
        expected.pop("sub/probe", None)
    assert found == expected


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


@pytest.mark.requires_ability("in_toto")
def test_in_toto_verify_accepts_a_link_and_refuses_it_after_an_edit(tree: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    envelope = link(KEY, "build", ["make"], manifest_of(tree))
    (links / link_file_name("build", envelope)).write_bytes(envelope.to_json())
    (tmp_path / "root.layout").write_bytes(sign(OWNER, PAYLOAD_TYPE, json.dumps(_layout()).encode()).to_json())
    (tmp_path / "owner.pem").write_text(OWNER.public.pem)
    command = [
        sys.executable, "-c", "import sys; from in_toto.in_toto_verify import main; sys.exit(main())", "--link-dir", str(links),
        "--layout", str(tmp_path / "root.layout"), "--verification-keys", str(tmp_path / "owner.pem"),
    ]  # fmt: skip
    accepted = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert accepted.returncode == 0, accepted.stderr
    (tree / "a").write_text("A")
    assert subprocess.run(command, cwd=tree, capture_output=True).returncode != 0


def _layout() -> dict[str, object]:
    public = KEY.public
    key = {
        "keyid": public.keyid, "keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": public.der[-32:].hex()},
    }  # fmt: skip
    rules = [["MATCH", "*", "WITH", "PRODUCTS", "FROM", "build"], ["DISALLOW", "*"]]
    return {
        "_type": "layout", "expires": "2099-01-01T00:00:00Z", "readme": "", "keys": {public.keyid: key},
        "steps": [{
            "_type": "step", "name": "build", "pubkeys": [public.keyid], "threshold": 1, "expected_command": [],
            "expected_materials": [], "expected_products": [["ALLOW", "*"]],
        }],
        "inspect": [{
            "_type": "inspection", "name": "check", "run": ["true"], "expected_materials": rules, "expected_products": [],
        }],
    }  # fmt: skip
