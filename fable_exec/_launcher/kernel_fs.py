"""The file-system calls that Python's standard library lacks: openat2(2), renameat2(2), sync_file_range(2), one wrapper each.

A bare system call loses three things that `os.open` gives; they are put back here: the retry after EINTR (PEP 475), the `open`
audit event (PEP 578) and the file name on the OSError. A call that this machine has no number for is OSError(ENOSYS), the
kernel's own word for it. Holds no policy: flags are the caller's. Sources: openat2(2), rename(2), the kernel's syscall tables.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

AT_FDCWD = -100

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10
RESOLVE_STRICT = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
"""Never out of the directory, and through no link of any kind."""

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

SYNC_FILE_RANGE_WRITE = 2


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_SIZEOF_OPEN_HOW = ctypes.sizeof(_OpenHow)

# New calls have one number on all machines since 5.1, save alpha (offset by 110) and mips (one base per calling convention).
_OPENAT2_EXCEPTIONS = {"alpha": 547, "mips-o32": 4437, "mips-n64": 5437, "mips-n32": 6437}
_RENAMEAT2 = {
    "x86_64": 316, "i386": 353, "aarch64": 276, "riscv64": 276, "loongarch64": 276, "arm": 382, "ppc64": 357, "ppc64le": 357,
    "s390x": 347, "sparc64": 345, "alpha": 510, "mips-o32": 4351, "mips-n64": 5311, "mips-n32": 6315,
}  # fmt: skip


def _calling_convention(machine: str, pointer_bytes: int, multiarch: str) -> str:
    """The key of the tables above: the machine, corrected for 32-bit processes and the three conventions of mips."""
    if machine.startswith("mips"):
        if pointer_bytes == 8:
            return "mips-n64"
        return "mips-n32" if "abin32" in multiarch else "mips-o32"
    if pointer_bytes == 4 and machine in ("x86_64", "i486", "i586", "i686"):
        return "i386"
    if machine.startswith("arm") or (pointer_bytes == 4 and machine == "aarch64"):
        return "arm"
    return machine


_convention = _calling_convention(
    os.uname().machine, ctypes.sizeof(ctypes.c_void_p), getattr(sys.implementation, "_multiarch", "")
)
_on_linux = sys.platform == "linux"
SYS_OPENAT2: int | None = _OPENAT2_EXCEPTIONS.get(_convention, 437) if _on_linux else None
SYS_RENAMEAT2: int | None = _RENAMEAT2.get(_convention) if _on_linux else None

if _on_linux:
    # A handle of its own: argtypes belong to the handle, and other modules call syscall() with other shapes.
    _libc = ctypes.CDLL(None, use_errno=True)
    _openat2 = ctypes.CFUNCTYPE(
        ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t, ctypes.c_uint64,
        use_errno=True,
    )(("syscall", _libc))  # fmt: skip
    _renameat2 = ctypes.CFUNCTYPE(
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_char_p,
        ctypes.c_long,
        ctypes.c_char_p,
        ctypes.c_ulong,
        use_errno=True,
    )(("syscall", _libc))


def openat2(dir_fd: int, path: str, flags: int, mode: int = 0, resolve: int = 0, key: int = 0) -> int:
    """Open `path` below `dir_fd` under the RESOLVE_* rules and return the new descriptor, which the caller owns.

    O_CLOEXEC is not added for the caller. EAGAIN, a rename seen during a walk over "..", is passed on. `key` goes into an
    argument that the kernel ignores and a launcher's filter compares.

    Raises:
        OSError: the kernel's answer with `filename` set; ENOSYS where the call does not exist.
    """
    if SYS_OPENAT2 is None:
        raise _no_call("openat2", path)
    sys.audit("open", path, None, flags)
    encoded = _encoded(path)
    how = _OpenHow(flags, mode, resolve)
    while True:
        result: int = _openat2(SYS_OPENAT2, dir_fd, encoded, how, _SIZEOF_OPEN_HOW, key)
        if result >= 0:
            return result
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise _failed("openat2", number, path)


def renameat2(old_dir_fd: int, old: str, new_dir_fd: int, new: str, flags: int) -> None:
    """Rename under RENAME_NOREPLACE or RENAME_EXCHANGE.

    Raises:
        OSError: the kernel's answer with both names; ENOSYS without the call, EINVAL on a file system that cannot do it.
    """
    if SYS_RENAMEAT2 is None:
        raise _no_call("renameat2", old)
    sys.audit("os.rename", old, new, old_dir_fd, new_dir_fd)
    result: int = _renameat2(SYS_RENAMEAT2, old_dir_fd, _encoded(old), new_dir_fd, _encoded(new), flags)
    if result != 0:
        raise _failed("renameat2", ctypes.get_errno(), old, new)


def start_writeback(fd: int) -> None:
    """Have the kernel begin to write the file's dirty pages and do not wait; durability still needs fsync.

    Raises:
        OSError: the kernel's answer; ENOSYS where the C library has no sync_file_range.
    """
    call = getattr(_libc, "sync_file_range", None) if _on_linux else None
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    if call(fd, 0, 0, SYNC_FILE_RANGE_WRITE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def why_no_access(path: str, mode: int) -> int:
    """The errno that keeps the real user from `path`; 0 when nothing does (faccessat(2)). Capabilities count for root alone.

    `os.access` does not tell a mode (EACCES) from a read-only mount (EROFS).
    """
    if not _on_linux:
        return errno.ENOSYS
    return ctypes.get_errno() if _libc.faccessat(AT_FDCWD, _encoded(path), mode, 0) != 0 else 0


def _encoded(path: str) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        # A C string would end at the NUL and name another file (python/cpython#106242).
        raise ValueError("embedded null byte")
    return encoded


def _failed(call: str, number: int, path: str, second: str | None = None) -> OSError:
    error = OSError(number, os.strerror(number), path, None, second)
    error.add_note(f"{call} failed")
    return error


def _no_call(call: str, path: str) -> OSError:
    return _failed(call, errno.ENOSYS, path)
