"""in-toto Links: which files a run found and left, for `in-toto-verify` and the layouts of others. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fable_exec.attest.attesting import Signer, sign
from fable_exec.attest.envelopes import Envelope
from fable_exec.attest.statements import PAYLOAD_TYPE
from fable_exec.errors import InvalidRequest
from fable_exec.treedigest.manifests import Manifest
from fable_exec.treedigest.values import Entry, EntryKind, Profile

__all__ = ["link", "link_file_name"]

_MOST_LINKS = 40
"""As many symbolic links are followed one after the other, as Linux does."""


def link(
    key: Signer, step: str, argv: Sequence[str], products: Manifest, *, materials: Manifest | None = None,
    exit_code: int | None = None,
) -> Envelope:  # fmt: skip
    """Sign a Link for one step of a layout.

    Args:
        step: the name of the step in the layout.
        products: of the tree after the run; materials: before it. Manifests of the profile `tree`.
        exit_code: of the run.

    Raises:
        InvalidRequest: the name of a file is no UTF-8, which a Link cannot hold, or the step has none or one with a slash.
    """
    if not step or "/" in step:
        raise InvalidRequest(f"the name of a step is the beginning of a file's name, not {step!a:.80}")
    payload = {
        "_type": "link",
        "byproducts": {} if exit_code is None else {"return-value": exit_code},
        "command": list(argv),
        "environment": {},
        "materials": {} if materials is None else _artifacts(materials),
        "name": step,
        "products": _artifacts(products),
    }
    try:
        written = json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequest("a Link cannot hold a name or an argument that is no UTF-8") from None
    return sign(key, PAYLOAD_TYPE, written)


def link_file_name(step: str, envelope: Envelope) -> str:
    """What `in-toto-verify` expects the file to be called that holds this Link."""
    return f"{step}.{envelope.signatures[0].keyid[:8]}.link"


def _artifacts(manifest: Manifest) -> dict[str, dict[str, str]]:
    """The digests of all files, as in-toto records them: a link to a file counts as that file, one to nothing is left out."""
    if manifest.profile is not Profile.TREE:
        raise InvalidRequest("a Link is made of manifests of the profile tree")
    entries = {entry.path: entry for entry in manifest.entries}
    found = {}
    for path, entry in entries.items():
        behind = entry if entry.kind is not EntryKind.SYMLINK else _behind(path, entries)
        if behind is not None and behind.kind is EntryKind.FILE:
            found[path] = {"sha256": behind.content}
    return found


def _behind(path: str, entries: Mapping[str, Entry]) -> Entry | None:
    """What the kernel would find at `path` within the tree; None for what is not there or leads out of it."""
    here: list[str] = []
    parts, followed = path.split("/")[::-1], 0
    while parts:
        part = parts.pop()
        if here and entries["/".join(here)].kind is not EntryKind.DIRECTORY:
            return None
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return None
            here.pop()
            continue
        here.append(part)
        entry = entries.get("/".join(here))
        if entry is None:
            return None
        if entry.kind is EntryKind.SYMLINK:
            followed += 1
            if followed > _MOST_LINKS or entry.content.startswith("/"):
                return None
            here.pop()
            parts += entry.content.split("/")[::-1]
    return entries.get("/".join(here))
