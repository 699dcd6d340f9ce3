"""`in-toto-verify` takes a Link of ours as the evidence of a step, and none that was tampered with; what it records, we do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.attest import Envelope, PrivateKey, attest, link, link_file_name
from fable_exec.attest.attesting import sign
from fable_exec.attest.statements import PAYLOAD_TYPE
from fable_exec.treedigest import Manifest, tree_digest
from tests.attest.attacks import changed, signed_twice, under_the_name_of, with_a_byte_changed, with_payload
from tests.attest.made import KEYS, OTHER, RUN
from tests.attest.made import tree as tree_facts

pytestmark = pytest.mark.requires_ability("in_toto")

KEY, OWNER = KEYS["ed25519"], KEYS["p256"]
PROGRAM = "import sys; from in_toto.in_toto_verify import main; sys.exit(main())"


@attrs.frozen
class Step:
    """A tree, and beside it the layout that somebody else wrote of the one step that made it."""

    tree: Path
    links: Path

    def manifest(self) -> Manifest:
        found = tree_digest(self.tree, level="fast").manifest
        assert found is not None
        return found

    def link(self) -> Envelope:
        return link(KEY, "build", ["make"], self.manifest(), exit_code=0)

    def refused(self, link_file: bytes) -> str:
        """What `in-toto-verify` has against a file where the Link should be; empty if it takes it."""
        (self.links / link_file_name("build", self.link())).write_bytes(link_file)
        argv = [sys.executable, "-c", PROGRAM, "--link-dir", str(self.links), "--layout", str(self.links / "root.layout")]
        owner = ["--verification-keys", str(self.links / "owner.pem")]
        finished = subprocess.run([*argv, *owner], cwd=self.tree, capture_output=True, text=True)
        assert finished.returncode in (0, 1) and (finished.returncode == 0 or finished.stderr)
        return finished.stderr if finished.returncode else ""


@pytest.fixture
def step(tmp_path: Path) -> Step:
    step = Step(tmp_path / "tree", tmp_path / "links")
    (step.tree / "sub/deep").mkdir(parents=True)
    step.links.mkdir()
    for name, text in {"a": "a", "sub/b": "b", "sub/deep/\u00e9": "c"}.items():
        (step.tree / name).write_text(text)
    for name, target in {
        "to_file": "sub/b",
        "to_dir": "sub",
        "through": "to_dir/deep/\u00e9",
        "nowhere": "missing",
        "loop": "loop",
    }.items():
        (step.tree / name).symlink_to(target)
    (step.links / "root.layout").write_bytes(sign(OWNER, PAYLOAD_TYPE, json.dumps(_layout()).encode()).to_json())
    (step.links / "owner.pem").write_text(OWNER.public.pem)
    return step


def _layout() -> dict[str, object]:
    public = KEY.public
    key = {
        "keyid": public.keyid, "keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": public.der[-32:].hex()},
    }  # fmt: skip
    rules = [["MATCH", "*", "WITH", "PRODUCTS", "FROM", "build"], ["DISALLOW", "*"]]
    return {
        "_type": "layout", "expires": "2099-01-01T00:00:00Z", "readme": "", "keys": {public.keyid: key},
        "steps": [{
            "_type": "step", "name": "build", "pubkeys": [public.keyid], "threshold": 1, "expected_command": ["make"],
            "expected_materials": [], "expected_products": [["ALLOW", "*"]],
        }],
        "inspect": [{
            "_type": "inspection", "name": "check", "run": ["true"], "expected_materials": rules, "expected_products": [],
        }],
    }  # fmt: skip


def test_it_takes_our_link_for_the_tree_as_it_was_left_and_for_no_other(step: Step) -> None:
    data = step.link().to_json()
    assert step.refused(data) == ""
    (step.tree / "a").write_text("A")
    assert "RuleVerificationError" in step.refused(data)


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # of pathspec, about in-toto
def test_it_records_the_names_and_digests_that_we_do(step: Step) -> None:
    from in_toto.runlib import record_artifacts_as_dict

    (step.tree / "sub/here").symlink_to(".")
    theirs = record_artifacts_as_dict(["."], base_path=str(step.tree), follow_symlink_dirs=True)
    assert json.loads(step.link().payload)["products"] == theirs
    assert {"to_dir/deep/\u00e9", "to_dir/here/here/b"} <= theirs.keys()


def _swapped(data: bytes) -> bytes:
    def swap(found: dict[str, Any]) -> None:
        products = found["products"]
        products["a"], products["sub/b"] = products["sub/b"], products["a"]

    return with_payload(data, lambda payload: changed(payload, swap))


def _signed_anew(data: bytes, key: PrivateKey = KEY) -> bytes:
    return sign(key, PAYLOAD_TYPE, Envelope.from_json(data).payload).to_json()


def _a_statement(data: bytes) -> bytes:
    return with_payload(data, lambda _: attest(KEY, RUN, tree_facts()).payload)


UNSIGNED, UNLIKE, FOREIGN = "ThresholdVerificationError", "RuleVerificationError", "InvalidMetadata"
ATTACKS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a byte of the payload changed": (lambda data: with_a_byte_changed(data, "payload", 100), UNSIGNED),
    "a byte of the signature changed": (lambda data: with_a_byte_changed(data, "sig", 10), UNSIGNED),
    "a byte of its type changed": (lambda data: with_a_byte_changed(data, "payloadType", 0), FOREIGN),
    "products swapped": (_swapped, UNSIGNED),
    "products swapped and signed": (lambda data: _signed_anew(_swapped(data)), UNLIKE),
    "a statement in its place": (_a_statement, UNSIGNED),
    "a statement in its place, signed": (lambda data: _signed_anew(_a_statement(data)), FOREIGN),
    "the signature twice": (signed_twice, "Multiple signatures"),
    "no signature": (lambda data: changed(data, lambda found: found.update(signatures=[])), UNSIGNED),
    "a signature of another key": (lambda data: _signed_anew(data, OTHER), UNSIGNED),
    "a signature of another key under the name of ours": (
        lambda data: under_the_name_of(_signed_anew(data, OTHER), KEY.public.keyid), UNSIGNED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_it_refuses_our_link_after(attack: str, step: Step) -> None:
    make, reason = ATTACKS[attack]
    assert reason in step.refused(make(step.link().to_json()))
