"""What a launch plan puts before a command: the mounts, Landlock rules and filter of its own steps are asked. Pure."""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fable_exec.confine import Plan
from fable_exec.confine.bpf import Symbol, unpack
from fable_exec.confine.landlock import Kind, rights
from fable_exec.confine.programs import Program, simulate
from fable_exec.confine.seccomp import ARCHITECTURES
from fable_exec.confine.seccomp import Verdict as Answer

__all__ = ["Barriers"]

_SOME_NUMBER = 2**31 - 2
"""Stands for what is only known where a filter is loaded: a process id, a key. No question here is about one."""


class Barriers:
    """The layers of one plan, each asked by itself: what it would refuse if it stood alone."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.workspace = plan.workspace
        self._inside = (*plan.stage, *plan.slot)
        self._landlock: Mapping[str, Any] | None = next(self._arguments("restrict_files", plan.launcher), None)

    @staticmethod
    def _arguments(name: str, steps: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        return (step[1] for step in steps if step[0] == name)

    # Namespaces and what is mounted in them.

    @property
    def has_own_view(self) -> bool:
        """Whether the files are those of a root made for it."""
        return any(step[0] == "enter_root" for step in self.plan.stage)

    @property
    def has_own_network(self) -> bool:
        return "net" in self.plan.namespaces

    @property
    def has_own_processes(self) -> bool:
        return "pid" in self.plan.namespaces

    @property
    def has_own_proc(self) -> bool:
        """Whether /proc shows the command's own processes only."""
        return any(step[0] == "mount_proc" for step in self._inside)

    def mounts_hide(self, path: str) -> bool:
        """Whether the view does not have the host's file of that name."""
        return self.has_own_view and (self._bind_of(path) is None or path in self._arguments("cover", self.plan.stage))

    def mounts_keep(self, path: str) -> bool:
        """Whether the view does not have the host's file, or has it on a read-only mount."""
        return self.has_own_view and (self.mounts_hide(path) or self._bind_of(path) == "read-only")

    def _bind_of(self, path: str) -> str | None:
        """How the host's file is mounted, by the deepest mount that holds it; None where it is not."""
        found = [(step[2], step[1], step[3]) for step in self.plan.stage if step[0] == "bind" and _holds(step[2], path)]
        target, source, access = max(found, key=lambda each: len(each[0]), default=("", "", ""))
        return str(access) if target and source == target else None

    # Landlock.

    @property
    def has_domain(self) -> bool:
        """Whether Landlock confines it at all: who is outside of its domain cannot be traced (ptrace(2)) then."""
        return self._landlock is not None

    def landlock_refuses(self, right: str, path: str) -> bool:
        """Whether no rule grants `right` on `path`. In a root of its own, rules are about that root and not about the host's."""
        wanted = self._handled("fs", right)
        if self._landlock is None or not wanted:
            return False
        hidden = any(_holds(each, path) for each in self._landlock["hidden"])
        granted = (mask for rule, mask, _ in self._landlock["paths"] if _holds(rule, path) and not hidden)
        return not any(mask & wanted for mask in granted)

    def landlock_scopes(self, name: str) -> bool:
        return self._landlock is not None and bool(self._landlock["scoped"] & rights("scope", name))

    def landlock_limits_ports(self, right: str) -> bool:
        """Whether `right` is granted for listed ports alone, if for any."""
        return self._landlock is not None and bool(self._handled("net", right)) and not self._landlock.get("port_ranges")

    @property
    def open_ports(self) -> bool:
        """Whether there is a rule that opens a port."""
        return self._landlock is not None and bool(self._landlock["ports"])

    def _handled(self, kind: Kind, right: str) -> int:
        if self._landlock is None:
            return 0
        return int(self._landlock[f"handled_{kind}"]) & rights(kind, right)

    # The filter of system calls.

    def filter_refuses(self, call: str, *arguments: int) -> bool:
        """Whether the plan's own program, run here, answers this call with anything but leave."""
        if self._program is None:
            return False
        number = self._program.architecture.numbers.get(call)
        if number is None:
            return True  # the machine has no such call
        answer = simulate(self._program, self._program.architecture.name, number, arguments)  # type: ignore[arg-type]  # its own
        return answer.verdict is not Answer.ALLOW and not (answer.verdict is Answer.NOTIFY and answer.errno == 0)

    @functools.cached_property
    def _program(self) -> Program | None:
        wire = next(self._arguments("load_filter", self.plan.launcher), None)
        if wire is None:
            return None
        symbols = tuple((index, Symbol(name, shift)) for index, name, shift in wire["symbols"])
        instructions = unpack(base64.b64decode(wire["program"]))
        program = Program(ARCHITECTURES[wire["architecture"]], instructions, symbols)
        return program.bind({symbol.name: _SOME_NUMBER for _, symbol in symbols})

    # What comes after a command.

    @property
    def is_swept(self) -> bool:
        """Whether files that run later are looked after when a command that may write is over."""
        return any(each.protection == "later_files" and each.state != "unavailable" for each in self.plan.applied)

    @property
    def pins(self) -> bool:
        """Whether files that run later and are there already are mounted read-only."""
        return self.is_swept and self.plan.mode != "plain"


def _holds(directory: str, path: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
