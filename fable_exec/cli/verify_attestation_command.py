"""`fable-exec verify-attestation`: whether an attestation is by keys that count, and about what is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import click

from fable_exec.attest import (
    PREDICATE_TYPE,
    TREE_SUBJECT,
    AttestationResult,
    Objection,
    PublicKey,
    Statement,
    read_bundle,
    verify_attestation,
)
from fable_exec.attest.bundles import MAX_BUNDLE_BYTES
from fable_exec.cli.attestation_options import ARTIFACTS, digests, named
from fable_exec.cli.digest_progress import shown_progress
from fable_exec.cli.exits import Exit
from fable_exec.cli.inputs import AS_JSON, contents
from fable_exec.cli.showing import at_the_door, print_object, say
from fable_exec.errors import InvalidRequest, StateUnreadable
from fable_exec.keypairs.public import MAX_PEM_BYTES
from fable_exec.treedigest import Profile, tree_digest
from fable_exec.treedigest.values import is_one_name

__all__ = ["command"]


def _keys(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, bytes]]:
    return [(path, contents(path, MAX_PEM_BYTES)) for path in given]


def _file(_: click.Context, __: click.Parameter, given: str) -> tuple[str, bytes]:
    return given, contents(given, MAX_BUNDLE_BYTES)


@click.command("verify-attestation")
@click.option("--key", "keys", metavar="FILE", multiple=True, required=True, callback=_keys, help="A public key that counts.")
@click.option(
    "--threshold", metavar="N", type=click.IntRange(1), default=1, show_default=True, help="How many of them must sign."
)
@click.option("--workspace", metavar="DIR", help="The tree that it must be about.")
@ARTIFACTS
@click.option("--subject", "subjects", metavar="NAME=DIGEST", multiple=True, callback=named, help="A digest that it must name.")
@click.option("--predicate-type", metavar="URI", default=PREDICATE_TYPE, help="What it must claim.  [default: as `attest` does]")
@AS_JSON
@click.argument("file", type=click.UNPROCESSED, callback=_file)
def command(
    keys: list[tuple[str, bytes]], threshold: int, workspace: str | None, artifacts: Mapping[str, str],
    subjects: Mapping[str, str], predicate_type: str, as_json: bool, file: tuple[str, bytes],
) -> int:  # fmt: skip
    """Tell whether the attestation in FILE holds: one DSSE envelope, or one a line, of which one must hold.

    What it must be about is named by --workspace, --artifact and --subject; with none of them it does not hold. Needs the extra
    `sign`.

    Exit status: 0 when it holds, 1 when it does not, 2 when FILE or a key cannot be read.
    """

    def act() -> int:
        name, data = file
        _refuse_doubled([*artifacts, *subjects, *([] if workspace is None else [TREE_SUBJECT])])
        question = _Question(_public(keys), threshold, predicate_type, {**digests(artifacts), **subjects}, workspace)
        results = [question.asked_of(each) for each in _envelopes(data)]
        ok = any(result.ok for result in results)
        if as_json:
            print_object({"ok": ok, "attestations": [result.to_members() for result in results]})
        else:
            for line in _told(name, results):
                say(line)
        return Exit.OK if ok else Exit.FAILED

    return at_the_door(act, as_json=as_json)


def _refuse_doubled(names: Sequence[str]) -> None:
    """What has two digests could only be about one of them."""
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InvalidRequest(f"{doubled} is given twice")


def _public(keys: Sequence[tuple[str, bytes]]) -> list[PublicKey]:
    try:
        return [PublicKey.from_pem(pem, name=path) for path, pem in keys]
    except StateUnreadable as error:
        raise InvalidRequest(str(error)) from error


def _envelopes(data: bytes) -> tuple[bytes, ...]:
    try:
        return read_bundle(data)
    except StateUnreadable as error:
        raise InvalidRequest(str(error)) from error


@attrs.frozen
class _Question:
    """What is asked of each envelope."""

    keys: list[PublicKey]
    threshold: int
    predicate_type: str
    subjects: Mapping[str, str]
    workspace: str | None
    _trees: dict[tuple[Profile, str | None], str] = attrs.field(factory=dict, init=False)
    """The digests of the workspace, by the rules it was read by; it is read once for all envelopes."""

    def asked_of(self, envelope: bytes) -> AttestationResult:
        """The answer. The workspace is read as the statement says it was read, once a signature vouches for that."""
        if self.workspace is None:
            return self._verified(envelope, self.subjects)
        signed = self._verified(envelope, {})
        if signed.statement is None:
            return signed
        rules = _rules_of(signed.statement)
        if rules not in self._trees:
            self._trees[rules] = _digest_of(self.workspace, *rules)
        if not self._trees[rules]:
            unchecked = Objection("subject-unchecked", f"{self.workspace} has no digest by the rules that the statement names")
            others = (each for each in signed.objections if each.reason != unchecked.reason)
            return attrs.evolve(signed, objections=(*others, unchecked))
        return self._verified(envelope, {**self.subjects, TREE_SUBJECT: self._trees[rules]})

    def _verified(self, envelope: bytes, subjects: Mapping[str, str]) -> AttestationResult:
        return verify_attestation(envelope, self.keys, subjects, predicate_type=self.predicate_type, threshold=self.threshold)


def _rules_of(statement: Statement) -> tuple[Profile, str | None]:
    """By which a statement says that its tree was read: the profile, and the directory that was left out."""
    told: Any = statement.predicate.get("tree")
    rules = told if isinstance(told, dict) else {}
    engine = rules.get("engineDirectory")
    profile = Profile.LOKI_V3 if rules.get("profile") == Profile.LOKI_V3.value else Profile.TREE
    return profile, engine if isinstance(engine, str) else None


def _digest_of(workspace: str, profile: Profile, engine_directory: str | None) -> str:
    """ "" where it has none by those rules: no git worktree, or no name that a directory can have."""
    if engine_directory is not None and not is_one_name(engine_directory):
        return ""
    with shown_progress() as on_progress:
        return tree_digest(workspace, profile, engine_directory=engine_directory, on_progress=on_progress).sha256


def _told(name: str, results: Sequence[AttestationResult]) -> Iterator[str]:
    """A line for each that holds, or else for everything that stands against each."""
    if not results:
        yield f"REFUSED: {name}: it holds no attestation"
    holding = [result for result in results if result.ok]
    for result in holding:
        signers = ", ".join(key.keyid for key in result.signers)
        yield f"holds: {name}: signed by {signers}; {_summary(result)}"
    for number, result in enumerate([] if holding else results, start=1):
        where = f"{name}:{number}" if len(results) > 1 else name
        for objection in result.objections:
            yield f"REFUSED: {where}: {objection.detail} ({objection.reason})"


def _summary(result: AttestationResult) -> str:
    predicate = {} if result.statement is None else result.statement.predicate
    execution = predicate.get("execution")
    ended = execution.get("terminationReason") if isinstance(execution, dict) else None
    proof = "with a bound proof" if result.bound else "without a bound proof"
    return f"the run ended {ended}, {proof}" if ended else proof
