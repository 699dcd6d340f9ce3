"""What the proof of a job is worth, once nothing of the job is left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import PathError
from fable_exec.keeper.requests import KeepRequest
from fable_exec.keeper.runs import RunOfJob, workspace_of_job
from fable_exec.proofbind import Axis, BindingPolicy, DriftCheck, ProofBinding, bind
from fable_exec.proofbind.binding import no_workspace
from fable_exec.proofbind.signatures import GpgVerifier, JwtVerifier, PinnedKey, SignatureVerifier
from fable_exec.proofbind.verdict import objections, record_members
from fable_exec.treedigest import Profile

__all__ = ["ProofVerdict", "binding_policy", "proof_of"]

_TREE_SECONDS = 600.0
"""A job may leave a file without end."""


@attrs.frozen
class ProofVerdict:
    """The verdict over a job that was to leave a proof: it is bound, and says that the work was done.

    Args:
        binding: None where no proof could be looked at.
    """

    binding: ProofBinding | None

    def holds(self) -> bool:
        """Whether nothing stands against it."""
        return self.binding is not None and not objections(self.binding)


def proof_of(request: KeepRequest, run: RunOfJob, directory: Path) -> tuple[ProofBinding, dict[str, Any]]:
    """The proof of a job of which nothing is left, kept in the execution's `directory`, and what the record tells of it."""
    assert request.proof is not None
    run.look()
    policy = binding_policy(request.proof)
    try:
        with workspace_of_job(request.workspace) as held:
            binding = bind(
                held, request.engine_directory, directory, baseline_run_id=run.baseline, run_id=run.run_id,
                started_at=run.begun_at, policy=policy,
            )  # fmt: skip
    except PathError as error:
        binding = no_workspace(run.run_id, error)
    return binding, record_members(binding, policy.check)


def binding_policy(terms: Mapping[str, Any]) -> BindingPolicy:
    """What a proof needs, of ProofTerms on the wire.

    Raises:
        InvalidRequest: `jwks` is no key set.
        ValueError: a word is none of an Axis or a Profile.
    """
    return BindingPolicy(
        required=frozenset(Axis(word) for word in terms["required"]),
        verifiers=tuple(_verifiers(terms)),
        check=DriftCheck(profile=Profile(terms["profile"]), tree_deadline_seconds=_TREE_SECONDS),
    )


def _verifiers(terms: Mapping[str, Any]) -> Iterator[SignatureVerifier]:
    if terms["gpg_keys"]:
        yield GpgVerifier(keys=[PinnedKey(public_key=os.fsencode(text)) for text in terms["gpg_keys"]])
    if terms["jwks"]:
        yield JwtVerifier.from_jwks(terms["jwks"].encode())
