"""in-toto Links: which files a run found and left, for `in-toto-verify` and the layouts of others. Pure."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import attrs

from fable_exec.attest.attesting import Signer, sign
from fable_exec.attest.envelopes import Envelope
from fable_exec.attest.statements import PAYLOAD_TYPE
from fable_exec.errors import InvalidRequest
from fable_exec.treedigest.manifests import Manifest
from fable_exec.treedigest.values import Entry, EntryKind, Profile

__all__ = ["link", "link_file_name"]

_MOST_LINKS = 40
"""As many symbolic links are followed in one name, as Linux does."""

_MOST_CHARACTERS_BY_LINKS = 64 * 1024 * 1024
"""Of all names together that lead through links: two links to the directory that they lie in would make 2^40 of them."""


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
        InvalidRequest: the name of a file is no UTF-8, which a Link cannot hold, or the step has none or one with a slash; or
            names through links to directories have more than 67 108 864 characters together.
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
    """The digests of all files under every name that in-toto records them by, which follows links, to directories also."""
    if manifest.profile is not Profile.TREE:
        raise InvalidRequest("a Link is made of manifests of the profile tree")
    entries = {entry.path: entry for entry in manifest.entries}
    return {name: {"sha256": entries[path].content} for name, path in sorted(_files(entries))}


def _files(entries: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    """Every name of a file, and the path of its entry."""
    inside, behind = _children(entries), functools.cache(functools.partial(_behind, entries))
    waiting, characters = [("", "", 0)], 0
    while waiting:
        above, directory, followed = waiting.pop()
        for path in inside.get(directory, ()):
            name = f"{above}{path.rpartition('/')[2]}"
            characters += len(name) if followed else 0
            if characters > _MOST_CHARACTERS_BY_LINKS:
                raise InvalidRequest(f"names through links to directories have more than {_MOST_CHARACTERS_BY_LINKS} characters")
            reached = behind(path) if entries[path].kind is EntryKind.SYMLINK else _Reached(path, 0)
            if reached is None or followed + reached.followed > _MOST_LINKS:
                continue
            if entries[reached.path].kind is EntryKind.FILE:
                yield name, reached.path
            elif entries[reached.path].kind is EntryKind.DIRECTORY:
                waiting.append((f"{name}/", reached.path, followed + reached.followed))


def _children(entries: Mapping[str, Entry]) -> Mapping[str, list[str]]:
    """The paths in each directory."""
    inside: defaultdict[str, list[str]] = defaultdict(list)
    for path in entries:
        if path:
            inside[path.rpartition("/")[0]].append(path)
    return inside


@attrs.frozen
class _Reached:
    """Where a path leads, and after how many links."""

    path: str
    followed: int


def _behind(entries: Mapping[str, Entry], path: str) -> _Reached | None:
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
    return _Reached("/".join(here), followed) if "/".join(here) in entries else None
