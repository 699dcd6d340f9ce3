"""A workspace as one tar stream, and a workspace from one: by the pinned directory, through no link, bounded.

For whoever owns the workspace, not for a model: it asks no policy and no write lock, and files of any size and name pass. A link
is text here. It is kept and made as it was, wherever it leads, and nothing is read or written through it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator
from typing import IO, Any

from fable_exec.errors import FableExecError, InvalidRequest, PathError
from fable_exec.pathguard import FileKind, PathProfile, TreeEntry, Workspace, WorkspacePath, is_temporary_name
from fable_exec.pathguard.directories import HeldDirectory, give_mode, give_owner
from fable_exec.pathguard.facts import fact, translated
from fable_exec.pathguard.reasons import shown

__all__ = ["MAX_BYTES", "MAX_MEMBERS", "pack", "unpack"]

MAX_BYTES = 4 * 1024**3
"""Most bytes of files in an archive, and of an archive."""
MAX_MEMBERS = 500_000
_CHUNK_BYTES = 1024 * 1024
_LATEST_SECONDS = 1 << 33
_KINDS: dict[FileKind, bytes] = {FileKind.DIRECTORY: tarfile.DIRTYPE, FileKind.SYMLINK: tarfile.SYMTYPE}


def pack(workspace: Workspace, left_out: Collection[tuple[str, ...]] = ()) -> IO[bytes]:
    """A plain tar of all that the workspace holds: an unnamed file at its start, which the caller closes.

    Sockets, FIFOs and devices are left out, and temporary files of writers that crashed.

    Args:
        left_out: paths that are left out, with all below them.

    Raises:
        PathError, PathDenied: something cannot be read; "too-large" for more than MAX_BYTES and MAX_MEMBERS.
    """
    archive: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # it is what the caller gets
    try:
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            walk = workspace.iterate(
                max_entries=MAX_MEMBERS, max_depth=sys.maxsize, descend=lambda path: path.components not in left_out
            )
            left = MAX_BYTES
            for found in walk:
                if found.path.components not in left_out and not is_temporary_name(found.path.name):
                    left -= _put(tar, workspace, found, left)
            if walk.truncated:
                raise _too_large(".", f"it has more than {MAX_MEMBERS} entries")
            if walk.skipped:
                raise fact("permission", ".").reworded(f"{walk.skipped} directories of the workspace cannot be looked into")
        archive.seek(0)
        return archive
    except BaseException:
        archive.close()
        raise


def unpack(workspace: Workspace, data: IO[bytes], *, instead: bool = False) -> None:
    """Make what a plain tar holds. All of it is judged before anything is changed.

    Set-id bits and rights of others to write are not given. What is not a directory is replaced.

    Args:
        data: read to its end; it stays the caller's.
        instead: of everything that the workspace holds now.

    Raises:
        InvalidRequest: it is no whole plain tar, or more than MAX_BYTES and MAX_MEMBERS; a member lies below one that is no
            directory, stands there twice, or is neither file nor directory nor link. PathDenied: its name leads elsewhere.
        PathError: it could not be made; what was made before it stays.
    """
    with tempfile.TemporaryFile() as spool:
        _copy_bounded(data, spool)
        with _opened(spool) as tar:
            members = _checked(_read(tar, spool))
            if instead:
                _empty(workspace)
            _make_all(workspace, tar, members)


def _put(tar: tarfile.TarFile, workspace: Workspace, found: TreeEntry, left: int) -> int:
    """Add one entry; the bytes of its content."""
    member = tarfile.TarInfo("/".join(found.path.components))
    member.mode, member.mtime = found.entry.mode, found.entry.modified_ns // 10**9
    if found.entry.kind is FileKind.FILE:
        with open(workspace.open_file(found.path), "rb") as content:
            member.size = os.fstat(content.fileno()).st_size
            if member.size > left:
                raise _too_large(str(found.path), f"with it there are more than {MAX_BYTES} bytes")
            with translated(str(found.path)):
                tar.addfile(member, content)
        return member.size
    if found.entry.kind in _KINDS:
        member.type = _KINDS[found.entry.kind]
        if member.issym():
            member.linkname = workspace.read_link(found.path)
        tar.addfile(member)
    return 0


def _too_large(path: str, why: str) -> PathError:
    return fact("too-large", path).reworded(f"{shown(path)} does not go into an archive: {why}")


def _copy_bounded(data: IO[bytes], spool: IO[bytes]) -> None:
    left = MAX_BYTES
    while chunk := data.read(_CHUNK_BYTES):
        left -= len(chunk)
        if left < 0:
            raise InvalidRequest(f"the archive is longer than {MAX_BYTES} bytes")
        spool.write(chunk)
    spool.seek(0)


def _opened(spool: IO[bytes]) -> tarfile.TarFile:
    with _malformed_is_refused():
        return tarfile.open(fileobj=spool, mode="r:")


def _read(tar: tarfile.TarFile, spool: IO[bytes]) -> list[tarfile.TarInfo]:
    members = []
    with _malformed_is_refused():
        for member in tar:
            members.append(member)
            if len(members) > MAX_MEMBERS:
                raise InvalidRequest(f"the archive has more than {MAX_MEMBERS} members")
    # tarfile takes an archive for whole that ends between two members, or has a header that is none.
    spool.seek(tar.offset)
    if spool.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise InvalidRequest("this is no whole tar archive: its end is missing")
    return members


@contextlib.contextmanager
def _malformed_is_refused() -> Iterator[None]:
    """Around the reading of headers, which raises what the parts of a malformed one happen to raise."""
    try:
        yield
    except FableExecError:
        raise
    except (tarfile.TarError, ValueError, LookupError, ArithmeticError, EOFError) as error:
        raise InvalidRequest(f"this is no whole tar archive: {error!s:.200}") from None


_Members = dict[tuple[str, ...], tarfile.TarInfo]


def _checked(read: Iterable[tarfile.TarInfo]) -> _Members:
    """The members by their paths, the workspace itself left out."""
    members: _Members = {}
    left = MAX_BYTES
    for member in read:
        path = WorkspacePath.parse(member.name, PathProfile.host()).components
        left -= member.size if member.isreg() else 0
        if left < 0:
            raise InvalidRequest(f"the archive unpacks to more than {MAX_BYTES} bytes")
        _check_kind(path, member)
        if path in members and not (member.isdir() and members[path].isdir()):
            raise _refused(member, "it stands there twice")
        if path:
            members[path] = member
    for path, member in members.items():
        if any(above in members and not members[above].isdir() for above in _ancestors(path)):
            raise _refused(member, "it lies below a member that is no directory")
    return members


def _check_kind(path: tuple[str, ...], member: tarfile.TarInfo) -> None:
    if not (member.isdir() or (path and (member.isreg() or member.issym()))):
        raise _refused(member, "it is no file, no directory and no symbolic link")
    if member.issym() and (not member.linkname or "\0" in member.linkname):
        raise _refused(member, "no link can say what it says")


def _refused(member: tarfile.TarInfo, why: str) -> InvalidRequest:
    return InvalidRequest(f"the archive's member {shown(member.name)} is refused: {why}")


def _empty(workspace: Workspace) -> None:
    for entry in workspace.list(limit=sys.maxsize).entries:
        path = WorkspacePath(components=(entry.name,), profile=PathProfile.host())
        if entry.kind is FileKind.DIRECTORY:
            workspace.remove_tree(path)
        else:
            workspace.remove(path)


def _make_all(workspace: Workspace, tar: tarfile.TarFile, members: _Members) -> None:
    """Directories from above, then files and links; the modes of directories last, since one may let nothing be made in it."""
    directories: dict[tuple[str, ...], tarfile.TarInfo | None] = {above: None for path in members for above in _ancestors(path)}
    directories.update((path, member) for path, member in members.items() if member.isdir())
    for path in sorted(directories, key=len):
        with _parent(workspace, path) as parent:
            if not _make_room(parent, path, for_directory=True):
                parent.make(path[-1], 0o700)
    for path, member in members.items():
        if not member.isdir():
            with _parent(workspace, path) as parent:
                _make_room(parent, path)
                if member.issym():
                    _make_link(parent, path[-1], member)
                else:
                    _make_file(parent, path[-1], tar, member)
    for path in sorted(directories, key=len, reverse=True):
        if (directory := directories[path]) is not None:
            with _parent(workspace, path) as parent:
                _set_directory_mode(parent, path[-1], directory)


def _ancestors(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [path[:depth] for depth in range(1, len(path))]


@contextlib.contextmanager
def _parent(workspace: Workspace, path: tuple[str, ...]) -> Iterator[HeldDirectory]:
    above = WorkspacePath(components=path[:-1], profile=PathProfile.host())
    parent = HeldDirectory(workspace.open_directory(above))
    try:
        with translated("/".join(path)):
            yield parent
    finally:
        parent.close()


def _make_room(parent: HeldDirectory, path: tuple[str, ...], *, for_directory: bool = False) -> bool:
    """Take away what has the name; whether it is a directory that stays."""
    try:
        found = parent.look(path[-1])
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        parent.unlink(path[-1])
        return False
    if not for_directory:
        raise fact("is-directory", "/".join(path))
    return True


def _make_link(parent: HeldDirectory, name: str, member: tarfile.TarInfo) -> None:
    os.symlink(member.linkname, name, dir_fd=parent.fd)


def _make_file(parent: HeldDirectory, name: str, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    content: Any = tar.extractfile(member)
    with open(parent.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        shutil.copyfileobj(content, file, _CHUNK_BYTES)
        file.flush()
        give_owner(file.fileno(), parent)
        give_mode(file.fileno(), _mode(member, least=0o600))
        when = min(max(0, int(member.mtime)), _LATEST_SECONDS)
        os.utime(file.fileno(), (when, when))


def _set_directory_mode(parent: HeldDirectory, name: str, member: tarfile.TarInfo) -> None:
    fd = parent.open(name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        give_mode(fd, _mode(member, least=0o700))
    finally:
        os.close(fd)


def _mode(member: tarfile.TarInfo, *, least: int) -> int:
    return member.mode & 0o755 | least
