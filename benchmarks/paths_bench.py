"""What the safety of pathguard costs: its operations against the plain Python that does the same unsafely.

Standalone: `python benchmarks/paths_bench.py [rounds]`. The two sides take turns in every round, so that the machine's moods hit
both; medians are compared. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fable_exec.errors import ConfinementUnavailable
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath

KIB, MIB = 1 << 10, 1 << 20


def raw_write(directory: str, name: str, data: bytes) -> None:
    """write, fsync, rename, fsync of the directory, by path."""
    temporary = os.path.join(directory, name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, os.path.join(directory, name))
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def raw_read(directory: str, name: str) -> str:
    with open(os.path.join(directory, name), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def ratio_of_medians(ours: Callable[[], object], plain: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The median seconds of each, measured in turns; who is first changes from round to round."""
    times: dict[Callable[[], object], list[float]] = {ours: [], plain: []}
    for number in range(rounds + 2):
        for act in (ours, plain) if number % 2 else (plain, ours):
            start = time.perf_counter()
            act()
            elapsed = time.perf_counter() - start
            if number >= 2:
                times[act].append(elapsed)
    return statistics.median(times[ours]), statistics.median(times[plain])


def compare(label: str, target: float, ours: Callable[[], object], plain: Callable[[], object], rounds: int) -> bool:
    mine, theirs = ratio_of_medians(ours, plain, rounds)
    ratio = mine / theirs
    print(f"{label:<34} {mine * 1e6:10.1f} us  raw {theirs * 1e6:10.1f} us  x{ratio:5.2f}  (target {target})")
    return ratio <= target


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    met = []
    with tempfile.TemporaryDirectory() as directory:
        root = os.path.join(directory, "w")
        os.makedirs(os.path.join(root, "a/b"))
        held = os.path.join(root, "a/b")
        raw_write(held, "m", os.urandom(MIB))
        raw_write(held, "k", os.urandom(KIB))
        for resolver in ("openat2", "walk"):
            try:
                workspace = Workspace.open(root, resolver=resolver)
            except ConfinementUnavailable as error:
                print(f"{resolver}: not measured: {error}")
                continue
            with workspace:
                met += measure(workspace, resolver, held, rounds)
    return 0 if all(met) else 1


def measure(workspace: Workspace, resolver: str, held: str, rounds: int) -> list[bool]:
    kib, mib = os.urandom(KIB), os.urandom(MIB)
    met = []
    for size, data, target in (("1 KiB", kib, 1.3), ("1 MiB", mib, 1.5)):
        path = WorkspacePath.parse("a/b/ours")
        met.append(
            compare(
                f"{resolver} write_replace {size}", target,
                lambda data=data, path=path: workspace.write_replace(path, data),  # type: ignore[misc]
                lambda data=data: raw_write(held, "plain", data), rounds,  # type: ignore[misc]
            )
        )  # fmt: skip
    many = rounds * 5
    for size, name, target in (("1 MiB", "m", 1.3), ("1 KiB", "k", 99.0)):
        path = WorkspacePath.parse(f"a/b/{name}")
        met.append(
            compare(
                f"{resolver} read {size}", target,
                lambda path=path: workspace.read(path),  # type: ignore[misc]
                lambda name=name: raw_read(held, name), many,  # type: ignore[misc]
            )
        )  # fmt: skip
    start = time.perf_counter()
    for _ in range(10_000):
        WorkspacePath.parse("src/package/module_name.py", PathProfile.PORTABLE)
    print(f"parse: {(time.perf_counter() - start) / 10_000 * 1e6:.1f} us")
    return met


if __name__ == "__main__":
    sys.exit(main())
