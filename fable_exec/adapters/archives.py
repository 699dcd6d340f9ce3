"""A workspace as one tar stream, and a workspace from one: by the pinned directory, through no link, bounded.

For whoever owns the workspace, not for a model: it asks no policy and no write lock, and files of any size and name pass. A link
is text here. It is kept and made as it was, wherever it leads, and nothing is read or written through it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator
from typing import IO, Any, cast

from fable_exec.errors import FableExecError, InvalidRequest, PathError
from fable_exec.pathguard import FileKind, PathProfile, TreeEntry, Workspace, WorkspacePath, is_temporary_name
from fable_exec.pathguard.directories import HeldDirectory, give_mode, give_owner
from fable_exec.pathguard.facts import fact, translated
from fable_exec.pathguard.reasons import shown

__all__ = ["MAX_BYTES", "MAX_MEMBERS", "pack", "unpack"]

MAX_BYTES = 4 * 1024**3
"""Most bytes of files in an archive, and of an archive."""
MAX_MEMBERS = 500_000
MAX_NAMES = 10_000_000
"""Most names in all paths together: every one is looked up."""
_MAX_HEADER_BYTES = 64 * 1024
"""Of one member with all that says its name, many times what a path can be long; tarfile takes it into memory."""
_MAX_GLOBAL_RECORDS = 100
_CHUNK_BYTES = 1024 * 1024
_LATEST_SECONDS = 1 << 33
_PATH_MAX = 4096
_TOO_MANY_NAMES = "{} more than " + f"{MAX_NAMES} names in all"
_KINDS: dict[FileKind, bytes] = {FileKind.DIRECTORY: tarfile.DIRTYPE, FileKind.SYMLINK: tarfile.SYMTYPE}


def pack(workspace: Workspace, left_out: Collection[tuple[str, ...]] = ()) -> IO[bytes]:
    """A plain tar of all that the workspace holds: an unnamed file at its start, which the caller closes.

    Sockets, FIFOs and devices are left out, and temporary files of writers that crashed.

    Args:
        left_out: paths that are left out, with all below them.

    Raises:
        PathError, PathDenied: something cannot be read, or has so long a path that none could make it; "too-large" for more
            than MAX_BYTES, MAX_MEMBERS and MAX_NAMES.
    """
    archive: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # it is what the caller gets
    try:
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            walk = workspace.iterate(
                max_entries=MAX_MEMBERS, max_depth=sys.maxsize, descend=lambda path: path.components not in left_out
            )
            left, names_left = MAX_BYTES, MAX_NAMES
            for found in walk:
                WorkspacePath.parse("/".join(found.path.components), PathProfile.host())  # as when it comes back
                names_left -= len(found.path.components)
                if names_left < 0:
                    raise _too_large(".", _TOO_MANY_NAMES.format("its paths have"))
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
        InvalidRequest: it is no whole plain tar, or more than MAX_BYTES, MAX_MEMBERS and MAX_NAMES; a member lies below one that
            is no directory, stands there twice, is sparse, or is neither file nor directory nor link. PathDenied: its name leads
            elsewhere.
        PathError: it could not be made; what was made before it stays.
    """
    with tempfile.TemporaryFile() as spool:
        _copy_bounded(data, spool)
        members = _checked(_read(spool))
        if instead:
            _empty(workspace)
        _make_all(workspace, spool, members)


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


class _Headers:
    """What tarfile reads of an archive: no more for one member than `_MAX_HEADER_BYTES`, whatever sizes its headers claim."""

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self.tell, self.seek = spool.tell, spool.seek
        self.begin_member()

    def begin_member(self) -> None:
        self._left = _MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self._left:
            raise InvalidRequest(f"a member of the archive has headers of more than {_MAX_HEADER_BYTES} bytes")
        self._left -= size
        return self._spool.read(size)


