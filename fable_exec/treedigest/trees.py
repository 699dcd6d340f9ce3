"""The profile tree: every directory below the root with all that is in it, and the state of its repositories.

Nothing is left out but what is in git directories, for which HEAD and index stand, and what is in the engine's own directory.
"""

from __future__ import annotations

import os

from fable_exec.pathguard import Workspace
from fable_exec.treedigest.forms import DirectoryText, engine_row, in_byte_order, tree_manifest
from fable_exec.treedigest.repository import open_repository
from fable_exec.treedigest.scanning import Scanned, Scanner

__all__ = ["digest_tree"]

_GIT = ".git"


def digest_tree(scanner: Scanner, engine_directory: str | None, listings: dict[str, str]) -> bytes:
    """The manifest of the whole tree.

    Args:
        listings: digests of what an index lists, by the SHA-256 of the index; looked up and added to.
    """
    found: list[DirectoryText] = []
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        components = waiting.pop()
        engine = engine_directory if not components else None
        scanned = scanner.scan(components)
        git = _git_state(scanner, components, scanned, listings)
        left_out = {engine, _GIT if git is not None else None}
        waiting += [(*components, name) for name in scanned.directories if name not in left_out]
        rows = _rows_in_order(scanned, engine if engine in scanned.directories else None)
        found.append(DirectoryText("/".join(components), scanned.status.st_mode, rows, git))
    return tree_manifest(found, engine_directory)


def _rows_in_order(scanned: Scanned, engine: str | None) -> bytes:
    if engine is None and all(map(str.isascii, scanned.names)):
        return scanned.joined()  # sorted as they were listed
    by_name = dict(zip(scanned.names, scanned.lines(), strict=True))
    if engine is not None:
        by_name[engine] = engine_row(engine)
    return ",".join([by_name[name] for name in in_byte_order(by_name)]).encode()


def _git_state(
    scanner: Scanner, components: tuple[str, ...], scanned: Scanned, listings: dict[str, str]
) -> dict[str, str] | None:
    """None where no repository has its top here. A link is no repository of this tree; it is bound as a link."""
    if _GIT not in scanned.directories and _GIT not in scanned.names:
        return None
    workspace = scanner.workspace

    def ask() -> dict[str, str] | None:
        return _state(workspace, components, listings)

    answer = ask()
    if scanner.watch is not None:
        scanner.watch.note_answer("/".join((*components, _GIT)), ask, answer)
    return answer


def _state(workspace: Workspace, components: tuple[str, ...], listings: dict[str, str]) -> dict[str, str] | None:
    if os.path.islink(os.path.join(workspace.path, *components, _GIT)):
        return None
    with open_repository(workspace, components) as repository:
        return None if repository is None else repository.state(listings)
