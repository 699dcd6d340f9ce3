"""`fable-exec proof`: whether a proof document can be believed, is of a working tree, and is of a run that has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from fable_exec.cli.engine_directory import one_name
from fable_exec.cli.exits import Exit
from fable_exec.cli.inputs import AS_JSON, MAX_KEY_BYTES, contents
from fable_exec.cli.showing import at_the_door, one_line, print_object, print_text, say
from fable_exec.errors import InvalidRequest
from fable_exec.proofbind import (
    Axis,
    AxisResult,
    BindingPolicy,
    DriftCheck,
    IntegrityResult,
    ProofBinding,
    ProofDocument,
    bind,
    verify,
    verify_integrity,
)
from fable_exec.proofbind.axes import axes_members
from fable_exec.proofbind.headline import derived_headlines, recorded_headline
from fable_exec.proofbind.signatures import GpgVerifier, JwtVerifier, PinnedKey, SignatureVerifier
from fable_exec.strictjson import MAX_DOCUMENT_BYTES
from fable_exec.treedigest import Level, Profile

__all__ = ["command"]


@click.group("proof")
def command() -> None:
    """Check proof documents (receipts) that runs leave."""


def _document(_: click.Context, __: click.Parameter, given: str) -> tuple[str, bytes]:
    return given, contents(given, MAX_DOCUMENT_BYTES)


def _gpg(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[SignatureVerifier]:
    keys = [PinnedKey(public_key=contents(path, MAX_KEY_BYTES)) for path in given]
    return [GpgVerifier(keys=keys)] if keys else []


def _jwks(_: click.Context, __: click.Parameter, given: str | None) -> list[SignatureVerifier]:
    if given is None:
        return []
    try:
        return [JwtVerifier.from_jwks(contents(given, MAX_KEY_BYTES))]
    except InvalidRequest as error:
        raise click.BadParameter(one_line(f"{given}: {error}")) from error


def _axes(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[Axis]:
    return [Axis(value) for value in given]


_AXES = click.Choice([each.value for each in Axis])
_FILE = click.argument("file", type=click.UNPROCESSED, callback=_document)
_GPG = click.option("--gpg-key", "gpg", metavar="FILE", multiple=True, callback=_gpg, help="A public key whose signature counts.")
_JWKS = click.option("--jwks", metavar="FILE", callback=_jwks, help="A key set whose tokens count.")
_REQUIRE = click.option("--require", multiple=True, type=_AXES, callback=_axes, help="What must pass besides; repeated for more.")
_ENGINE = click.option(
    "--engine-dir",
    metavar="NAME",
    default=".loki",
    show_default=True,
    callback=one_name,
    help="The run's own directory, whose content does not count; of a supervised job it is .fable.",
)
_PROFILE = click.option(
    "--profile", type=click.Choice([each.value for each in Profile]), default=Profile.LOKI_V3.value, show_default=True,
    help="Which digest of the tree the document names.",
)  # fmt: skip
_LEVEL = click.option(
    "--level", type=click.Choice([each.value for each in Level]), default=Level.STABLE.value, show_default=True,
    help="What the digest promises of a tree that somebody may be changing.",
)  # fmt: skip


@command.command("verify")
@click.option("--repo", metavar="DIR", default=".", help="The working tree that it is of.  [default: this directory]")
@_ENGINE
@_PROFILE
@_LEVEL
@_GPG
@_JWKS
@_REQUIRE
@AS_JSON
@_FILE
def verify_command(
    repo: str, engine_dir: str, profile: str, level: str, gpg: list[SignatureVerifier], jwks: list[SignatureVerifier],
    require: list[Axis], as_json: bool, file: tuple[str, bytes],
) -> int:  # fmt: skip
    """Tell whether the document in FILE can be believed, and the working tree still is what it says.

    git is not run in the tree, and nothing in it is changed.

    Exit status: 0 when all of it holds, 1 when something does not or could not be checked, 2 when FILE is no such document.
    """
    name, data = file

    def act() -> int:
        check = DriftCheck(engine_directory=engine_dir, profile=profile, level=level)
        result = verify(data, repo, [*gpg, *jwks], required=require, check=check)
        if as_json:
            print_object(result.members())
        else:
            document = result.integrity.document
            _tell(result.ok, name, "" if document is None else _summary(document), result.shortcomings)
        if result.integrity.document is None:
            return Exit.USAGE
        return Exit.OK if result.ok else Exit.FAILED

    return at_the_door(act, as_json=as_json)


@command.command("bind")
@click.option("--into", metavar="DIR", required=True, help="Where the proof is kept: private to you, outside the workspace.")
@click.option("--baseline", metavar="RUN_ID", default="", help="The run that was there before this one was started.")
@click.option("--run-id", metavar="RUN_ID", default="", help="The run.  [default: the one that the engine's directory names]")
@_ENGINE
@_PROFILE
@_LEVEL
@_GPG
@_JWKS
@click.option(
    "--require", multiple=True, type=_AXES, default=[Axis.DIFF.value], show_default=True, callback=_axes,
    help="What must pass besides what always must; repeated for more.",
)  # fmt: skip
@AS_JSON
@click.argument("workspace", type=click.UNPROCESSED)
def bind_command(
    into: str, baseline: str, run_id: str, engine_dir: str, profile: str, level: str, gpg: list[SignatureVerifier],
    jwks: list[SignatureVerifier], require: list[Axis], as_json: bool, workspace: str,
) -> int:  # fmt: skip
    """Keep the proof that a run left in WORKSPACE, and tell whether it is of that run and of the tree as it is.

    The run must have ended, with all its processes.

    Exit status: 0 when it is bound, 1 when it is not.
    """

    def act() -> int:
        policy = BindingPolicy(required=require, verifiers=[*gpg, *jwks], check=DriftCheck(profile=profile, level=level))
        binding = bind(workspace, engine_dir, into, baseline_run_id=baseline, run_id=run_id, policy=policy)
        if as_json:
            print_object({"ok": binding.bound, **binding.members()})
        else:
            _tell(binding.bound, workspace, _kept(binding), binding.shortcomings)
        return Exit.OK if binding.bound else Exit.FAILED

    return at_the_door(act, as_json=as_json)


@command.command("show")
@_GPG
@_JWKS
@AS_JSON
@_FILE
def show_command(gpg: list[SignatureVerifier], jwks: list[SignatureVerifier], as_json: bool, file: tuple[str, bytes]) -> int:
    """Print what the document in FILE says, and what can be said of it without its working tree.

    Exit status: 0 when it can be read, whatever it is worth, 2 when it cannot.
    """

    def act() -> int:
        result = verify_integrity(file[1], [*gpg, *jwks])
        if as_json:
            print_object(_members(result))
        else:
            print_text("".join(f"{one_line(line)}\n" for line in _lines(result)))
        return Exit.USAGE if result.document is None else Exit.OK

    return at_the_door(act, as_json=as_json)


def _members(result: IntegrityResult) -> dict[str, Any]:
    document = result.document
    return {
        **result.members(), "run_id": "" if document is None else document.run_id,
        "headline": "" if document is None else recorded_headline(document),
        "derived_headlines": _derived(document), "axes": axes_members(result.axes),
    }  # fmt: skip


def _derived(document: ProofDocument | None) -> dict[str, str]:
    return {} if document is None else {name: each.value for name, each in derived_headlines(document).items()}


def _lines(result: IntegrityResult) -> Iterator[str]:
    if result.document is not None:
        yield f"run: {result.document.run_id}"
        yield f"headline: {recorded_headline(result.document)}"
    for name, headline in _derived(result.document).items():
        yield f"headline by {name}: {headline}"
    for gap in result.degraded:
        yield f"gap: {gap}"
    for answer in result.axes:
        why = f" ({answer.reason}: {answer.detail})" if answer.reason else ""
        yield f"{answer.axis.value}: {answer.state.value}{why}"


def _tell(holds: bool, name: str, summary: str, against: Iterable[AxisResult]) -> None:
    """One line if it holds, or else one for each reason why not."""
    if holds:
        say(f"holds: {name}: {summary}")
    for each in against:
        say(f"REFUSED: {name}: {each.detail} ({each.reason})")


def _summary(document: ProofDocument) -> str:
    return f"{recorded_headline(document)}, run {document.run_id}"


def _kept(binding: ProofBinding) -> str:
    return f"{binding.headline}, run {binding.run_id}, kept as {binding.proof_path}"
