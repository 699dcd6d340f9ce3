"""What confinement costs: the steps once per launcher, and every system call after them.

Standalone: `python benchmarks/confine_bench.py [rounds]`. Steps are timed in forked children, since nobody can take them back;
calls in turns between a bare and a filtered child, so that the machine's moods hit both. Medians, with the fastest in brackets.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fable_exec._launcher import kernel, kernel_confine
from fable_exec._launcher.confine_steps import load_filter, restrict_files
from fable_exec.confine import filters
from fable_exec.confine.landlock import LandlockRules, compile_rules, downgrade
from fable_exec.confine.seccomp import Rule, assemble

CALLS = 200_000
SYSTEM = tuple(path for path in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc") if os.path.exists(path))


def in_child(act: Callable[[], list[float]]) -> list[float]:
    """What `act` returns in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        found: list[float] = json.loads(answer.read())
    os.waitpid(pid, 0)
    return found


def microseconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e6


def steps(rules: tuple[Rule, ...], files: LandlockRules) -> list[float]:
    """Microseconds of restrict_files and of load_filter."""
    ruleset = downgrade(compile_rules(files), kernel_confine.landlock_abi())[0].to_wire()
    program = assemble(rules, platform.machine()).to_wire()

    def act() -> list[float]:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        return [microseconds(lambda: restrict_files(ruleset)), microseconds(lambda: load_filter(program))]

    return in_child(act)


def calls(rules: tuple[Rule, ...] | None) -> list[float]:
    """Nanoseconds of getppid, which no rule touches, and of ioctl and fcntl, whose arguments are looked at."""
    program = assemble(rules, platform.machine()).to_wire() if rules is not None else None

    def timed(call: Callable[[], object]) -> float:
        repeated = range(CALLS)
        start = time.perf_counter()
        for _ in repeated:
            call()
        return (time.perf_counter() - start) / CALLS * 1e9

    def act() -> list[float]:
        null = os.open("/dev/null", os.O_RDONLY)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if program is not None:
            load_filter(program)
        return [
            timed(os.getppid),
            timed(lambda: os.get_blocking(null)),  # fcntl(F_GETFL)
            timed(lambda: os.set_inheritable(null, False)),  # ioctl(FIOCLEX)
            timed(lambda: fcntl.fcntl(null, 3)),
        ]

    return in_child(act)


def show(name: str, values: list[float], unit: str) -> None:
    print(f"{name:58} {statistics.median(values):9.1f} {unit}  ({min(values):.1f})")


def main(rounds: int) -> None:
    print(f"Landlock ABI {kernel_confine.landlock_abi()}, {platform.machine()}, {rounds} rounds")
    few = LandlockRules(execute=SYSTEM, write=("/tmp",), devices=("/dev/null",))
    many = LandlockRules(execute=SYSTEM, write=("/tmp",), devices=("/dev/null",), read=_many())
    for name, rules, files in (
        ("strict, 9 paths", filters.strict(), few),
        ("plain, 9 paths", filters.plain(), few),
        (f"strict, {9 + len(_many())} paths", filters.strict(), many),
    ):
        measured = [steps(rules, files) for _ in range(rounds)]
        show(f"restrict_files: {name}", [each[0] for each in measured], "us")
        show(f"load_filter: {name}", [each[1] for each in measured], "us")
    compile_us = [microseconds(lambda: assemble(filters.plain(), platform.machine())) for _ in range(rounds)]
    show("assemble (in the host, once per plan)", compile_us, "us")
    sides = {"no filter": None, "strict": filters.strict(), "plain": filters.plain()}
    found: dict[str, list[list[float]]] = {name: [] for name in sides}
    for _ in range(max(3, rounds // 10)):
        for name, side in sides.items():
            found[name].append(calls(side))
    names = ("getppid (no rule)", "fcntl, by os.get_blocking", "ioctl, by os.set_inheritable", "fcntl, by fcntl.fcntl")
    for index, call in enumerate(names):
        for name in sides:
            show(f"{call}: {name}", [each[index] for each in found[name]], "ns")


def _many() -> tuple[str, ...]:
    return tuple(str(path) for path in sorted(Path("/usr/lib").iterdir()) if path.is_dir())[:100]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
