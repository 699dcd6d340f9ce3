"""What a listed program needs around it: the directories without which it cannot start, what of that is not there, and where the
system's own files for names and certificates really are, and what of /etc is for root alone.

A virtual environment needs its own prefix and the one it was made from, an interpreter its library, a version manager's shim the
manager. Only what is recognised is named; everything else is for the policy's `runtime_read_paths`. A script's first line and
pyvenv.cfg may be a command's own work, if they lie in the workspace: what they name counts if it is a program, or a Python.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from fable_exec.executables import AllowedExecutables, Executable

__all__ = ["runtime_paths", "system_links", "system_secrets", "what_is_missing"]

_FIRST_LINE_BYTES = 256
"""What the kernel reads of a file to tell what it is (BINPRM_BUF_SIZE)."""
_MOST_CONFIGURATION_CHARACTERS = 16 * 1024
_MACHINE_CODE = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_SHOWN_CHARACTERS = 200
_SYSTEM_FILES = (
    *("/etc/hosts", "/etc/localtime", "/etc/nsswitch.conf", "/etc/resolv.conf"),
    *("/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/ssl/certs"),
    "/etc/ssl/certs/ca-certificates.crt",
)
"""What names, times and certificates are looked up in. Some systems keep them elsewhere and put links into /etc:
systemd-resolved, NetworkManager and resolvconf in /run, WSL in /mnt/wsl, others in /var/lib."""
_FOR_EVERYBODY = ("/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/passwd", *_SYSTEM_FILES)
"""What programs need to be found, to start and to look things up, also where a strict umask has closed all of /etc."""


def runtime_paths(executables: AllowedExecutables) -> tuple[str, ...]:
    """The files and directories that the listed executables need to run, each once, absolute and in the order of need."""
    found: dict[str, None] = {}
    for executable in executables.by_name.values():
        found.update(dict.fromkeys(_needs(executable)))
    return tuple(found)


def system_links() -> tuple[str, ...]:
    """Where the files of /etc that every program looks names, times and certificates up in are, if they are links: each link on
    the way and its end, absolute. What lies in a directory of the system anyway may be among them.
    """
    return tuple(path for name in _SYSTEM_FILES for path in _hops(name))


def system_secrets(opened: Iterable[str] = ()) -> tuple[str, ...]:
    """The files and directories of /etc that are closed to other users, as they are now, for root, who may read them all; nothing
    for another user.

    Args:
        opened: absolute paths that commands get all the same, with all below them; what lies beside them in a closed directory is
            named by itself.
    """
    is_root = getattr(os, "geteuid", lambda: -1)() == 0
    return tuple(_closed_in("/etc", frozenset(opened), is_closed=False)) if is_root else ()


def _closed_in(directory: str, opened: frozenset[str], *, is_closed: bool) -> Iterator[str]:
    try:
        with os.scandir(directory) as listing:
            entries = list(listing)
    except OSError:
        yield directory  # what one cannot look into may hold anything
        return
    for entry in entries:
        if entry.path in opened:
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            yield entry.path  # what one cannot look at hides nothing that stands beside it
            continue
        yield from _closed_of(entry.path, mode, opened, is_closed)


def _closed_of(path: str, mode: int, opened: frozenset[str], is_closed: bool) -> Iterator[str]:
    """The same of one entry. `is_closed`: it lies where others cannot come."""
    is_directory, needed = stat.S_ISDIR(mode), path in _FOR_EVERYBODY
    if stat.S_ISLNK(mode):
        return  # it leads to what is judged by itself
    if not is_directory:
        if not needed and (is_closed or not mode & stat.S_IROTH):
            yield path
        return
    is_closed = is_closed or not mode & stat.S_IXOTH
    if needed and is_closed:
        return  # a strict umask has closed it, and what is in it
    if not is_closed or _holds_any(path, opened) or _holds_any(path, _FOR_EVERYBODY):
        yield from _closed_in(path, opened, is_closed=is_closed)
    else:
        yield path


def _holds_any(directory: str, paths: Iterable[str]) -> bool:
    return any(path.startswith(f"{directory}/") for path in paths)


def _needs(executable: Executable) -> Iterator[str]:
    yield executable.path
    yield executable.registered_path
    yield from _links_to(executable.registered_path)
    for path in (executable.registered_path, executable.path):
        yield from _prefixes(path)
    interpreter = _interpreter_of(executable.path) if executable.is_script else None
    if interpreter is not None:
        yield interpreter
        yield from _links_to(interpreter)
        yield from _prefixes(interpreter)
        yield from _prefixes(os.path.realpath(interpreter))


def _prefixes(path: str) -> Iterator[str]:
    """The prefixes that the program at `path` belongs to, when it lies in one that is recognised."""
    directory, prefix = os.path.basename(os.path.dirname(path)), os.path.dirname(os.path.dirname(path))
    if directory not in ("bin", "shims") or prefix == "/":
        return
    configuration = os.path.join(prefix, "pyvenv.cfg")
    if _holds_a_home(prefix):
        # `npm config set prefix ~` and the like: the whole home, with its keys and tokens, is no runtime.
        yield from (place for place in _runtime_libraries(prefix) if directory == "bin" and os.path.isdir(place))
    elif directory == "shims":
        yield prefix
    elif os.path.isfile(configuration):
        yield prefix
        yield from _base_of_virtual_environment(configuration)
    elif _is_python_prefix(prefix) or os.path.isdir(os.path.join(prefix, "lib", "node_modules")):
        yield prefix


def _holds_a_home(prefix: str) -> bool:
    home = os.path.realpath(os.path.expanduser("~"))
    return os.path.commonpath([home, os.path.realpath(prefix)]) == os.path.realpath(prefix)


def _runtime_libraries(prefix: str) -> Iterator[str]:
    yield os.path.join(prefix, "lib", "node_modules")
    with suppress(OSError):
        yield from (
            os.path.join(prefix, "lib", name) for name in os.listdir(os.path.join(prefix, "lib")) if name[:7] == "python3"
        )


def _base_of_virtual_environment(configuration: str) -> Iterator[str]:
    """`home` in pyvenv.cfg names the directory of the base interpreter (PEP 405)."""
    try:
        with open(configuration, encoding="utf-8", errors="replace") as file:
            settings = dict(_settings(file.read(_MOST_CONFIGURATION_CHARACTERS).splitlines()))
    except OSError:
        return
    home = settings.get("home", "")
    if os.path.isabs(home) and "\0" not in home:
        for base in {os.path.dirname(home), os.path.dirname(os.path.realpath(os.path.join(home, "python3")))}:
            yield from (base for base in (base, os.path.dirname(base)) if _is_python_prefix(base))


def _settings(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, equals, value = line.partition("=")
        if equals:
            yield name.strip().lower(), value.strip()


def _is_python_prefix(prefix: str) -> bool:
    if _holds_a_home(prefix):
        return False  # where /lib is a link to /usr/lib, the root looks like a prefix
    library = os.path.join(prefix, "lib")
    try:
        names = os.listdir(library)
    except OSError:
        return False
    return any(name.startswith("python3") and os.path.isfile(os.path.join(library, name, "os.py")) for name in names)


def what_is_missing(path: str) -> str:
    """In words, why the kernel can start the file at `path` neither as a program nor as a script; "" when it is not seen here."""
    try:
        named = _named_interpreter(path)
    except OSError:
        return ""
    if named is None:
        return "" if _beginning(path).startswith(_MACHINE_CODE) else f"it is no program, and {_NO_LINE}"
    if not named:
        return f"its first line names no interpreter after #!; {_EXAMPLE}"
    shown = ascii(named)[:_SHOWN_CHARACTERS]
    if named.endswith("\r"):
        return f"its first line ends as on Windows, so that {shown} is looked for; save it with Unix line ends"
    if not os.path.isabs(named):
        return f"its #! line names the interpreter {shown}, which is no absolute path; {_EXAMPLE}"
    if not os.path.exists(named):
        return f"its #! line names the interpreter {shown}, which is not there; install it, or name another"
    return "" if _may_be_executed(named) else f"its #! line names {shown}, which is no program"


_EXAMPLE = "begin it with `#!/bin/sh`, `#!/usr/bin/env python3` or the like"
_NO_LINE = f"no script either, for want of a #! line: {_EXAMPLE}"


def _interpreter_of(script: str) -> str | None:
    """The program named after `#!`, by an absolute path; None also for what is no program."""
    try:
        named = _named_interpreter(script)
    except OSError:
        return None
    return named if named and os.path.isabs(named) and _is_program(named) else None


def _is_program(path: str) -> bool:
    with suppress(OSError):
        return _may_be_executed(path) and _beginning(path).startswith((*_MACHINE_CODE, b"#!"))
    return False


def _may_be_executed(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _named_interpreter(path: str) -> str | None:
    """The word after `#!` as the kernel reads it, "" when there is none; None where no `#!` stands. Raises OSError."""
    beginning = _beginning(path)
    if not beginning.startswith(b"#!"):
        return None
    line = beginning[2:].split(b"\n", 1)[0].strip(b" \t")
    return os.fsdecode(re.split(b"[ \t\0]", line, maxsplit=1)[0])


def _beginning(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        return os.read(descriptor, _FIRST_LINE_BYTES)
    finally:
        os.close(descriptor)


def _links_to(path: str) -> Iterator[str]:
    """Each link on the way from `path` to the program itself: a view that copies links needs the places they name."""
    found = _hops(path)
    if found and _is_program(found[-1]):
        yield from found


def _hops(path: str) -> list[str]:
    """Each place that the link `path` leads to, one after another, what is no link last; none where it leads nowhere."""
    found: list[str] = []
    for _ in range(40):
        if not os.path.islink(path):
            return found if os.path.exists(path) else []
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        found.append(path)
    return []
