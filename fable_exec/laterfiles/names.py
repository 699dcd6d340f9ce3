"""Which names run later, as data. Pure: the caller says what a directory holds.

A directory called `.git`, or one that has what every git directory has, is a git directory; in it the hooks, the configuration
and the redirections count, in its modules and work trees too (gitrepository-layout(5)). Names compare as a folding file system
would.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

import attrs

__all__ = [
    "Kind",
    "LaterFile",
    "completes_git_directory",
    "is_git_directory",
    "is_sample",
    "kind_in_git_directory",
    "kind_of_name",
]


class Kind(Enum):
    """Why a file runs later. The value is the word in reports."""

    GIT_HOOKS = "git-hooks"
    """The directory of hooks; it is pinned as a whole."""
    GIT_HOOK = "git-hook"
    GIT_CONFIG = "git-config"
    GIT_POINTER = "git-pointer"
    SHELL_STARTUP = "shell-startup"
    EDITOR_TASKS = "editor-tasks"
    AGENT_CONFIG = "agent-config"


@attrs.frozen
class LaterFile:
    """One such file or directory, by its components below the workspace."""

    components: tuple[str, ...]
    kind: Kind
    is_directory: bool


_SHELL_STARTUP = """
.envrc .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
.kshrc .cshrc .tcshrc .login .logout .inputrc .ripgreprc .gitconfig .pythonstartup
"""
_EDITOR_TASKS = ".vscode .idea .fleet .zed .vs .devcontainer .nvimrc .nvim.lua .exrc .vimrc .dir-locals.el"
_AGENT_CONFIG = """
.mcp.json .claude .claude.json .codex .agents .cursor .windsurf .gemini .aider.conf.yml .continue .roo .kiro .opencode
"""
_ANYWHERE: dict[str, Kind] = {
    **dict.fromkeys(_SHELL_STARTUP.split(), Kind.SHELL_STARTUP),
    **dict.fromkeys(_EDITOR_TASKS.split(), Kind.EDITOR_TASKS),
    **dict.fromkeys(_AGENT_CONFIG.split(), Kind.AGENT_CONFIG),
    ".git": Kind.GIT_POINTER,
}
_IN_GIT_DIRECTORY: dict[str, Kind] = {
    "hooks": Kind.GIT_HOOKS,
    "config": Kind.GIT_CONFIG,
    "config.worktree": Kind.GIT_CONFIG,
    "commondir": Kind.GIT_POINTER,
    "gitdir": Kind.GIT_POINTER,
}
_MARKS_OF_A_GIT_DIRECTORY = {"head", "objects", "refs"}
_MARKS_OF_A_WORK_TREE_ENTRY = {"head", "commondir"}


def kind_of_name(name: str, *, is_directory: bool) -> Kind | None:
    """The kind of an entry with this name in an ordinary directory."""
    kind = _ANYWHERE.get(_folded(name))
    return None if kind is Kind.GIT_POINTER and is_directory else kind


def kind_in_git_directory(name: str) -> Kind | None:
    """The kind of an entry with this name in a git directory."""
    return _IN_GIT_DIRECTORY.get(_folded(name))


def is_git_directory(name: str, entries: Collection[str]) -> bool:
    """Whether a directory with this name and these entries is, or is becoming, a git directory."""
    folded = {_folded(entry) for entry in entries}
    return _folded(name) == ".git" or folded >= _MARKS_OF_A_GIT_DIRECTORY or folded >= _MARKS_OF_A_WORK_TREE_ENTRY


def completes_git_directory(name: str) -> bool:
    """Whether an entry of this name may turn the directory that it appears in into a git directory."""
    return _folded(name) in _MARKS_OF_A_GIT_DIRECTORY | _MARKS_OF_A_WORK_TREE_ENTRY


def is_sample(name: str) -> bool:
    """Whether git ignores a hook of this name (githooks(5): the samples that `git init` writes)."""
    return name.endswith(".sample")


def _folded(name: str) -> str:
    return name.casefold()
