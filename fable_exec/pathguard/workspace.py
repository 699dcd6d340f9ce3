"""The handle on a workspace: a pinned directory, and every operation on checked paths below it.

All work happens below the descriptor taken in `open`; the root's path string is never used again. Thread-safe. Blocking, as file
systems are. It decides nothing about who may: that is the broker's.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from types import TracebackType

from fable_exec._sys.forks import ProcessLock
from fable_exec.errors import ConfinementUnavailable
from fable_exec.pathguard import contents, making, moving, replacing, trees
from fable_exec.pathguard.contents import Data
from fable_exec.pathguard.directories import CheckedDirectory, HeldDirectory
from fable_exec.pathguard.facts import fact, translated
from fable_exec.pathguard.lexical import WorkspacePath
from fable_exec.pathguard.protection import protected_forms
from fable_exec.pathguard.reasons import denied
from fable_exec.pathguard.roots import Root
from fable_exec.pathguard.trees import TreeWalk
from fable_exec.pathguard.trust import Trust, refuse_untrusted
from fable_exec.pathguard.values import Appended, Entry, FileContent, FileKind, Listing, Written

__all__ = ["Workspace"]

ROOT = WorkspacePath(components=())


class Workspace:
    """A directory held by its descriptor. Make one with `Workspace.open`; close it, or use it in `with`.

    Operations raise PathDenied for what the rules refuse and PathError classes for what the file system says, both with
    `reason` and `path`; Conflict when a condition of the caller does not hold. After a failed write the old content is whole.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._fresh_name: Callable[[], str] = replacing.temporary_name
        self._turn = ProcessLock()

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, resolver: str = "auto", no_xdev: bool = False) -> Workspace:
        """Pin the directory at `path`, which is the operator's word: links on the way to it are followed, once.

        Args:
            resolver: "auto", or to insist on one: "openat2", "walk", or the reduced "checked" (see `reduced`).
            no_xdev: do not enter other file systems mounted inside.

        Raises:
            PathError: it does not exist, is no directory, or may not be read.
            ConfinementUnavailable: the resolver, or `no_xdev` with it, cannot be had here; or names of files are not UTF-8 to
                this process.
        """
        _require_utf8_names()
        return cls(Root(os.fspath(path), resolver, no_xdev=no_xdev))

    def close(self) -> None:
        """Release the directory; operations that other threads are in finish first. More than once is harmless."""
        self._root.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Workspace {self.path!r} by {self.resolver}{' closed' if self._root.closed else ''}>"

    @property
    def fd(self) -> int:
        """The descriptor of the directory, owned by this object; dup it to keep it."""
        if self._root.closed:
            raise ValueError("the workspace is closed")
        if not isinstance(self._root.directory, HeldDirectory):
            raise ValueError("the workspace has no descriptor on this system")
        return self._root.directory.fd

    @property
    def path(self) -> str:
        """Where the directory was when it was opened, links resolved: for messages, not for opening."""
        return self._root.path

    @property
    def identity(self) -> tuple[int, int]:
        """(st_dev, st_ino) of the directory."""
        return self._root.identity

    @property
    def resolver(self) -> str:
        """Which resolver is at work: "openat2", "walk" or "checked"."""
        return self._root.resolver.name

    @property
    def reduced(self) -> bool:
        """Whether paths are only checked before use, which a racing writer can beat (no directory handles here)."""
        return isinstance(self._root.directory, CheckedDirectory)

    # Looking

    def check(self) -> None:
        """Raise PathNotFound if the directory was removed (workspace-gone), or has left its path (workspace-moved).

        Every other operation goes on in a directory that was renamed.
        """
        self._root.check()

    def stat(self, path: WorkspacePath) -> Entry:
        """What the name stands for; a link is described itself and never followed."""
        if path.is_root:
            with self._root.lent(path) as root:
                return Entry.of(".", root.status())
        with self._root.parent_of(path) as parent:
            entry = Entry.of(path.name, parent.look(path.name))
        if path.directory_required and entry.kind is not FileKind.DIRECTORY:
            raise denied("symlink", str(path)) if entry.kind is FileKind.SYMLINK else fact("not-a-directory", str(path))
        return entry

    def list(self, path: WorkspacePath = ROOT, limit: int = 10_000) -> Listing:
        """The entries of a directory, at most `limit`."""
        with self._root.directory_at(path) as directory:
            return trees.list_directory(directory, limit)

    def iterate(
        self,
        path: WorkspacePath = ROOT,
        *,
        max_entries: int = 100_000,
        max_depth: int = 128,
        descend: Callable[[WorkspacePath], bool] | None = None,
    ) -> TreeWalk:
        """Everything below a directory, bounded; `descend` may keep it out of a directory. See TreeWalk."""
        return TreeWalk(self.list, path, max_entries=max_entries, max_depth=max_depth, descend=descend)

    def read_link(self, path: WorkspacePath) -> str:
        """The text of a symbolic link, which is only text: nothing says that it leads anywhere."""
        self._refuse_root(path, "invalid")
        with self._root.parent_of(path) as parent:
            return parent.read_link(path.name)

    # Opening and reading

    def open_directory(self, path: WorkspacePath = ROOT) -> int:
        """A new descriptor (O_RDONLY, O_DIRECTORY) of the directory; the caller closes it."""
        if (fd := self._root.listable(path)) is not None:
            return fd
        with self._root.directory_at(path) as directory:
            if not isinstance(directory, HeldDirectory):
                raise fact("io", str(path))
            return directory.reopen()

    def open_file(self, path: WorkspacePath, trust: Trust = "regular") -> int:
        """A new descriptor for reading a regular file; the caller closes it. See `read` for `trust`."""
        self._refuse_root(path, "is-directory")
        text = str(path)
        with self._root.parent_of(path) as parent:
            fd, status = contents.open_regular(parent, path.name, os.O_RDONLY, text, directory_required=path.directory_required)
            try:
                refuse_untrusted(status, text, trust)
            except BaseException:
                os.close(fd)
                raise
            return fd

    def read(self, path: WorkspacePath, max_bytes: int | None = None, trust: Trust = "regular") -> FileContent:
        """The content of a regular file, at most `max_bytes` of it; never blocks on a FIFO.

        Args:
            trust: "regular", or "private": one link only, and nobody else can write it.
        """
        self._refuse_root(path, "is-directory")
        with self._root.parent_of(path) as parent:
            return contents.read(
                parent, path.name, str(path), max_bytes=max_bytes, trust=trust, directory_required=path.directory_required
            )

    # Writing

    def write_replace(
        self,
        path: WorkspacePath,
        data: Data,
        *,
        expected_sha256: str | None = None,
        make_parents: bool = True,
        new_mode: int = replacing.NEW_FILE_MODE,
    ) -> Written:
        """Give the file exactly `data`, atomically and durably; permission bits of an old file stay, set-id bits do not.

        Args:
            expected_sha256: refuse unless the file exists and has this digest. The last check comes right before the rename;
                another one in the instant between is not noticed, save by this Workspace, whose threads take turns.
            make_parents: make missing directories (0700); they go again if the write fails.
            new_mode: permission bits of a file that did not exist.

        Raises:
            Conflict: the file does not have the expected content (reason "changed").
        """
        self._refuse_creation(path)
        make = make_parents and expected_sha256 is None
        with self._root.parent_to_write(path, make) as parent:
            return replacing.write_replace(
                parent, path.name, data, str(path),
                expected_sha256=expected_sha256, new_mode=new_mode, fresh_name=self._fresh_name, turn=self._turn,
            )  # fmt: skip

    def create_exclusive(
        self, path: WorkspacePath, data: Data = b"", *, make_parents: bool = False, new_mode: int = replacing.NEW_FILE_MODE
    ) -> Written:
        """Create the file with its whole content, or PathExists if anything, also a link, has the name."""
        if path.is_root:
            raise fact("exists", str(path))
        self._refuse_creation(path)
        with self._root.parent_to_write(path, make_parents) as parent:
            return replacing.create_exclusive(parent, path.name, data, str(path), new_mode=new_mode, fresh_name=self._fresh_name)

    def write_inplace(self, path: WorkspacePath, data: Data, *, create: bool = False) -> Written:
        """Overwrite the file itself, not atomically; a file with several links is refused. For what must keep its inode."""
        self._refuse_change(path, create)
        with self._root.parent_of(path) as parent:
            return contents.write_inplace(parent, path.name, data, str(path), create=create)

    def append(self, path: WorkspacePath, data: Data, *, create: bool = False) -> Appended:
        """Add `data` to the end of the file; a file with several links is refused."""
        self._refuse_change(path, create)
        with self._root.parent_of(path) as parent:
            return contents.append(parent, path.name, data, str(path), create=create, turn=self._turn)

    # Names

    def make_directories(self, path: WorkspacePath, mode: int = making.NEW_DIRECTORY_MODE) -> int:
        """Make the directory and what is missing above it; return how many were made (0: it was there)."""
        with self._root.lent(path) as root:
            directory, made = making.make_directories(self._root.resolver, root, path.components, str(path), mode)
            if directory is not root:
                directory.close()
            return len(made)

    def remove(self, path: WorkspacePath) -> None:
        """Remove a file, or a link itself; a directory is PathIsDirectory."""
        self._refuse_root(path, "is-directory")
        with self._root.parent_of(path) as parent:
            moving.remove(parent, path.name, str(path), directory_required=path.directory_required)

    def remove_directory(self, path: WorkspacePath) -> None:
        """Remove an empty directory."""
        self._refuse_root(path, "is-directory")
        with self._root.parent_of(path) as parent:
            moving.remove_directory(parent, path.name, str(path))

    def remove_tree(self, path: WorkspacePath, *, protected: Iterable[str] = ()) -> int:
        """Remove a directory with all below it, without following a link; return how many names went. Never the workspace.

        Args:
            protected: refuse before anything goes when a protected name is somewhere in the tree.
        """
        self._refuse_root(path, "is-directory")
        if forms := protected_forms(protected):
            trees.refuse_protected(self.iterate(path, max_entries=sys.maxsize, max_depth=sys.maxsize), forms)
        with self._root.parent_of(path) as parent:
            return trees.remove_tree(self._root.resolver, parent, path.name, str(path))

    def rename(self, source: WorkspacePath, target: WorkspacePath, *, replace: bool = False) -> None:
        """Move a name within the workspace. Without `replace` a taken target is PathExists, decided by the kernel.

        A link is moved itself; with `replace` a link or special file in the target's place is refused.
        """
        self._refuse_root(source, "invalid")
        self._refuse_root(target, "invalid")
        if (fault := target.creation_fault()) is not None:
            raise denied(fault, str(target))
        with self._root.parent_of(source) as old_parent, self._root.parent_of(target) as new_parent, translated(str(target)):
            with translated(str(source)):
                moving.refuse_bad_move(
                    old_parent, source.name, str(source), new_parent, target.name, str(target),
                    source_is_directory=source.directory_required, target_is_directory=target.directory_required,
                )  # fmt: skip
            if replace:
                with self._turn:
                    old_parent.rename(source.name, new_parent, target.name)
            else:
                moving.move_noreplace(old_parent, source.name, new_parent, target.name)

    def remove_leftovers(self, *, max_entries: int = 100_000) -> int:
        """Remove temporary files that crashed writers left; those of living writers, in any process, stay. Returns how many."""
        removed = 0
        for found in self.iterate(max_entries=max_entries):
            if replacing.is_temporary_name(found.path.name) and found.entry.kind is FileKind.FILE:
                with contextlib.suppress(OSError), self._root.parent_of(found.path) as parent:
                    removed += replacing.remove_leftover(parent, found.path.name)
        return removed

    # Checks before the first system call

    @staticmethod
    def _refuse_root(path: WorkspacePath, reason: str) -> None:
        if path.is_root:
            raise fact(reason, str(path))

    def _refuse_change(self, path: WorkspacePath, create: bool) -> None:
        if create:
            self._refuse_creation(path)
        elif path.is_root or path.directory_required:
            raise fact("is-directory", str(path))

    @staticmethod
    def _refuse_creation(path: WorkspacePath) -> None:
        """Before the first system call: "new/" would be EISDIR, and control characters may be opened but not created."""
        if path.is_root or path.directory_required:
            raise fact("is-directory", str(path))
        if (fault := path.creation_fault()) is not None:
            raise denied(fault, str(path))


def _require_utf8_names() -> None:
    """A path of a request is UTF-8 text, whoever asks. In another locale Python would take it for other bytes, or for none."""
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise ConfinementUnavailable(
            f"paths are UTF-8, and this process takes the names of files for {encoding}: start Python with PYTHONUTF8=1, or in a "
            "UTF-8 locale",
            protection="path-resolver",
            reason=f"names are {encoding}",
        )
