"""Directories inside the workspace that core.hooksPath makes git run hooks from: its own, of a repository around it, of the user.

Read from files only; git is never asked. Includes are not followed. Source: git-config(1), core.hooksPath: a relative path is
taken from the directory where the hook runs, the top of the working tree, or the git directory of a bare repository.
"""

from __future__ import annotations

import os
import stat

from fable_exec.laterfiles.gitconfig import last_value, parse
from fable_exec.laterfiles.names import Names, folded_name
from fable_exec.laterfiles.pointers import MAX_POINTER_BYTES, git_directory_of, names_of
from fable_exec.laterfiles.scanning import content_of
from fable_exec.pathguard import Workspace

__all__ = ["HookPaths", "read_host_file"]

_MAX_CONFIG_BYTES = 1 << 20
_CONFIGS = ("config", "config.worktree")


class HookPaths:
    """The hook directories of one workspace. What the user's own configuration says is read once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._of_user = _users_hooks_path()

    def around(self) -> list[Names]:
        """Those that a repository in which the workspace lies takes its hooks from."""
        found: list[Names] = []
        above = os.path.dirname(self._workspace.path)
        while True:
            found += self._outside(above)
            if above == os.path.dirname(above):
                return found
            above = os.path.dirname(above)

    def of_git_directory(self, directory: Names) -> list[Names]:
        """Those that the configuration in a git directory of the workspace names."""
        tree = directory[:-1] if directory and folded_name(directory[-1]) == ".git" else directory
        return self._resolved(tree, self._texts(directory))

    def of_pointer(self, pointer: Names) -> list[Names]:
        """Those that count in the working tree whose `.git` file is `pointer`, wherever that leads."""
        tree = pointer[:-1]
        inside = git_directory_of(self._workspace, pointer)
        if inside is not None:
            common = inside[:-2] if len(inside) > 1 and folded_name(inside[-2]) == "worktrees" else inside
            return self._resolved(tree, [*self._texts(common), *self._texts(inside)])
        target = content_of(self._workspace, pointer, MAX_POINTER_BYTES).text.removeprefix("gitdir:").strip()
        return self._resolved(tree, _texts_of(os.path.join(self._workspace.path, *tree, target))) if target else []

    def _outside(self, tree: str) -> list[Names]:
        git = os.path.join(tree, ".git")
        if not os.path.lexists(git):
            return []
        pointed = read_host_file(git).removeprefix("gitdir:").strip()
        value = _hooks_path(_texts_of(os.path.join(tree, pointed) if pointed else git)) or self._of_user
        if value is None:
            return []
        return self._with_husky(names_of(self._workspace, (), os.path.normpath(os.path.join(tree, os.path.expanduser(value)))))

    def _texts(self, git_directory: Names) -> list[str]:
        return [content_of(self._workspace, (*git_directory, name), _MAX_CONFIG_BYTES).text for name in _CONFIGS]

    def _resolved(self, tree: Names, texts: list[str]) -> list[Names]:
        value = _hooks_path(texts) or self._of_user
        if value is None:
            return []
        path = os.path.normpath(os.path.join(self._workspace.path, *tree, os.path.expanduser(value)))
        return self._with_husky(names_of(self._workspace, (), path))

    @staticmethod
    def _with_husky(directory: Names | None) -> list[Names]:
        """The hooks in husky's directory `_` only run the files of the same name beside it: the directory above counts, too."""
        if not directory:
            return []
        return [directory[:-1] if directory[-1] == "_" and len(directory) > 1 else directory]


def _hooks_path(texts: list[str]) -> str | None:
    # A key is written in one piece, in whatever case: few files have it, and each is long to read.
    values = [last_value(parse(text), "core", "hookspath") for text in texts if "hookspath" in text.lower()]
    named = [value for value in values if value]
    return named[-1] if named else None


def _texts_of(git_directory: str) -> list[str]:
    common = read_host_file(os.path.join(git_directory, "commondir")).strip()
    places = [os.path.join(git_directory, common), git_directory] if common else [git_directory]
    return [read_host_file(os.path.join(place, name)) for place in places for name in _CONFIGS]


def _users_hooks_path() -> str | None:
    """A hooks path for all repositories of the user who runs this process."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    places = ("/etc/gitconfig", os.path.join(home, "git/config"), os.path.expanduser("~/.gitconfig"))
    return _hooks_path([read_host_file(place) for place in places])


def read_host_file(path: str) -> str:
    """A file outside the workspace, which is the host's; empty when there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, _MAX_CONFIG_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
