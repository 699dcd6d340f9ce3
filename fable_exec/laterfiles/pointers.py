"""Where a git pointer, a link or core.worktree leads: names below the workspace, or nowhere that is acceptable.

Only texts that mean the same to everybody count: leading "..", then plain names, or an absolute path that begins with the
workspace's own. Anything else could be led elsewhere by a link on the way. It reads small files and decides nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator

from fable_exec.laterfiles.gitconfig import last_value, parse
from fable_exec.laterfiles.names import Kind, LaterFile, Names, folded_name
from fable_exec.laterfiles.scanning import content_of
from fable_exec.pathguard import FileKind, Workspace, WorkspacePath

__all__ = [
    "MAX_CONFIG_BYTES",
    "MAX_POINTER_BYTES",
    "git_directory_of",
    "is_own_worktree",
    "kind_at",
    "leads_to",
    "link_target",
    "names_of",
]

MAX_POINTER_BYTES = 16_384
MAX_CONFIG_BYTES = 65_536
"""Of a configuration that is judged; a larger one is not let stand."""
_GITDIR = "gitdir: "


def names_of(workspace: Workspace, directory: Names, text: str) -> Names | None:
    """The place that the path `text`, seen from `directory`, names; None when it is outside or not to be told from the text."""
    if not text or "\0" in text or text.endswith("/."):
        return None
    if text.startswith("/"):
        root = workspace.path.rstrip("/") + "/"
        if not (text + "/").startswith(root):
            return None
        directory, text = (), text[len(root) :]
    pieces = [piece for piece in text.split("/") if piece not in ("", ".")]
    while pieces and pieces[0] == "..":
        if not directory:
            return None
        directory, pieces = directory[:-1], pieces[1:]
    return None if ".." in pieces else (*directory, *pieces)


def kind_at(workspace: Workspace, components: Names) -> FileKind | None:
    """What is there, reached without following a link; None when nothing is, or a link is on the way."""
    try:
        return workspace.stat(WorkspacePath(components=components)).kind
    except OSError:
        return None


def link_target(workspace: Workspace, components: Names) -> Names | None:
    """What the link at `components` leads to inside the workspace; None when it is no link or leads elsewhere."""
    try:
        text = workspace.read_link(WorkspacePath(components=components))
    except OSError:
        return None
    return names_of(workspace, components[:-1], text)


def git_directory_of(workspace: Workspace, pointer: Names) -> Names | None:
    """The existing directory inside the workspace that the `.git` file `pointer` names, else None."""
    text = content_of(workspace, pointer, MAX_POINTER_BYTES).text
    if not text.startswith(_GITDIR):
        return None
    target = names_of(workspace, pointer[:-1], text.removeprefix(_GITDIR).rstrip("\r\n"))
    if target is None or any(folded_name(name) == "objects" for name in target):
        return None  # the object store is not searched, so no git directory may lie in it
    return target if kind_at(workspace, target) is FileKind.DIRECTORY else None


def is_own_worktree(workspace: Workspace, git_directory: Names, value: str) -> bool:
    """Whether core.worktree `value` names a directory whose `.git` file points back at `git_directory`, as submodules have it."""
    if value.startswith("/"):
        return False
    tree = names_of(workspace, git_directory, value)
    return tree is not None and git_directory_of(workspace, (*tree, ".git")) == git_directory


def leads_to(workspace: Workspace, file: LaterFile) -> Iterator[Names]:
    """The places that a harmless pointer or configuration depends on: it was judged by what is there."""
    directory = file.components[:-1]
    if file.kind is Kind.GIT_POINTER and folded_name(file.components[-1]) == "gitdir":
        text = content_of(workspace, file.components, MAX_POINTER_BYTES).text
        place = names_of(workspace, directory, text.rstrip("\r\n"))
    elif file.kind is Kind.GIT_POINTER:
        place = git_directory_of(workspace, file.components)
    elif file.kind is Kind.GIT_CONFIG:
        config = parse(content_of(workspace, file.components, MAX_CONFIG_BYTES).text)
        tree = last_value(config, "core", "worktree")
        place = None if tree is None else names_of(workspace, directory, f"{tree}/.git")
    else:
        place = None
    if place is not None:
        yield place
