"""The attestation of an execution whose proof is bound: signed once its end is recorded, with a key out of the job's reach."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fable_exec.attest import ExecutionFacts, PrivateKey, RecordedProof, TreeFacts, attest, write_bundle
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.names import ATTESTATION_NAME

__all__ = ["write_attestation"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_attestation(directory: ExecutionDirectory, key_file: str) -> None:
    """Sign what the record of an ended execution says of it, and of its bound proof.

    Raises:
        FableExecError, OSError: there is no key, or no attestation could be written; `fable-exec attest` makes one later.
    """
    reading = directory.state.read()
    document = {} if reading is None else reading.document
    execution, proof = ExecutionFacts.of_state(document), RecordedProof.of_state(document)
    envelope = attest(PrivateKey.load(key_file), execution, TreeFacts.of_state(document), proof=proof)
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