def _read(spool: IO[bytes]) -> list[tarfile.TarInfo]:
    members = []
    headers = _Headers(spool)
    with _malformed_is_refused(), tarfile.open(fileobj=cast(Any, headers), mode="r:") as tar:
        for member in tar:
            members.append(member)
            if len(members) > MAX_MEMBERS:
                raise InvalidRequest(f"the archive has more than {MAX_MEMBERS} members")
            if member.size < 0:  # tarfile would go back by it, and read the same again for ever
                raise _refused(member, "its size is less than nothing")
            if len(tar.pax_headers) > _MAX_GLOBAL_RECORDS:
                raise InvalidRequest(f"the archive has more than {_MAX_GLOBAL_RECORDS} global records")
            member.pax_headers = {}  # used up; it holds a copy of every global one
            headers.begin_member()
        end = tar.offset
    # tarfile takes an archive for whole that ends between two members, or has a header that is none.
    spool.seek(end)
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
    left, names_left = MAX_BYTES, MAX_NAMES
    for member in read:
        path = WorkspacePath.parse(member.name, PathProfile.host()).components
        names_left -= len(path)
        if names_left < 0:
            raise InvalidRequest(_TOO_MANY_NAMES.format("the paths of the archive have"))
        left -= member.size if member.isreg() else 0
        if left < 0:
            raise InvalidRequest(f"the archive unpacks to more than {MAX_BYTES} bytes")
        _check_kind(path, member)
        if path in members and not (member.isdir() and members[path].isdir()):
            raise _refused(member, "it stands there twice")
        if path:
            members[path] = member
    for above, path in _directories_above(members).items():
        if above in members and not members[above].isdir():
            raise _refused(members[path], "it lies below a member that is no directory")
    return members


def _directories_above(members: _Members) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Every directory that members lie in, each with one of those."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for path in members:
        above = path[:-1]
        while above and above not in found:
            found[above] = path
            above = above[:-1]
    return found


def _check_kind(path: tuple[str, ...], member: tarfile.TarInfo) -> None:
    if not (member.isdir() or (path and (member.isreg() or member.issym()))):
        raise _refused(member, "it is no file, no directory and no symbolic link")
    if member.issparse():
        raise _refused(member, "it is sparse")
    if member.issym() and (not 0 < len(os.fsencode(member.linkname)) < _PATH_MAX or "\0" in member.linkname):
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


def _make_all(workspace: Workspace, spool: IO[bytes], members: _Members) -> None:
    """Directories from above, whose owner may always work in them, then files and links."""
    directories = {path for path, member in members.items() if member.isdir()}.union(_directories_above(members))
    for path in sorted(directories, key=len):
        with _parent(workspace, path) as parent:
            if not _make_room(parent, path, for_directory=True):
                parent.make(path[-1], 0o700)
            if path in members:
                _set_directory_mode(parent, path[-1], members[path])
    for path, member in members.items():
        if not member.isdir():
            with _parent(workspace, path) as parent:
                _make_room(parent, path)
                if member.issym():
                    _make_link(parent, path[-1], member)
                else:
                    _make_file(parent, path[-1], spool, member)


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


def _make_file(parent: HeldDirectory, name: str, spool: IO[bytes], member: tarfile.TarInfo) -> None:
    spool.seek(member.offset_data)
    left = member.size
    with open(parent.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        while left and (chunk := spool.read(min(left, _CHUNK_BYTES))):
            left -= file.write(chunk)
        file.flush()
        give_owner(file.fileno(), parent)
        give_mode(file.fileno(), _mode(member, least=0o600))
        when = int(min(max(0, member.mtime), _LATEST_SECONDS))  # of no number it makes 0, and of infinity the latest
        os.utime(file.fileno(), (when, when))


def _set_directory_mode(parent: HeldDirectory, name: str, member: tarfile.TarInfo) -> None:
    fd = parent.open(name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        give_mode(fd, _mode(member, least=0o700))
    finally:
        os.close(fd)


def _mode(member: tarfile.TarInfo, *, least: int) -> int:
    return member.mode & 0o755 | least
