"""The attestation of an execution whose proof is bound: signed once its end is recorded, with a key out of the job's reach."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fable_exec.attest import ExecutionFacts, PrivateKey, TreeFacts, attest, write_bundle
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.names import ATTESTATION_NAME
from fable_exec.proofbind import DriftCheck, ProofBinding

__all__ = ["write_attestation"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_attestation(directory: ExecutionDirectory, binding: ProofBinding, looked: DriftCheck, key_file: str) -> None:
    """Sign what the record of an ended execution says and the tree that its bound proof names.

    Args:
        looked: how the tree was looked at.

    Raises:
        FableExecError, OSError: there is no key, or no attestation could be written; `fable-exec attest` makes one later.
    """
    reading = directory.state.read()
    document = {} if reading is None else reading.document
    tree = TreeFacts(
        sha256=binding.tree_sha256, profile=looked.profile, level=looked.level, engine_directory=looked.engine_directory
    )  # fmt: skip
    envelope = attest(PrivateKey.load(key_file), ExecutionFacts.of_state(document), tree, proof=binding)
    _write_whole(directory.path / ATTESTATION_NAME, write_bundle([envelope]))


def _write_whole(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with os.fdopen(os.open(unfinished, _NEW, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
