"""From the flags of `supervise start` to what is to be executed. What is refused is told by the flag that gave it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fable_exec.cli.supervise.proofs import proof_terms
from fable_exec.errors import InvalidRequest
from fable_exec.executions.spec import MAX_SPEC_BYTES, ExecutionSpec
from fable_exec.policy import BrokerPolicy, read_document

if TYPE_CHECKING:
    from fable_exec.seatbelt import HostBoundary

__all__ = ["specification"]

_FLAGS = {
    "argv": "the command:",
    "engine_dir": "--engine-dir",
    "environment": "--env",
    "hard_timeout_seconds": "--hard-timeout",
    "idle_timeout_seconds": "--idle-timeout",
    "labels": "--label",
    "proof": "--proof-... and --attest-key: proof",
    "provider": "--provider",
    "restart_delay_seconds": "--restart-delay",
    "restarts": "--restarts",
    "spec_text": "--spec",
    "stop_grace_seconds": "--stop-grace",
}


_OF_PROOFS = ("proof_require", "proof_gpg_key", "proof_jwks", "proof_profile", "attest_key")


def specification(
    argv: Sequence[str],
    workspace: str,
    *,
    spec_file: str | None,
    policy_file: str | None,
    boundary_file: str | None,
    **members: Any,
) -> ExecutionSpec:
    """What the flags ask for.

    Args:
        members: of ExecutionSpec, those that need no file; None is not said.

    Raises:
        InvalidRequest, PolicyError: what is wrong, by the flag or the place in the policy's or the boundary's file.
    """
    flags = {name: members.pop(name) for name in _OF_PROOFS}
    given = {name: value for name, value in members.items() if value is not None}
    with _as_typed():
        return ExecutionSpec(
            argv=tuple(argv),
            workspace=_directory(workspace),
            policy=None if policy_file is None else _policy(policy_file, workspace),
            boundary=None if boundary_file is None else _boundary(boundary_file),
            spec_text=None if spec_file is None else _text_of(spec_file),
            proof=proof_terms(**flags),
            **given,
        )


@contextmanager
def _as_typed() -> Iterator[None]:
    try:
        yield
    except InvalidRequest as error:
        member, _, rule = str(error).partition(" ")
        raise error.reworded(f"{_FLAGS.get(member, member)} {rule}") from None


def _directory(path: str) -> str:
    if not os.path.isdir(path):
        raise InvalidRequest(f"--workspace must be an existing directory: {ascii(path)[:400]}")
    return path


def _policy(file: str, workspace: str) -> BrokerPolicy:
    document: Mapping[str, Any] = {**read_document(file), "workspace": workspace}
    return BrokerPolicy.from_mapping(document, given_by={"workspace": "--workspace"})


def _boundary(file: str) -> HostBoundary:
    from fable_exec.seatbelt import HostBoundary  # few have one

    return HostBoundary.from_toml(file)


def _text_of(file: str) -> str:
    """A regular file, or whatever our standard input is: never more than a specification may have.

    Anything else might be waited for for ever, as a FIFO that nobody writes to.
    """
    try:
        with open(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK), "rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode) and not os.path.samestat(status, os.fstat(0)):
                raise InvalidRequest(f"--spec must be a regular file, or /dev/stdin: {ascii(file)[:400]}")
            os.set_blocking(opened.fileno(), True)
            content = opened.read(MAX_SPEC_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(f"--spec cannot be read: {ascii(file)[:400]}: {error.strerror}") from None
    if len(content) > MAX_SPEC_BYTES:
        raise InvalidRequest(f"--spec may have {MAX_SPEC_BYTES} bytes at most: {ascii(file)[:400]}")
    return content.decode("utf-8", "surrogateescape")
