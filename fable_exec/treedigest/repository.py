"""The state of a git repository, read from its files without running git: where HEAD is, and what the index lists.

No configuration of the repository is read, and nothing that it names is run. All reads are pathguard's: regular files, bounded,
no link followed, no FIFO waited for. Only a `.git` file (a worktree, a submodule) may lead to another directory, as for git.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import attrs

from fable_exec.errors import FableExecError, PathError, PathNotFound, StateUnreadable
from fable_exec.pathguard import FileContent, FileKind, Workspace, WorkspacePath
from fable_exec.treedigest.gitindex import IndexLines, listing_sha256, read_index

__all__ = ["Repository", "open_repository"]

MAX_INDEX_BYTES = 256 << 20
"""Of some 3 million files. Read, it takes four times the memory."""
_MAX_SMALL_BYTES = 64 * 1024
_MAX_PACKED_REFS_BYTES = 64 << 20
_MAX_SYMBOLIC = 5
_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_REFERENCE = re.compile(r"ref:[ \t\n\v\f\r]*(refs/.*?)[ \t\n\v\f\r]*\Z", re.DOTALL)
_REFTABLE = "ref: refs/heads/.invalid"


@attrs.frozen
class _Place:
    """A directory below a held one; names in it are single or of several components."""

    workspace: Workspace
    components: tuple[str, ...]

    def path(self, name: str) -> WorkspacePath:
        return WorkspacePath(components=(*self.components, *name.split("/")))

    def text(self, name: str, most_bytes: int = _MAX_SMALL_BYTES) -> str | None:
        """The content as text, None where there is none."""
        content = self.content(name, most_bytes)
        return None if content is None else os.fsdecode(content.data)

    def content(self, name: str, most_bytes: int) -> FileContent | None:
        try:
            content = self.workspace.read(self.path(name), most_bytes)
        except PathError as error:
            if error.reason in ("not-found", "not-a-directory", "is-directory"):
                return None
            raise
        if content.truncated:
            raise StateUnreadable(f"{name!r} of a git repository is longer than {most_bytes} bytes", reason="foreign", path=name)
        return content

    def leads_on(self, name: str) -> bool:
        """Whether it is a directory, or a link, which git would follow to one."""
        try:
            return self.workspace.stat(self.path(name)).kind in (FileKind.DIRECTORY, FileKind.SYMLINK)
        except FableExecError:
            return False


@attrs.frozen
class Repository:
    """The git directory of one worktree, and the one that it shares with others (the same where there are none)."""

    own: _Place
    common: _Place
    is_directory: bool
    """`.git` is the git directory itself, not a file that names it."""

    def head(self) -> str:
        """The text of HEAD, without white space at its end."""
        return _head_text(self.own) or ""

    def head_oid(self) -> str:
        """The commit of HEAD; "" on a branch without a commit.

        Raises:
            StateUnreadable: references are kept in a form that is not read here (reftable).
        """
        text, place = self.head(), self.own
        for _ in range(_MAX_SYMBOLIC):
            if _OID.match(text):
                return text
            reference = _REFERENCE.match(text)
            if reference is None:
                return ""
            if text == _REFTABLE:
                raise StateUnreadable("references in reftable format are not read", reason="newer", path="HEAD")
            text = self._reference(reference[1], place)
        return ""

    def _reference(self, name: str, place: _Place) -> str:
        if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
            return ""
        loose = place.text(name) or self.common.text(name)
        if loose is not None:
            return loose.rstrip()
        packed = self.common.text("packed-refs", _MAX_PACKED_REFS_BYTES) or ""
        found = re.search(rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$", packed, re.MULTILINE)
        return found[1] if found else ""

    def index(self) -> FileContent | None:
        """The bytes of the index, None where there is none yet."""
        return self.own.content("index", MAX_INDEX_BYTES)

    def lines(self, index: FileContent | None) -> IndexLines:
        """What is staged. Raises StateUnreadable where it cannot be told."""
        return IndexLines([], [], [], []) if index is None else read_index(index.data, "index", self._shared_index)

    def _shared_index(self, oid: str) -> bytes:
        name = f"sharedindex.{oid}"
        content = self.own.content(name, MAX_INDEX_BYTES)
        if content is None:
            raise StateUnreadable(f"git index: {name} is not there", reason="torn", path=name)
        return content.data

    def state(self, listings: dict[str, str]) -> dict[str, str]:
        """What the profile tree binds of it.

        Args:
            listings: digests of what an index lists, by the SHA-256 of the index: looked up, and added to.
        """
        try:
            oid = self.head_oid()
        except StateUnreadable:
            oid = ""  # the text of HEAD is bound all the same
        form = "directory" if self.is_directory else "file"
        return {
            "form": form,
            "head": _printable(self.head()),
            "index": self._listing(listings),
            "oid": oid,
        }

    def _listing(self, listings: dict[str, str]) -> str:
        index = self.index()
        key = "" if index is None else index.sha256
        if key in listings:
            return listings[key]
        lines = self.lines(index)
        listing = listing_sha256(lines)
        if not lines.is_split:  # or the shared index would have a say, too
            listings[key] = listing
        return listing


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


@contextlib.contextmanager
def open_repository(workspace: Workspace, components: tuple[str, ...]) -> Iterator[Repository | None]:
    """The repository whose worktree has its top at the directory `components`, or None; what it holds is closed at the end.

    It is one if git would take it for one: HEAD is a commit or names a reference, `objects` and `refs` are there. Raises nothing
    for what is merely no repository.
    """
    with contextlib.ExitStack() as stack:
        place = _git_directory(workspace, components, stack)
        if place is None or not _is_head(_head_text(place)):
            yield None
            return
        common = _common_directory(place, stack)
        if common is None or not (common.leads_on("objects") and common.leads_on("refs")):
            yield None
            return
        is_directory = place.workspace is workspace and place.components == (*components, ".git")
        yield Repository(place, common, is_directory)


def _git_directory(workspace: Workspace, components: tuple[str, ...], stack: contextlib.ExitStack) -> _Place | None:
    try:
        kind = workspace.stat(WorkspacePath(components=(*components, ".git"))).kind
    except PathError:
        return None
    if kind is FileKind.DIRECTORY:
        return _Place(workspace, (*components, ".git"))
    if kind is FileKind.SYMLINK:
        return _elsewhere(os.path.join(workspace.path, *components, ".git"), stack)
    if kind is not FileKind.FILE:
        return None
    text = _Place(workspace, components).text(".git") or ""
    if not text.startswith("gitdir: "):
        return None
    named = text[len("gitdir: ") :].rstrip("\r\n")
    return _elsewhere(os.path.join(workspace.path, *components, named), stack)


def _common_directory(place: _Place, stack: contextlib.ExitStack) -> _Place | None:
    named = place.text("commondir")
    if named is None:
        return place
    return _elsewhere(os.path.join(place.workspace.path, *place.components, named.rstrip("\r\n")), stack)


def _elsewhere(path: str, stack: contextlib.ExitStack) -> _Place | None:
    try:
        return _Place(stack.enter_context(Workspace.open(path)), ())
    except (OSError, ValueError):  # gone, no directory, closed to us, or a NUL in the name
        return None


def _head_text(place: _Place) -> str | None:
    path = place.path("HEAD")
    try:
        if place.workspace.stat(path).kind is FileKind.SYMLINK:  # how it was written long ago
            return f"ref: {place.workspace.read_link(path)}"
        text = place.text("HEAD")
    except PathNotFound:
        return None
    return None if text is None else text.rstrip()


def _is_head(text: str | None) -> bool:
    return text is not None and bool(_OID.match(text) or _REFERENCE.match(text))
