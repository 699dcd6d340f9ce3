"""The attestation of an execution whose proof is bound: signed once its end is recorded, with a key out of the job's reach."""

from __future__ import annotations

from fable_exec.attest import ExecutionFacts, PrivateKey, RecordedProof, TreeFacts, attest, write_bundle
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.names import ATTESTATION_NAME
from fable_exec.pathguard import Workspace, WorkspacePath

__all__ = ["write_attestation"]


def write_attestation(directory: ExecutionDirectory, key_file: str) -> None:
    """Sign what the record of an ended execution says of it, and of its bound proof.

    Raises:
        FableExecError, OSError: there is no key, or no attestation could be written; `fable-exec attest` makes one later.
    """
    reading = directory.state.read()
    document = {} if reading is None else reading.document
    execution, proof = ExecutionFacts.of_state(document), RecordedProof.of_state(document)
    envelope = attest(PrivateKey.load(key_file), execution, TreeFacts.of_state(document), proof=proof)
    with Workspace.open(directory.path) as held:
        held.write_replace(WorkspacePath(components=(ATTESTATION_NAME,)), write_bundle([envelope]))
