"""One digest of a whole directory tree, and the manifest that says what it binds.

`tree_digest` reads a tree; `verify` tells what differs from a manifest that was kept; `diff` compares two manifests. The profile
`tree` is our own; `loki-v3` gives the digests of Loki receipts. git is never run. Formats and what is not bound:
docs/reference/tree-digests.md.
"""

from __future__ import annotations

from fable_exec.treedigest.cache import DigestCache
from fable_exec.treedigest.diffing import diff
from fable_exec.treedigest.digests import TreeDigest, tree_digest, verify
from fable_exec.treedigest.manifests import Manifest
from fable_exec.treedigest.values import Difference, Entry, EntryKind, Level, Profile, Progress

__all__ = [
    "Difference",
    "DigestCache",
    "Entry",
    "EntryKind",
    "Level",
    "Manifest",
    "Profile",
    "Progress",
    "TreeDigest",
    "diff",
    "tree_digest",
    "verify",
]
