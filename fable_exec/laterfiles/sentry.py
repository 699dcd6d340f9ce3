"""Keeps a list of the workspace's later files and deals with those that a command plants.

Ask `before_command` for what to pin, `after_command` for what was found. What the host itself made between two commands is
accepted; what appears while a command runs is judged. One lock; a call that finds nothing new costs one system call, and
where pins do not hold one more for each file that is known.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from typing import Literal

from fable_exec._sys.forks import ProcessLock
from fable_exec.laterfiles.judging import Finding, Judge, finding
from fable_exec.laterfiles.known import Identity, KnownFiles
from fable_exec.laterfiles.names import Kind, LaterFile, Names, completes_git_directory, folded_name
from fable_exec.laterfiles.quarantine import Quarantine, is_set_aside, open_up
from fable_exec.laterfiles.scanning import Gap, Scanner, status_of
from fable_exec.laterfiles.watching import Change, TreeWatch
from fable_exec.pathguard import Workspace, WorkspacePath

__all__ = ["Finding", "Sentry"]

Action = Literal["neutralise", "report"]

_MAX_FINDINGS = 100
_MAX_OPENED = 10_000
_MAX_LOOKS = 4
_PARTS = ("objects", "refs")
"""Of a repository: no pin can keep them, as commits must write there."""
_REMEMBERED = frozenset(
    {"_pinned", "_is_fresh", "_had", "_repositories_of_commands", "_unsettled", "_unseen", "_running", "_hosts_gaps"}
)


class Sentry:
    """See the module.

    Args:
        workspace: stays the caller's and must outlive the sentry.
        quarantine: a directory outside the workspace that takes what is moved away.
        pinned: whether what `before_command` names is really kept from being changed; else each of them is looked at every time.
        action: "neutralise" makes a finding harmless, "report" only says that it is there.
        watched: whether changes are watched, so that a look costs little. A sentry of one long command does without: a user has
            few inotify instances (128), and the kernel takes 20 ms to close one.
        memory: of another sentry, which this one goes on from without a look of its own; none of them is `watched`.

    Raises:
        ValueError: the quarantine lies inside the workspace.
    """

    def __init__(
        self,
        workspace: Workspace,
        quarantine: str,
        action: Action = "neutralise",
        *,
        pinned: bool,
        watched: bool = True,
        memory: bytes | None = None,
    ) -> None:
        self._workspace = workspace
        self._pinned = pinned
        self._watched = watched
        self._neutralise = action == "neutralise"
        self._quarantine = Quarantine(quarantine, workspace.path)
        self._judge = Judge(workspace, self._quarantine, neutralise=self._neutralise)
        self._lock = ProcessLock()
        self._begin()
        if memory is None:
            self._look_around()
        else:
            self._recall(memory)

    def _start(self) -> None:
        self._begin()
        self._look_around()

    def _begin(self) -> None:
        """Know nothing yet."""
        self._process = os.getpid()
        self._watch = TreeWatch("" if self._watched else "for one command")
        self._is_fresh = not self._watched
        self._had: list[tuple[Names, str]] = []
        self._scanner = Scanner(self._workspace, self._watch)
        self._known = KnownFiles(self._workspace, self._scanner, pinned=self._pinned)
        self._repositories_of_commands: set[Names] = set()
        self._unsettled: list[LaterFile] = []
        self._unseen: set[Names] = set()
        self._running = 0
        self._hosts_gaps: dict[Names, Gap] = {}
        self._warned: tuple[int, tuple[Finding, ...]] = (-1, ())

    def _look_around(self) -> None:
        self._known.accept_around()
        self._known.accept(self._scanner.below(()))
        self._accept_gaps()

    def memory(self) -> bytes:
        """What this sentry, which is not `watched`, knows: for another one of the same workspace, in a process of the same user.

        The other process must be able to trust whoever hands it over.
        """
        with self._lock:
            own = {name: value for name, value in vars(self).items() if name in _REMEMBERED}
            return pickle.dumps((own, self._scanner.memory(), self._known.memory()))

    def _recall(self, memory: bytes) -> None:
        own, scanner, known = pickle.loads(memory)
        vars(self).update(own)
        self._scanner.recall(scanner)
        self._known.recall(known)

    @property
    def watching(self) -> str:
        """Why every look is a full one; empty while changes are watched."""
        return self._watch.reason

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is weak about what the host has: other names of later files, places that could not be looked into."""
        with self._lock:
            if self._warned[0] != self._known.version:
                gaps = [gap for gap in self._hosts_gaps.values() if gap.components not in self._scanner.entered]
                self._warned = self._known.version, _bounded([*self._known.warnings(), *map(_of_gap, gaps)])
            return self._warned[1]

    def kind_at(self, components: Names, *, is_directory: bool) -> Kind | None:
        """The kind of a path by its names, by what the directories above it are, and by what the host's files lead to."""
        with self._lock:
            self._catch_up()
            for depth in range(1, len(components) + 1):
                leads_on = is_directory or depth < len(components)
                file = self._known.at(components[:depth])
                file = file or self._scanner.file_at(components[: depth - 1], components[depth - 1], leads_on)
                if file is not None:
                    return file.kind
            return None

    def held_by_host(self, components: Names) -> LaterFile | None:
        """A later file of the host at or below a path."""
        with self._lock:
            self._catch_up()
            return self._known.first_below(components, of_host=True)

    def held_below(self, components: Names) -> LaterFile | None:
        """A later file at or below a path, whoever made it."""
        with self._lock:
            self._catch_up()
            return self._known.first_below(components, of_host=False)

    def rely_on_pins(self, held: bool) -> None:
        """Tell whether what `before_command` names is really kept from being changed."""
        with self._lock:
            self._pinned = held
            self._known.rely_on_pins(held)

    def before_command(self) -> tuple[tuple[str, int], ...]:
        """(path, stamp) of what exists now and must not be changed by the command that starts; the stamp changes when the file
        may be another one. Pair it with `after_command`."""
        with self._lock:
            self._take_in_the_hosts()
            if not self._watched and self._running == 0:
                self._had = self._parts_of_repositories()
            self._running += 1
            return self._known.pins

    def after_command(self) -> tuple[Finding, ...]:
        """What was planted since, already dealt with."""
        with self._lock:
            self._running = max(0, self._running - 1)
            changes = self._changes()
            unseen = self._known.changed_unseen()
            if not (changes or unseen or self._unsettled or self._unseen):
                return ()
            repositories = set(self._scanner.git_directories)
            appeared = dict.fromkeys([*self._unsettled, *self._looked_up(changes), *unseen])
            appeared.update(dict.fromkeys(self._led_astray(changes)))
            appeared.update(dict.fromkeys(self._behind_closed_doors()))
            appeared.update(dict.fromkeys(self._too_deep()))
            self._repositories_of_commands |= self._scanner.git_directories - repositories
            findings = self._settled(appeared)
            findings += map(_of_gap, self._scanner.gaps)
            self._unseen = {gap.components for gap in self._scanner.gaps if not gap.lasting}
            self._scanner.gaps.clear()
            return _bounded([*findings, *self._losses(changes, repositories)])

    def close(self) -> None:
        """Stop watching. Idempotent."""
        with self._lock:
            self._watch.close()

    def _settled(self, files: Iterable[LaterFile]) -> list[Finding]:
        """Judge `files`. What another command kept from being dealt with is judged again next time, and never accepted."""
        findings: list[Finding] = []
        settled: dict[LaterFile, Identity] = {}
        self._unsettled = []
        for file in files:
            each, identity, at_rest = self._judged_at_rest(file)
            findings += [] if each is None else [each]
            if not at_rest:
                self._unsettled.append(file)
            elif identity is not None:
                settled[file] = identity
        self._known.note_harmless(settled)
        self._quarantine.trim()
        return findings

    def _judged_at_rest(self, file: LaterFile) -> tuple[Finding | None, Identity | None, bool]:
        """The first finding, what has the name now, and whether that is what was judged: another command may swap it."""
        first: Finding | None = None
        for _ in range(_MAX_LOOKS):
            before = self._known.identity(file.components)
            each = self._judge.judge(file)
            first = first or each
            if self._neutralise and each is not None and each.done == "left":
                break
            if self._known.identity(file.components) == before:
                return first, before, True
        return first, None, False

    def _take_in_the_hosts(self) -> None:
        """Accept what appeared while no command ran."""
        if self._process != os.getpid():
            self._start()  # a forked child must not take its parent's events away
        if self._running == 0 and not self._is_fresh:
            if changes := self._changes():
                self._known.accept(self._looked_up(changes))
            self._accept_gaps()
        self._is_fresh = False  # the first look was just now: for one command it is enough

    def _catch_up(self) -> None:
        """The same for a question between commands; where nothing is watched, what was seen last has to do: a look takes long."""
        if not self._watch.reason:
            self._take_in_the_hosts()

    def _changes(self) -> list[Change]:
        changes = list(dict.fromkeys(self._watch.changes()))
        lost = [change for change in changes if change.everything]
        return [*lost[:1], *(change for change in changes if change.gone)] if lost else changes

    def _looked_up(self, changes: list[Change]) -> list[LaterFile]:
        """The later files that the changes stand for."""
        for directory in self._watch.removed:
            self._scanner.forget(directory)
        self._known.forget_lost_in(self._watch.removed)
        self._watch.removed.clear()
        if changes and changes[0].everything:
            return self._news_below(())
        found: list[LaterFile] = []
        starts, self._unseen = self._unseen, set()
        for change in changes:
            if change.gone:
                continue
            file = self._scanner.file_at(change.directory, change.name, change.is_directory)
            if file is not None:
                found.append(file)
            if change.is_directory and (change.appeared or (*change.directory, change.name) not in self._scanner.entered):
                starts.add((*change.directory, change.name))
            if completes_git_directory(change.name) and change.directory not in self._scanner.git_directories:
                starts.add(change.directory)
        for start in _outermost(starts):
            found += self._news_below(start)
        return found

    def _news_below(self, start: Names) -> list[LaterFile]:
        # A command can make a directory be looked into again (by a name that makes it a git directory, by a rename): what the
        # host has there must not be taken for planted.
        return [file for file in self._scanner.below(start) if self._known.is_news(file)]

    def _led_astray(self, changes: list[Change]) -> list[LaterFile]:
        """What commands made earlier and may lead elsewhere now."""
        if changes and changes[0].everything:
            return self._known.of_commands()
        return self._known.led_astray((*change.directory, change.name) for change in changes if not change.gone)

    def _behind_closed_doors(self) -> list[LaterFile]:
        """What lies in directories that the command made unreadable; they are opened up for it."""
        found: list[LaterFile] = []
        opened: set[Names] = set()
        while self._neutralise and (closed := self._closed_doors(opened)):
            for gap in closed:
                self._scanner.gaps.remove(gap)
                self._open(gap)
                found += self._news_below(gap.components)
            opened.update(gap.components for gap in closed)
        return found

    def _closed_doors(self, opened: set[Names]) -> list[Gap]:
        """Those that opening may help; what stays closed, and what is too much for one look, stays a gap and is told."""
        closed = [gap for gap in self._scanner.gaps if gap.unreadable and gap.components and gap.components not in opened]
        return closed[: max(0, _MAX_OPENED - len(opened))]

    def _too_deep(self) -> list[LaterFile]:
        """Directories that a command made deeper than anything can be named: they are taken away as a whole."""
        planted = [
            gap
            for gap in self._scanner.gaps
            if self._neutralise and gap.deep and gap.components not in self._hosts_gaps and not is_set_aside(gap.components[-1])
        ]
        self._scanner.gaps[:] = [gap for gap in self._scanner.gaps if gap not in planted]
        return [LaterFile(gap.components, Kind.NOT_JUDGED, True) for gap in planted]

    def _accept_gaps(self) -> None:
        """What could not be looked into when the host made it is the host's."""
        if self._scanner.gaps:
            self._hosts_gaps.update((gap.components, gap) for gap in self._scanner.gaps)
            self._scanner.gaps.clear()
            self._warned = (-1, ())

    def _open(self, gap: Gap) -> None:
        try:
            parent = self._workspace.open_directory(WorkspacePath(components=gap.components[:-1]))
        except OSError:
            return
        try:
            open_up(parent, gap.components[-1])
        finally:
            os.close(parent)

    def _losses(self, changes: list[Change], repositories: set[Names]) -> list[Finding]:
        """Repositories of the host that a command took the objects or branches of: no pin can keep what commits must write."""
        gone = [(change.directory, change.name) for change in changes if change.gone and folded_name(change.name) in _PARTS]
        lost = {directory: name for directory, name in gone or self._had if not self._is_there((*directory, name))}
        return [
            finding(LaterFile(directory, Kind.GIT_REPOSITORY, True), "left", f"lost its {name}")
            for directory, name in lost.items()
            if directory in repositories - self._repositories_of_commands
        ]

    def _parts_of_repositories(self) -> list[tuple[Names, str]]:
        """What the next command could take from the repositories that there are, where nothing tells that it did."""
        return [
            (directory, name)
            for directory in self._scanner.git_directories
            for name in _PARTS
            if self._is_there((*directory, name))
        ]

    def _is_there(self, components: Names) -> bool:
        return status_of(self._workspace, components) is not None


def _of_gap(gap: Gap) -> Finding:
    return finding(LaterFile(gap.components, Kind.NOT_JUDGED, True), "left", f"could not be looked into: {gap.reason}")


def _outermost(starts: set[Names]) -> list[Names]:
    """Without those that lie below another one."""
    kept: list[Names] = []
    for start in sorted(starts):
        if not kept or start[: len(kept[-1])] != kept[-1]:
            kept.append(start)
    return kept


def _bounded(findings: list[Finding]) -> tuple[Finding, ...]:
    more = len(findings) - _MAX_FINDINGS
    if more <= 0:
        return tuple(findings)
    summary = Finding(".", Kind.NOT_JUDGED, "left", f"and {more} more findings, dealt with in the same way")
    return (*findings[:_MAX_FINDINGS], summary)
