"""Files of the workspace that run later: pinned before the job where they are, looked after when nothing of it is left.

The same sentry as a broker's. A keeper that is killed sweeps nothing: what it had pinned is unharmed, what was planted stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from fable_exec.keeper.requests import LaterFiles
from fable_exec.laterfiles import Sentry
from fable_exec.outcome import display_line
from fable_exec.pathguard import Workspace

__all__ = ["Sweeper", "Swept"]

_MOST_TOLD = 50
_LONGEST_TOLD = 300


@attrs.frozen
class Swept:
    """What was planted, bounded, and how much there was."""

    count: int = 0
    told: tuple[Mapping[str, str], ...] = ()

    def __add__(self, later: Swept) -> Swept:
        return Swept(self.count + later.count, (*self.told, *later.told)[:_MOST_TOLD])


class Sweeper:
    """The sentry of one execution, for each attempt in turn.

    Args:
        workspace: absolute path.
        wanted: what the policy says of such files.
        pinned: whether mounts keep the pins.
        memory: of another one, as `memory` gave it.

    Raises:
        OSError: the workspace cannot be watched over.
    """

    def __init__(self, workspace: str, wanted: LaterFiles, *, pinned: bool, memory: bytes | None = None) -> None:
        self._workspace = Workspace.open(workspace)
        try:
            action: Literal["neutralise", "report"] = "neutralise" if wanted.neutralise else "report"
            self._sentry = Sentry(self._workspace, wanted.quarantine, action, pinned=pinned, watched=False, memory=memory)
        except BaseException:
            self._workspace.close()
            raise

    @property
    def directory(self) -> int:
        """The workspace, still this one's."""
        return self._workspace.fd

    def memory(self) -> bytes:
        """What it knows, for one in another process."""
        return self._sentry.memory()

    def pins(self) -> list[str]:
        """What is to be held while the attempt runs that begins now; pair it with `sweep`."""
        return [path for path, _ in self._sentry.before_command()]

    def rely_on_pins(self, held: bool) -> None:
        """Tell whether the kernel took all of them."""
        self._sentry.rely_on_pins(held)

    def sweep(self) -> Swept:
        """Look for what it planted, now that nothing of it is left, and deal with that. Raises OSError."""
        found = self._sentry.after_command()
        told = tuple(
            {
                "kind": each.kind.value,
                "path": display_line(each.path)[:_LONGEST_TOLD],
                "done": each.done,
                "detail": display_line(each.detail)[:_LONGEST_TOLD],
                "kept": display_line(each.kept)[:_LONGEST_TOLD],
            }
            for each in found[:_MOST_TOLD]
        )
        return Swept(len(found), told)
