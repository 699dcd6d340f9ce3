"""Facts, keys and bindings to attest, and the vectors of tests/data/proofs/interop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from fable_exec.attest import ExecutionFacts, PrivateKey, PublicKey, TreeFacts
from fable_exec.outcome import Applied
from fable_exec.proofbind import Axis, AxisResult, AxisState

INTEROP = Path(__file__).resolve().parents[1] / "data" / "proofs" / "interop"
TREE, DOCUMENT = "a" * 64, "b" * 64
KEYS = {algorithm: PrivateKey.generate(algorithm) for algorithm in ("ed25519", "p256")}
OTHER = PrivateKey.generate()
RUN = ExecutionFacts(
    argv=("make", "test", "caf\u00e9", "\udcff"), policy_digest="c" * 64, execution_id="00000000-0000-4000-8000-000000000000",
    confinement=[
        Applied("network", "strict", "active", "network namespace"), Applied("host_reads", "degradable", "degraded", "", "x"),
    ],
    materials_sha256="d" * 64, termination_reason="completed", exit_code=0, started_at="2026-01-02T03:04:05Z",
    finished_at="2026-01-02T03:04:06Z",
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Binding:
    """What `attest` needs of a bound proof."""

    bound: bool = True
    run_id: str = "run-1"
    headline: str = "VERIFIED"
    tree_sha256: str = TREE
    document_sha256: str = DOCUMENT
    axes: tuple[AxisResult, ...] = (AxisResult(Axis.HASH, AxisState.PASS),)


def tree(**fields: Any) -> TreeFacts:
    return TreeFacts(sha256=TREE, **fields)


def interop_key(name: str) -> PublicKey:
    return PublicKey.from_pem((INTEROP / f"{name}.pub.pem").read_bytes())
