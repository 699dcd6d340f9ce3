"""From the path text of a request to checked names: the policy's rules at the broker's door.

Names that exist are read by the rules of this host, names that come into being by the portable ones. pathguard itself is neutral
and rewrites nothing; the backslash rule is this door's.
"""

from __future__ import annotations

from fable_exec.errors import FableExecError, PathDenied, PathError
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath
from fable_exec.pathguard.reasons import denied
from fable_exec.policy import PathRules

__all__ = ["DoorPaths"]

_HOST = PathProfile.host()
_MOST_ADVISED = 255


class DoorPaths:
    """Reads the paths of requests under one policy."""

    def __init__(self, workspace: Workspace, rules: PathRules) -> None:
        self._workspace = workspace
        self._rules = rules

    def require_workspace(self) -> None:
        """Raise PathNotFound if a command would run in an empty directory (workspace-gone), or find another one at the path that
        its rules name (workspace-moved). What works by the workspace's descriptor need not ask."""
        self._workspace.check()

    def existing(self, text: str) -> WorkspacePath:
        """The path of something that should be there. Raises PathDenied."""
        return self._parsed(self._with_separators(text), _HOST)

    def written(self, text: str) -> WorkspacePath:
        """The path of something that is replaced or comes into being. Raises PathDenied.

        Where the portable rules refuse, the names that exist already are let through: only the others are created.
        """
        text = self._with_separators(text)
        try:
            return self._parsed(text, PathProfile.PORTABLE)
        except PathDenied as refusal:
            path = self._acceptable_here(text)
            if path is None or not self._creates_portable_names(path):
                raise refusal
            return path

    def check_name(self, name: str) -> None:
        """Raise PathDenied if a name that was met in the workspace is protected."""
        WorkspacePath.parse(name, _HOST, self._rules.protected)

    def refuse_protected_below(self, path: WorkspacePath) -> None:
        """Raise PathDenied if the tree at `path` holds a protected name, which would go or move with it."""
        if not self._rules.protected:
            return
        walk = self._workspace.iterate(path)
        for found in walk:
            self.check_name(found.path.name)
        if walk.truncated or walk.skipped:
            raise denied("protected-name", str(path), "the tree is too large, or not readable, to prove that it holds none")

    def _parsed(self, text: str, profile: PathProfile) -> WorkspacePath:
        try:
            return WorkspacePath.parse(text, profile, self._rules.protected)
        except PathDenied as refusal:
            below = text.removeprefix(f"{self._workspace.path}/") if refusal.reason == "absolute" else text
            if below == text:
                raise
            raise denied("absolute", text, f"use {below.lstrip('/')[:_MOST_ADVISED] or '.'!r} if that is what is meant") from None

    def _with_separators(self, text: str) -> str:
        if "\\" not in text or self._rules.backslash == "literal":
            return text
        if self._rules.backslash == "refuse":
            raise denied("backslash", text)
        return text.replace("\\", "/")

    def _acceptable_here(self, text: str) -> WorkspacePath | None:
        try:
            return WorkspacePath.parse(text, _HOST, self._rules.protected)
        except PathDenied:
            return None

    def _creates_portable_names(self, path: WorkspacePath) -> bool:
        missing: list[str] = []
        here = path
        while not here.is_root and not self._exists(here):
            missing.append(here.name)
            here = here.parent
        try:
            for name in missing:
                WorkspacePath.parse(name, PathProfile.PORTABLE, self._rules.protected)
        except PathDenied:
            return False
        return True

    def _exists(self, path: WorkspacePath) -> bool:
        try:
            self._workspace.stat(path)
        except PathError:
            return False
        except FableExecError:
            return True  # a link on the way: the act itself will refuse it, with its own reason
        return True
