"""All entries of a directory, for frameworks that take a listing for the whole."""

from __future__ import annotations

from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.pathguard.facts import fact
from fable_exec.protocol import DirectoryEntry

__all__ = ["every_entry"]


async def every_entry(workspace: AgentWorkspace, path: str) -> tuple[DirectoryEntry, ...]:
    """The entries of a directory, sorted by name.

    Raises:
        PathError: also (reason "too-large", EFBIG) for more of them than one answer has; a part is never taken for the whole.
    """
    listing = await workspace.list_dir(path)
    if listing.truncated:
        raise fact("too-large", path).reworded(f"{path!a:.200} has more entries than one answer has: {len(listing.entries)}")
    return listing.entries
