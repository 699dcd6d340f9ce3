"""The flags of `supervise start` that say what the proof of a job has to be."""

from __future__ import annotations

from typing import Any

import click

from fable_exec.cli.inputs import MAX_KEY_BYTES, contents
from fable_exec.cli.showing import one_line
from fable_exec.errors import ExtraMissing, StateUnreadable
from fable_exec.executions.proofterms import ProofTerms

__all__ = ["PROOF_GPG_KEYS", "PROOF_JWKS", "PROOF_PROFILE", "PROOF_REQUIRE", "SIGNING_KEY", "proof_terms"]


def _text(path: str) -> str:
    try:
        return contents(path, MAX_KEY_BYTES).decode("ascii")
    except UnicodeDecodeError:
        raise click.BadParameter(one_line(f"{path}: is not written in ASCII (gpg --armor --export)")) from None


def _texts(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_text, given))


def _key_set(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    return None if given is None else _text(given)


def _usable(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """The path of a key that the keeper will be able to sign with: it would tell its log alone."""
    if given is None:
        return None
    from fable_exec.keypairs import PrivateKey  # few sign

    try:
        PrivateKey.load(given)
    except OSError as error:
        raise click.BadParameter(one_line(f"{given}: {error.strerror}")) from None
    except (StateUnreadable, ExtraMissing) as error:
        raise click.BadParameter(one_line(str(error))) from None
    return given


PROOF_REQUIRE = click.option(
    "--proof-require", metavar="AXIS", multiple=True, help="What must pass of a proof as well; repeated. [default: diff]"
)
PROOF_GPG_KEYS = click.option(
    "--proof-gpg-key", metavar="FILE", multiple=True, callback=_texts, help="A public key whose signature of a proof counts."
)
PROOF_JWKS = click.option("--proof-jwks", metavar="FILE", callback=_key_set, help="A key set whose tokens of a proof count.")
PROOF_PROFILE = click.option("--proof-profile", metavar="NAME", help="Which digest of the tree it names. [default: loki-v3]")
SIGNING_KEY = click.option(
    "--attest-key", metavar="FILE", callback=_usable, help="Private key that attests an execution whose proof is bound."
)


def proof_terms(
    *,
    proof_require: tuple[str, ...],
    proof_gpg_key: tuple[str, ...],
    proof_jwks: str | None,
    proof_profile: str | None,
    attest_key: str | None,
) -> ProofTerms | None:
    """What the flags say; None where none was given."""
    given: dict[str, Any] = {
        "required": proof_require,
        "gpg_keys": proof_gpg_key,
        "jwks": proof_jwks,
        "profile": proof_profile,
        "signing_key": attest_key,
    }
    told = {name: value for name, value in given.items() if value}
    return ProofTerms(**told) if told else None
