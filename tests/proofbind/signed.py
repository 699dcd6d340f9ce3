"""Signed documents of tests/data/proofs, and the keys that belong to them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from fable_exec.proofbind.signatures import PinnedKey, SignedDocument

PROOFS = Path(__file__).resolve().parents[1] / "data" / "proofs"
OPENPGP = PROOFS / "openpgp"
SIGNER = "A799AD4CC78A4F7EBAA7B88501EB4D069BBE37A1"
AFTER_SIGNING = 1_796_000_000
"""A time after all signatures of the vectors were made, so that a machine's clock does not matter."""


def signed_document(body: dict[str, Any], verification: dict[str, Any]) -> SignedDocument:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    return SignedDocument(
        canonical=canonical,
        canonical_sha256=hashlib.sha256(canonical).hexdigest(),
        verification=verification,
        run_id=body.get("run_id", ""),
    )


def vector(name: str) -> SignedDocument:
    body = json.loads((PROOFS / f"{name}.proof.json").read_bytes())
    return signed_document(body, body.pop("verification"))


def openpgp(name: str, text: str = '{"a":1}') -> SignedDocument:
    return signed_document(json.loads(text), {"gpg_signature": (OPENPGP / f"{name}.asc").read_text()})


def pinned(*names: str, **fields: str) -> tuple[PinnedKey, ...]:
    """Keys of the vectors by name, or with a slash those of tests/data/proofs/openpgp."""
    paths = [OPENPGP / f"{name[4:]}.pub.asc" if name.startswith("own/") else PROOFS / "gpg" / f"{name}.pub.asc" for name in names]
    return tuple(PinnedKey(public_key=path.read_bytes(), **fields) for path in paths)
