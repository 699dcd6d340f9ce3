"""The allow-list against the file system: which file each entry means, and whether it is still that file.

Resolved once, when a broker starts; afterwards a look-up touches no directory, and a check costs one stat. Each file is held open
meanwhile: otherwise its number could be given to another file as soon as it is removed. Whether a command may run is decided
elsewhere (fable_exec.decision); here it is only said which file is meant.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import attrs

from fable_exec.errors import PolicyError
from fable_exec.policy import BrokerPolicy

__all__ = ["AllowedExecutables", "Executable", "is_unchanged", "resolve_executables", "trusted_path"]

_NAMED_ENTRIES = 5
_ROOT = 0
_HOLD_FLAGS = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC | os.O_NOFOLLOW
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@attrs.frozen(kw_only=True)
class Executable:
    """One file that may be executed, as it was seen when it was allowed.

    Args:
        name: its basename on the allow-list.
        registered_path: the absolute path before links were resolved; it becomes argv[0], because virtual environments and
            multi-call programs find themselves by it.
        path: the resolved path.
        device, inode: of the file itself; the launcher refuses another.
        is_script: whether it begins with `#!`.
        by_descriptor: execute the checked descriptor instead of the path, because the file could be swapped in between. The price
            is a process named after the descriptor's number, and a script that sees such a path in `$0`.
        digest: SHA-256 of its content, where the policy pins it.
    """

    name: str
    registered_path: str
    path: str
    device: int
    inode: int
    is_script: bool = False
    by_descriptor: bool = False
    digest: str | None = None

    @property
    def resolved_name(self) -> str:
        """The basename of the file behind the links."""
        return os.path.basename(self.path)


@attrs.frozen(eq=False)
class AllowedExecutables:
    """What may be executed, by name; the entries that meant nothing here, each with why; and the PATH that bare names were
    found in.

    It holds a descriptor of each file: close it.
    """

    by_name: Mapping[str, Executable]
    missing: Mapping[str, str]
    path: tuple[str, ...]
    _held: ExitStack = attrs.field(repr=False)

    def close(self) -> None:
        """Let the files go. Idempotent."""
        self._held.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Basenames in the order of the allow-list."""
        return tuple(executable.name for executable in self.by_name.values())

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Basenames of the entries that meant nothing here, in the order of the allow-list."""
        return tuple(map(os.path.basename, self.missing))

    def why_missing(self, requested: str) -> str:
        """In words, why the entry of the allow-list that `requested` is means no file; "" where it is none of those."""
        return next((why for entry, why in self.missing.items() if requested in (entry, os.path.basename(entry))), "")

    def find(self, requested: str) -> Executable | None:
        """The executable that `requested` means: its bare name, or an absolute path of the very file; else None.

        Anything else with a separator is none, `./python` as well as `bin/python`: it would name a file by where it happens to be
        looked for.
        """
        if not _has_separator(requested):
            return self.by_name.get(os.path.normcase(requested))
        found = self.by_name.get(os.path.normcase(os.path.basename(requested)))
        if found is None or not os.path.isabs(requested):
            return None
        return found if requested in (found.registered_path, found.path) or _leads_to(requested, found.path) else None


def trusted_path(policy: BrokerPolicy, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The directories of PATH: those of the policy, else the host's that are absolute, exist, and lie outside the workspace.

    A relative or empty entry means the working directory, and a directory of the workspace holds what a model may have written.
    """
    if policy.environment.path is not None:
        return policy.environment.path
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    absolute = (entry for entry in entries if os.path.isabs(entry) and os.path.isdir(entry))
    return tuple(dict.fromkeys(entry for entry in absolute if not _is_inside(entry, policy.workspace)))


def passed_over(name: str, policy: BrokerPolicy, environment: Mapping[str, str]) -> str:
    """In words, where `name` would be found in the host's PATH but for the entries that `trusted_path` leaves out; else ""."""
    if _has_separator(name) or policy.environment.path is not None:
        return ""
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is None or os.path.dirname(found) in trusted_path(policy, environment):
        return ""
    return (
        f"{os.path.abspath(found)} is passed over, because PATH is not searched in the workspace or relative to a directory;"
        " name it by its absolute path if it may run"
    )


