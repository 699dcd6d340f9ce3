"""What an agent calls the paths of its workspace: as the host does, or with "/" for the workspace itself. Pure text.

Whether a path may be used is decided at the broker's door, which gets it relative to the workspace.
"""

from __future__ import annotations

from typing import Literal

import attrs

from fable_exec.errors import InvalidRequest, PathDenied
from fable_exec.protocol.rules import shown

__all__ = ["View", "WorkspaceView"]

View = Literal["host", "root"]


@attrs.frozen
class WorkspaceView:
    """Paths seen from an agent ("outer") and from the broker ("inner"). A relative path means the same in both.

    Args:
        workspace: absolute, as the policy has it.
        kind: "host" for absolute paths of the host, "root" for a workspace that is called "/".
    """

    workspace: str
    kind: View = "host"

    def __attrs_post_init__(self) -> None:
        if self.kind not in ("host", "root"):
            raise InvalidRequest(f'view must be "host" or "root", not {shown(self.kind)}')

    @property
    def root(self) -> str:
        """What the workspace itself is called."""
        return self.workspace if self.kind == "host" else "/"

    def inner(self, path: str) -> str:
        """The path relative to the workspace, "." for the workspace. What is no text stays as it is, and is refused at the door.

        Raises:
            PathDenied: it is absolute and lies elsewhere (reason "outside").
        """
        if not isinstance(path, str) or not path.startswith("/"):
            return path
        if self.kind == "root":
            return path.lstrip("/") or "."
        below = path.removeprefix(self.workspace)
        if below == path or (below and not below.startswith("/")):
            raise PathDenied(
                f"path {shown(path)} refused (outside): it is not below the workspace {shown(self.workspace)}",
                reason="outside",
                path=path,
            )
        return below.lstrip("/") or "."

    def outer(self, path: str) -> str:
        """What the agent calls a path of an answer."""
        if path in (".", ""):
            return self.root
        return f"{self.root.rstrip('/')}/{path}"
