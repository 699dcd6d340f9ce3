"""`fable-exec attest`: sign what a supervised execution was and what it left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fable_exec.attest import ExecutionFacts, PrivateKey, RecordedProof, TreeFacts, attest, link, link_file_name
from fable_exec.attest.bundles import write_bundle
from fable_exec.cli.attestation_options import ARTIFACTS, digests, named
from fable_exec.cli.digest_progress import shown_progress
from fable_exec.cli.exits import Exit
from fable_exec.cli.inputs import AS_JSON, one_digest
from fable_exec.cli.outlets import Outlet
from fable_exec.cli.showing import print_object, say
from fable_exec.cli.supervise.options import ID, ROOT, door, found_in
from fable_exec.errors import InvalidRequest
from fable_exec.supervisor import Supervisor
from fable_exec.treedigest import TreeDigest, tree_digest

__all__ = ["command"]


@click.command("attest")
@ROOT
@click.option("--key", "key_file", metavar="FILE", required=True, help="Private key in PEM, mode 0600.")
@click.option("--materials", metavar="DIGEST", callback=one_digest, help="Digest of the tree before the run.")
@ARTIFACTS
@click.option(
    "--link", "steps", metavar="STEP=DIR", multiple=True, callback=named, help="Write an in-toto Link into DIR as well."
)
@AS_JSON
@ID
def command(
    root: str | None, key_file: str, materials: str | None, artifacts: Mapping[str, str], steps: Mapping[str, str], as_json: bool,
    execution_id: str,
) -> int:  # fmt: skip
    """Sign what an execution was, and the tree that it left; print one line, a DSSE envelope.

    That is the tree that its proof was bound to, with the proof, or else what its workspace is now.

    Collect such lines in a file that ends in .intoto.jsonl. Needs the extra `sign`.

    \b
    Exit status: 0 when it is signed, or
      1      the tree has no digest now, or a file cannot be read
      2      it has not ended, or the key lies in its workspace
      4      no such execution
      5      whose the key is, or what the execution was, cannot be verified
    """

    def act() -> int:
        with Supervisor(root) as supervisor:
            document = found_in(supervisor, execution_id).document
        execution = ExecutionFacts.of_state(document, materials_sha256=materials)
        key = _key_outside(key_file, Path(document["workspace"]))
        proof = RecordedProof.of_state(document)
        found = _looked_at(document) if proof is None or steps else None
        tree = TreeFacts.of_state(document) if found is None or proof is not None else found[1]
        envelope = attest(key, execution, tree, proof=proof, artifacts=digests(artifacts))
        for step, directory in steps.items():
            assert found is not None
            _write_link(key, step, Path(directory), execution, found[0])
        if as_json:
            print_object({"ok": True, "keyid": key.keyid, "sha256": tree.sha256, "envelope": json.loads(envelope.to_json())})
        else:
            Outlet(1).write(write_bundle([envelope]))
        return Exit.OK

    return door(act, as_json)


def _looked_at(document: Mapping[str, Any]) -> tuple[TreeDigest, TreeFacts]:
    """What the workspace is now."""
    read_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    engine_directory = _engine_directory(document)
    with shown_progress() as on_progress:
        found = tree_digest(document["workspace"], engine_directory=engine_directory, on_progress=on_progress)
    told = TreeFacts(
        sha256=found.sha256, profile=found.profile, level=found.level, engine_directory=engine_directory,
        unproven=found.unproven, read_at=read_at,
    )  # fmt: skip
    return found, told


def _key_outside(path: str, workspace: Path) -> PrivateKey:
    """The key. In the workspace the job could have read it, and whoever has it can sign anything."""
    if Path(path).resolve().is_relative_to(workspace):
        raise InvalidRequest(f"the key {path} lies in the workspace, where the job could read it; keep it elsewhere")
    return PrivateKey.load(path)


def _engine_directory(document: Mapping[str, Any]) -> str | None:
    """The job's own state directory, where that is one at the top of the workspace."""
    path = Path(document["engine_dir"])
    return path.name if path.parent == Path(document["workspace"]) else None


def _write_link(key: PrivateKey, step: str, directory: Path, execution: ExecutionFacts, found: TreeDigest) -> None:
    if found.manifest is None:
        raise InvalidRequest("a tree without a manifest has no products")
    envelope = link(key, step, execution.argv, found.manifest, exit_code=execution.exit_code)
    path = directory / link_file_name(step, envelope)
    with path.open("xb") as file:
        file.write(write_bundle([envelope]))
    say(f"wrote {path}")