def resolve_executables(policy: BrokerPolicy, environment: Mapping[str, str]) -> AllowedExecutables:
    """Look every entry of the allow-list up, once; the caller closes what is returned.

    Raises:
        PolicyError: two entries have one name and mean different files, or none of them can be found.
    """
    path = trusted_path(policy, environment)
    with ExitStack() as held:
        found, missing = _look_all_up(policy, environment, path, held)
        return AllowedExecutables(found, missing, path, held.pop_all())


def _look_all_up(
    policy: BrokerPolicy, environment: Mapping[str, str], path: tuple[str, ...], held: ExitStack
) -> tuple[dict[str, Executable], dict[str, str]]:
    found: dict[str, Executable] = {}
    missing: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    for index, entry in enumerate(policy.allowed_executables):
        executable = _look_up(entry, path, policy, held)
        if executable is None:
            missing[entry] = _why_not_found(entry, policy, environment)
            continue
        first = found.setdefault(os.path.normcase(executable.name), executable)
        if first.path != executable.path:
            text = f"ambiguous: {executable.name} is {first.path} and {executable.path}"
            faults.append((f"allowed_executables[{index}]", text))
    if not found:
        places = os.pathsep.join(path) or "an empty PATH"
        hints = [hint for entry in policy.allowed_executables if (hint := passed_over(entry, policy, environment))]
        fault = f"none of {_named(policy.allowed_executables)} could be found in {places}"
        faults.append(("allowed_executables", "; ".join([fault, *hints[:1]])))
    if faults:
        raise PolicyError.of(faults)
    return found, missing


def _named(entries: tuple[str, ...]) -> str:
    more = f" and {len(entries) - _NAMED_ENTRIES} more" if len(entries) > _NAMED_ENTRIES else ""
    return (", ".join(entries[:_NAMED_ENTRIES]) or "nothing") + more


def _why_not_found(entry: str, policy: BrokerPolicy, environment: Mapping[str, str]) -> str:
    if _has_separator(entry):
        return f"there was no executable file {entry} when the broker started"
    hint = passed_over(entry, policy, environment)
    place = "PATH" if policy.environment.path is None else "environment.path"
    return f"it was not found in {place} when the broker started{hint and f' ({hint})'}"


def is_unchanged(executable: Executable) -> bool:
    """Whether the resolved path still leads to the file that was allowed, and, where pinned, with the same content."""
    try:
        status = os.stat(executable.path, follow_symlinks=False)
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) != (executable.device, executable.inode):
        return False
    return executable.digest is None or _digest_of(executable.path) == executable.digest


def _look_up(entry: str, path: tuple[str, ...], policy: BrokerPolicy, held: ExitStack) -> Executable | None:
    registered = shutil.which(entry, path=os.pathsep.join(path))
    if registered is None:
        return None
    try:
        resolved = os.path.realpath(registered, strict=True)
        descriptor = os.open(resolved, _HOLD_FLAGS)
    except OSError:
        return None
    held.callback(os.close, descriptor)
    status = os.fstat(descriptor)
    digest = _digest_of(resolved) if policy.pin_executable_digest else None
    if not stat.S_ISREG(status.st_mode) or (policy.pin_executable_digest and digest is None):
        return None
    is_script = _is_script(resolved)
    return Executable(
        name=os.path.basename(entry),
        registered_path=registered,
        path=resolved,
        device=status.st_dev,
        inode=status.st_ino,
        is_script=is_script,
        by_descriptor=_is_inside(resolved, policy.workspace) or (not is_script and _could_be_swapped(resolved)),
        digest=digest,
    )


def _has_separator(text: str) -> bool:
    return os.sep in text or (os.altsep is not None and os.altsep in text)


def _leads_to(requested: str, path: str) -> bool:
    try:
        return os.path.normcase(os.path.realpath(requested, strict=True)) == os.path.normcase(path)
    except (OSError, ValueError):
        return False


def _is_inside(path: str, workspace: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(workspace)


def _is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False  # it may be executed and not read, which no script can be


def _could_be_swapped(path: str) -> bool:
    """Whether anybody but root could put another file in its place, or change it."""
    return any(_is_writable_by_others(each) for each in _with_ancestors(path))


def _with_ancestors(path: str) -> Iterator[str]:
    yield path
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent


def _is_writable_by_others(path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return True
    return status.st_uid != _ROOT or bool(status.st_mode & _WRITABLE_BY_OTHERS)


def _digest_of(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
