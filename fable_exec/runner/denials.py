"""From what a launcher's observer noted to an outcome's denials. The command had a hand in every word: it is made safe here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fable_exec.outcome import Denial, display_text

__all__ = ["denials_of"]

_MAX_CHARACTERS = 500
_SUGGESTIONS = {
    "workspace_writes": "writes are locked: the administrator can unlock them",
    "host_writes": "write in the workspace, or below $TMPDIR or $HOME",
    "host_reads": "if commands may read it, list it in confinement.runtime_read_paths",
    "later_files": "it runs later: whoever owns the workspace changes it, a command does not",
    "network": 'if commands may reach it, list its TCP port in confinement.connect_ports with network = "ports"',
    "host_sockets": "sockets of the host are out of reach; one that is made in the workspace is not",
}


def denials_of(noted: Iterable[Sequence[str]]) -> tuple[Denial, ...]:
    """One denial for each (operation, path, address, protection)."""
    return tuple(
        Denial(
            operation=operation,
            path=_shown(path),
            address=_shown(address),
            protection=protection,
            suggestion=_SUGGESTIONS.get(protection, ""),
        )
        for operation, path, address, protection in noted
    )


def _shown(text: str) -> str:
    """On one line and bounded; escapes make it longer."""
    return display_text(text).replace("\n", "\\n").replace("\t", "\\t")[:_MAX_CHARACTERS]
