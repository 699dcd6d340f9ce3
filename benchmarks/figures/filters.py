"""Confining a launcher, once: Landlock rules and the system-call filter; and what the filter adds to every call after."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figure import MICROSECONDS, NANOSECONDS, Figure
from benchmarks.measuring import Contestant, Samples, interleaved, timed
from benchmarks.setting import Setting
from fable_exec._launcher import kernel, kernel_confine
from fable_exec._launcher.confine_steps import load_filter, restrict_files
from fable_exec.confine import filters
from fable_exec.confine.landlock import LandlockRules, compile_rules, downgrade
from fable_exec.confine.programs import assemble
from fable_exec.confine.seccomp import Rule

SYSTEM = tuple(path for path in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc") if os.path.exists(path))
FULL_CALLS = 100_000
CALLS: tuple[tuple[str, Callable[[int], object]], ...] = (
    ("getppid (no rule)", lambda fd: os.getppid()),
    ("fcntl, by os.get_blocking", lambda fd: os.get_blocking(fd)),
    ("ioctl, by os.set_inheritable", lambda fd: os.set_inheritable(fd, False)),
    ("fcntl, by fcntl.fcntl", lambda fd: fcntl.fcntl(fd, fcntl.F_GETFL)),
)


def measure(setting: Setting) -> list[Figure]:
    return [*_once(setting), *_every_call(setting)]


def in_child(act: Callable[[], list[float]]) -> list[float]:
    """What `act` returns in a forked child: nobody can take such a step back."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    found: list[float] = json.loads(text)
    return found


def _once(setting: Setting) -> list[Figure]:
    machine = platform.machine()
    many = tuple(str(path) for path in sorted(Path("/usr/lib").iterdir()) if path.is_dir())[:100]
    rules = {"few": LandlockRules(execute=SYSTEM), "many": LandlockRules(execute=SYSTEM, read=many)}
    sets = {name: downgrade(compile_rules(each), kernel_confine.landlock_abi()).to_wire() for name, each in rules.items()}
    programs = {"strict": assemble(filters.strict(), machine).to_wire(), "plain": assemble(filters.plain(), machine).to_wire()}
    steps = {
        f"restrict_files, {len(SYSTEM)} paths": lambda: restrict_files(sets["few"]),
        f"restrict_files, {len(SYSTEM) + len(many)} paths": lambda: restrict_files(sets["many"]),
        "load_filter, strict": lambda: load_filter(programs["strict"]),
        "load_filter, plain": lambda: load_filter(programs["plain"]),
    }
    contestants = [Contestant(name, lambda step=step: _clocked_in_child(step)) for name, step in steps.items()]  # type: ignore[misc]  # a lambda with defaults has no type
    contestants.append(timed("assemble, in the host, once a plan", lambda: assemble(filters.plain(), machine)))
    found = interleaved(contestants, setting.rounds(50))
    return [
        Figure(key=f"filters.{name.replace(' ', '_').replace(',', '')}", title=name, unit=MICROSECONDS, ours=samples)
        for name, samples in found.items()
    ]


def _clocked_in_child(step: Callable[[], object]) -> float:
    def act() -> list[float]:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        start = time.perf_counter()
        step()
        return [time.perf_counter() - start]

    return in_child(act)[0]


def _every_call(setting: Setting) -> list[Figure]:
    """A bare and two filtered children in turns; each does all the calls."""
    sides: dict[str, tuple[Rule, ...] | None] = {"none": None, "strict": filters.strict(), "plain": filters.plain()}
    count, found = setting.size(FULL_CALLS, least=100), {(side, name): list[float]() for side in sides for name, _ in CALLS}
    for number in range(setting.rounds(8)):
        for side in list(sides)[:: 1 if number % 2 else -1]:
            for (name, _), seconds in zip(CALLS, _calls_in_child(sides[side], count), strict=True):
                found[side, name].append(seconds)
    return [
        Figure(
            key=f"filters.{side}.{name.split(',')[0].split()[0]}.{number}",
            title=f"{name}, {side} filter",
            unit=NANOSECONDS,
            ours=Samples(tuple(found[side, name])),
            reference=Samples(tuple(found["none", name])),
            reference_name="no filter",
        )
        for number, (name, _) in enumerate(CALLS)
        for side in ("strict", "plain")
    ]


def _calls_in_child(rules: tuple[Rule, ...] | None, count: int) -> list[float]:
    program = None if rules is None else assemble(rules, platform.machine()).to_wire()

    def act() -> list[float]:
        null = os.open(os.devnull, os.O_RDONLY)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if program is not None:
            load_filter(program)
        return [timed(name, lambda call=call: call(null), count).act() for name, call in CALLS]  # type: ignore[misc]  # a lambda with defaults has no type

    return in_child(act)
