"""Which names run later, as data. Pure: the caller says what a directory holds.

What is listed runs, or makes something else run, when a person enters the directory, opens it in an editor, or uses git, an agent
or a shell there, without asking for the project's own code: docs/reference/later-files.md. Names compare as the most forgiving
volume would (`pathguard.protection`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import attrs

from fable_exec.pathguard.protection import folded

__all__ = [
    "Kind",
    "LaterFile",
    "Names",
    "completes_git_directory",
    "counts_somewhere",
    "folded_name",
    "holds_git_directories",
    "is_git_directory",
    "is_sample",
    "kind_in_git_directory",
    "kind_of_name",
    "kind_of_path",
]

Names = tuple[str, ...]
"""The components of a path below the workspace."""


class Kind(Enum):
    """Why a file runs later. The value is the word in reports."""

    GIT_HOOKS = "git-hooks"
    """A directory of hooks; it is pinned as a whole."""
    GIT_HOOK = "git-hook"
    GIT_CONFIG = "git-config"
    GIT_POINTER = "git-pointer"
    GIT_REPOSITORY = "git-repository"
    """Nothing that runs: a repository that lost its objects or branches."""
    VCS_CONFIG = "vcs-config"
    SHELL_STARTUP = "shell-startup"
    EDITOR_TASKS = "editor-tasks"
    AGENT_CONFIG = "agent-config"
    NOT_JUDGED = "not-judged"
    """Nothing that runs: a place that could not be looked into."""


@attrs.frozen
class LaterFile:
    """One such file or directory, by its components below the workspace.

    `covered`: it lies in a directory that is a later file as a whole, so that one pin holds for both.
    """

    components: Names
    kind: Kind
    is_directory: bool
    covered: bool = False

    @property
    def path(self) -> str:
        """Relative to the workspace."""
        return "/".join(self.components)

    @property
    def of_package(self) -> bool:
        """Whether an installed package brought it, for editors, agents and shells that are not started in there: no pin holds for
        it, because the package could be neither updated nor removed then."""
        return self.kind in _BROUGHT_ALONG and not _PACKAGES.isdisjoint(self.components[:-1])


_PACKAGES = frozenset({"node_modules", "site-packages"})
_BROUGHT_ALONG = (Kind.SHELL_STARTUP, Kind.EDITOR_TASKS, Kind.AGENT_CONFIG)
_SHELL_STARTUP = """
.envrc .autoenv .autoenv.zsh mise.toml .mise.toml mise.local.toml .mise.local.toml .mise
.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
.kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .ripgreprc .gitconfig .pythonstartup .ssh .xprofile .xinitrc .xsession
.rprofile .renviron
"""
_EDITOR_TASKS = """
.vscode .idea .fleet .zed .vs .devcontainer .devcontainer.json .theia .helix .nova
.nvimrc .nvim.lua .exrc .vimrc .gvimrc .lvimrc .dir-locals.el .dir-locals-2.el
"""
_AGENT_CONFIG = """
.mcp.json .claude .claude.json .codex .agents .cursor .windsurf .gemini .qwen .aider.conf.yml .continue .continuerc.json .roo
.cline .kilocode .kiro .opencode opencode.json opencode.jsonc .crush.json crush.json .amazonq .augment .junie .factory .trae
"""
_ANYWHERE: dict[str, Kind] = {
    **dict.fromkeys(_SHELL_STARTUP.split(), Kind.SHELL_STARTUP),
    **dict.fromkeys(_EDITOR_TASKS.split(), Kind.EDITOR_TASKS),
    **dict.fromkeys(_AGENT_CONFIG.split(), Kind.AGENT_CONFIG),
    ".git": Kind.GIT_POINTER,
    "git~1": Kind.GIT_POINTER,
}
_BELOW: dict[str, tuple[Names, Kind]] = {
    "hgrc": ((".hg",), Kind.VCS_CONFIG),
    "hgrc-not-shared": ((".hg",), Kind.VCS_CONFIG),
    "sharedpath": ((".hg",), Kind.VCS_CONFIG),
    "config": ((".sl",), Kind.VCS_CONFIG),
    "config.toml": ((".jj", "repo"), Kind.VCS_CONFIG),
}
"""Names that count only in these directories."""
_IN_GIT_DIRECTORY: dict[str, Kind] = {
    "hooks": Kind.GIT_HOOKS,
    "config": Kind.GIT_CONFIG,
    "config.worktree": Kind.GIT_CONFIG,
    "commondir": Kind.GIT_POINTER,
    "gitdir": Kind.GIT_POINTER,
}
_GIT_NAMES = (".git", "git~1")
# What git asks of a git directory: a HEAD, and objects and refs in it or where commondir says. A directory that a commondir
# names needs no HEAD itself; the only commondir that is let stand lies in its worktrees.
_MARKS = ({"head", "objects", "refs"}, {"head", "commondir"}, {"objects", "refs", "worktrees"})
_ALL_MARKS = frozenset().union(*_MARKS)
_COUNTING = _ALL_MARKS | _ANYWHERE.keys() | _BELOW.keys() | _IN_GIT_DIRECTORY.keys()


def folded_name(name: str) -> str:
    """`name` as the most forgiving volume sees it."""
    if name.isascii() and ":" not in name and not name.endswith((".", " ")):
        return name.lower()
    return folded(name)


def counts_somewhere(name: str) -> bool:
    """Whether the name means anything in some directory; most do not, and need no second look."""
    return folded_name(name) in _COUNTING


def kind_of_name(name: str, directory: Names, *, is_directory: bool) -> Kind | None:
    """The kind of an entry with this name in an ordinary directory."""
    form = folded_name(name)
    kind = _ANYWHERE.get(form)
    if kind is None and form in _BELOW:
        ends, below = _BELOW[form]
        kind = below if tuple(map(folded_name, directory[-len(ends) :])) == ends else None
    return None if kind is Kind.GIT_POINTER and is_directory else kind


def kind_in_git_directory(name: str) -> Kind | None:
    """The kind of an entry with this name in a git directory."""
    return _IN_GIT_DIRECTORY.get(folded_name(name))


def kind_of_path(components: Names, *, is_directory: bool = False) -> Kind | None:
    """The kind that a path has by its names alone, for a caller that is asked to write there. Bare repositories are not seen."""
    in_git = False
    for position, name in enumerate(components):
        leads_on = is_directory or position < len(components) - 1
        kind = kind_in_git_directory(name) if in_git else None
        kind = kind or kind_of_name(name, components[:position], is_directory=leads_on)
        if kind is not None:
            return kind
        in_git = in_git or folded_name(name) in _GIT_NAMES
    return None


def is_git_directory(name: str, entries: Iterable[str]) -> bool:
    """Whether a directory with this name and these entries is, or is becoming, a git directory."""
    if folded_name(name) in _GIT_NAMES:
        return True
    found = {folded_name(entry) for entry in entries} & _ALL_MARKS
    return any(found >= marks for marks in _MARKS)


def completes_git_directory(name: str) -> bool:
    """Whether an entry of this name may turn the directory that it appears in into a git directory."""
    return folded_name(name) in _ALL_MARKS


def holds_git_directories(name: str) -> bool:
    """Whether `name` in a git directory is where others live: of submodules, of further working trees."""
    return folded_name(name) in ("modules", "worktrees")


def is_sample(name: str) -> bool:
    """Whether git ignores a hook of this name (githooks(5): the samples that `git init` writes)."""
    return name.endswith(".sample")
