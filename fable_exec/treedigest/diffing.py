"""What differs between two manifests. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fable_exec.treedigest.forms import in_byte_order
from fable_exec.treedigest.manifests import Manifest
from fable_exec.treedigest.values import Difference, Entry, EntryKind

__all__ = ["diff"]


def diff(before: Manifest, after: Manifest) -> Difference:
    """Which paths differ between two manifests, `before` being the older; no file is looked at.

    A renamed file is one that was removed and one that was added.
    """
    old, new = _by_path(before), _by_path(after)
    both = old.keys() & new.keys()
    changed = {path for path in both if _content(old[path]) != _content(new[path])}
    mode_changed = {path for path in both - changed if old[path] != new[path]}
    return Difference(
        added=_paths(new.keys() - old.keys()),
        removed=_paths(old.keys() - new.keys()),
        changed=_paths(changed),
        mode_changed=_paths(mode_changed),
        rules_changed=before.rules != after.rules,
    )


def _by_path(manifest: Manifest) -> dict[tuple[str, bool], Entry]:
    # A .git file has two entries: itself, and the state of the repository that it leads to.
    return {(entry.path, entry.kind is EntryKind.GIT): entry for entry in manifest.entries}


def _content(entry: Entry) -> tuple[object, ...]:
    return entry.kind, entry.content, entry.size_bytes


def _paths(found: Iterable[tuple[str, bool]]) -> tuple[str, ...]:
    return tuple(in_byte_order({path for path, _ in found}))
