"""Keys that sign and keys that verify: Ed25519, and P-256 for tools that know nothing else. Using one needs the extra `sign`.

It knows no format but that of keys: what is signed, and what a signature means, is decided above.
"""

from __future__ import annotations

from fable_exec.keypairs.private import PrivateKey
from fable_exec.keypairs.public import Algorithm, PublicKey

__all__ = ["Algorithm", "PrivateKey", "PublicKey"]
