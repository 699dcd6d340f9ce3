"""The later files that are accepted: what the host made, which is pinned, and what commands made and was judged harmless.

Accepting a file of the host also takes in what it leads to: the target of a link, the hooks that a configuration names. A file
that a command made stays the commands' own: they may change and remove it, and it is judged again whenever it, or a place that it
leads to, may have become another.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fable_exec.laterfiles.hookpaths import HookPaths
from fable_exec.laterfiles.judging import Finding, finding
from fable_exec.laterfiles.names import Kind, LaterFile, Names
from fable_exec.laterfiles.pointers import kind_at, leads_to, link_target
from fable_exec.laterfiles.scanning import Scanner, status_of
from fable_exec.pathguard import FileKind, Workspace

__all__ = ["Identity", "KnownFiles"]

_MAX_MOUNTS = 4_000
"""Of pins and the directories above them: a namespace holds 100 000 mounts, and each one takes time once."""
_MAX_LINKS = 8
_MIN_PRUNED = 1_000

Identity = tuple[int, int, int]
"""Inode, time of the last change of the inode (which nobody can set back), number of names."""


class _Known(NamedTuple):
    """One accepted file, as it was then. `of_host`: the host made it, or had it before a command changed it."""

    file: LaterFile
    identity: Identity
    of_host: bool


class KnownFiles:
    """`pins` is what a command must not change: (path, serial number), the oldest first. What is too many is only swept.

    The number is a new one whenever the file may have become another, also by a rename of a directory above it.
    """

    def __init__(self, workspace: Workspace, scanner: Scanner, *, pinned: bool) -> None:
        self._workspace = workspace
        self._pins_hold = pinned
        self._exposed: tuple[LaterFile, ...] = ()
        self._scanner = scanner
        self._hook_paths = HookPaths(workspace)
        self._files: dict[Names, _Known] = {}
        self._leading: dict[Names, set[Names]] = {}
        """Files of commands by each place on the way to where they lead: when something else appears there, they mean another."""
        self._serials: dict[Names, int] = {}
        self._last_serial = 0
        self._prune_at = _MIN_PRUNED
        self.pins: tuple[tuple[str, int], ...] = ()
        self.version = 0
        """Another number whenever anything was noted or dropped."""

    def memory(self) -> dict[str, Any]:
        """What it knows, for `recall` in another process."""
        return {name: value for name, value in vars(self).items() if name not in ("_workspace", "_scanner", "_hook_paths")}

    def recall(self, memory: dict[str, Any]) -> None:
        """Know that instead of what it knew."""
        vars(self).update(memory)

    def accept(self, files: Iterable[LaterFile]) -> None:
        """Take in what the host made, with what it leads to."""
        hosts = [file for file in files if self._is_hosts(file)]
        noted = self._note([*hosts, *self._covering(hosts)], of_host=True)
        led_to = [target for file in noted for target in self._led_to(file)]
        for target in led_to:
            self._accept_target(target)
        self._note(list(self._other_names(noted)), of_host=True)

    def accept_around(self) -> None:
        """Take in the hooks that a repository around the workspace runs from inside it."""
        for directory in self._hook_paths.around():
            self._scanner.named[directory] = Kind.GIT_HOOKS

    def note_harmless(self, judged: Mapping[LaterFile, Identity]) -> None:
        """Remember what a command wrote: each file as it was when it was judged, whatever has taken its name since."""
        for file in self._note(judged, of_host=False):
            for place in leads_to(self._workspace, file):
                for depth in range(1, len(place) + 1):
                    self._leading.setdefault(place[:depth], set()).add(file.components)

    def led_astray(self, changed: Iterable[Names]) -> list[LaterFile]:
        """Files of commands that lead through one of the names in `changed`, or to it: what they mean may be another now."""
        if not self._leading:
            return []
        found = {components for names in changed for components in self._leading.get(names, ())}
        return [self._files[each].file for each in sorted(found) if each in self._files]

    def at(self, components: Names) -> LaterFile | None:
        """The accepted file of this name, if it is there."""
        known = self._files.get(components)
        return None if known is None or self.identity(components) is None else known.file

    def first_below(self, components: Names, *, of_host: bool) -> LaterFile | None:
        """A file that is there, at or below a path; with `of_host` only one of the host's."""
        for at, known in self._files.items():
            if at[: len(components)] == components and (known.of_host or not of_host) and self.identity(at) is not None:
                return known.file
        return None

    def rely_on_pins(self, held: bool) -> None:
        """Whether pins hold from now on; else every file has to be looked at each time."""
        if held is not self._pins_hold:
            self._pins_hold = held
            self._exposed = tuple(self._unprotected())

    def of_commands(self) -> list[LaterFile]:
        """Every file that commands made."""
        return [known.file for known in self._files.values() if not known.of_host]

    def forget_lost_in(self, directories: Iterable[Names]) -> None:
        """These directories are gone: whoever makes another of that name makes new files."""
        gone = set(directories)
        if gone:
            self._drop({at for at in self._files if at[:-1] in gone and self.identity(at) is None})

    def _is_hosts(self, file: LaterFile) -> bool:
        """Whether a file that is there while no command runs is the host's: its own, or one of commands that it has changed."""
        known = self._files.get(file.components)
        return known is None or known.of_host or known.identity != self.identity(file.components)

    def _covering(self, files: Iterable[LaterFile]) -> Iterator[LaterFile]:
        """The directories whose pin has to hold for `files`, where commands made them."""
        above = dict.fromkeys(file.components[:depth] for file in files if file.covered for depth in range(len(file.components)))
        for components in above:
            known = self._files.get(components)
            if known is not None and not known.of_host:
                yield known.file

    def _note(self, files: Iterable[LaterFile] | Mapping[LaterFile, Identity], *, of_host: bool) -> list[LaterFile]:
        noted = []
        for file in files:
            identity = files[file] if isinstance(files, Mapping) else self.identity(file.components)
            if identity is not None:
                known = self._files.get(file.components)
                hosts = of_host or (known is not None and known.of_host)
                self._files[file.components] = _Known(file, identity, hosts)
                self._last_serial += 1
                self._serials[file.components] = self._last_serial
                noted.append(file)
        if len(self._files) > self._prune_at:
            self._prune()
        if noted:
            self.version += 1
            self.pins = tuple(self._pinned())
            self._exposed = tuple(self._unprotected())
        return noted

    def changed_unseen(self) -> list[LaterFile]:
        """Files that changed and may not have been reported: what is written by another name of a file tells of that name."""
        if not self._exposed:
            return []
        root = self._workspace.fd
        return [file for file in self._exposed if not self._is_same(root, file) and self.is_news(file)]

    def is_news(self, file: LaterFile) -> bool:
        """Whether it is not known, or not as it was."""
        known = self._files.get(file.components)
        return known is None or known.identity != self.identity(file.components)

    def _is_same(self, root: int, file: LaterFile) -> bool:
        """The quick look, in one call: the same inode, unchanged, is the same file, however the name led there."""
        known = self._files.get(file.components)
        try:
            status = os.stat(file.path, dir_fd=root, follow_symlinks=False)
        except (OSError, ValueError):
            return False
        return known is not None and known.identity == (status.st_ino, status.st_ctime_ns, status.st_nlink)

    def warnings(self) -> Iterator[Finding]:
        """Files with names that are not in the workspace: what is written through them is not seen."""
        found = Counter(known.identity for known in self._files.values())
        for file, identity, _ in self._files.values():
            missing = identity[2] - found[identity]
            if missing > 0 and not file.is_directory:
                yield finding(file, "left", f"has {missing} more names outside the workspace, by which it can be changed")

    def identity(self, components: Names) -> Identity | None:
        """What tells one file of this name from another; None when there is none."""
        status = status_of(self._workspace, components)
        return None if status is None else (status.st_ino, status.st_ctime_ns, status.st_nlink)

    def _pinned(self) -> Iterator[tuple[str, int]]:
        mounts: set[Names] = set()
        for file, _, of_host in self._files.values():
            if of_host and not (file.covered or file.of_package):
                mounts.update(file.components[: depth + 1] for depth in range(len(file.components)))
                if len(mounts) > _MAX_MOUNTS:
                    return
                yield file.path, self._serials[file.components]

    def _unprotected(self) -> Iterator[LaterFile]:
        """Files that have another name, or may get one (link(2)) because no pin is over them."""
        pinned = {path for path, _ in self.pins} if self._pins_hold else set()
        for file, (_, _, names), of_host in self._files.values():
            held = self._pins_hold and of_host and not file.of_package and (file.covered or file.path in pinned)
            if not file.is_directory and (names > 1 or not held):
                yield file

    def _prune(self) -> None:
        self._drop({at for at in self._files if self.identity(at) is None})
        self._prune_at = 2 * len(self._files) + _MIN_PRUNED

    def _drop(self, lost: set[Names]) -> None:
        if not lost:
            return
        self.version += 1
        self._files = {at: known for at, known in self._files.items() if at not in lost}
        self._serials = {at: self._serials[at] for at in self._files}
        self._leading = {at: left for at, leading in self._leading.items() if (left := leading - lost)}
        self.pins = tuple(self._pinned())
        self._exposed = tuple(self._unprotected())

    def _other_names(self, files: Iterable[LaterFile]) -> Iterator[LaterFile]:
        """The other names that files of the host have in the workspace (hard links): each counts as the file does."""
        linked = {
            known.identity[0]: file
            for file in files
            if not file.is_directory and (known := self._files.get(file.components)) is not None and known.identity[2] > 1
        }
        for components in self._scanner.names_of(linked.keys()) if linked else ():
            identity = self.identity(components)
            file = linked[identity[0]] if identity is not None and identity[0] in linked else None
            if file is not None and components not in self._files and identity == self.identity(file.components):
                yield LaterFile(components, file.kind, False)

    def _led_to(self, file: LaterFile) -> Iterator[LaterFile]:
        """What an accepted file makes count as well."""
        yield from self._link_targets(file.components, file.kind)
        if file.kind is Kind.GIT_CONFIG:
            directories = self._hook_paths.of_git_directory(file.components[:-1])
        elif file.kind is Kind.GIT_POINTER:
            directories = self._hook_paths.of_pointer(file.components)
        else:
            return
        for directory in directories:
            yield LaterFile(directory, Kind.GIT_HOOKS, True)
            yield from self._link_targets(directory, Kind.GIT_HOOKS)

    def _link_targets(self, components: Names, kind: Kind) -> Iterator[LaterFile]:
        for _ in range(_MAX_LINKS):
            target = link_target(self._workspace, components)
            if not target:
                return
            components = target
            yield LaterFile(target, kind, kind_at(self._workspace, target) is FileKind.DIRECTORY)

    def _accept_target(self, target: LaterFile) -> None:
        if target.is_directory:
            self._scanner.named[target.components] = target.kind
            self._note(self._scanner.below(target.components), of_host=True)
        self._note([target], of_host=True)
