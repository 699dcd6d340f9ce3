"""What it costs to load the shipped argument rules and to judge one argv. Prints microseconds, the best of several runs."""

from __future__ import annotations

import sys
import time
import timeit
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fable_exec.argrules import ArgumentRules

ORDINARY = [
    ["true"],
    ["git", "status", "--short"],
    ["git", "log", "--oneline", "-5"],
    ["ls", "-la", "src"],
    ["grep", "-rn", "TODO", "src"],
    ["find", ".", "-name", "*.py", "-type", "f"],
    ["pytest", "-q", "tests/test_x.py::test_a"],
    ["timeout", "60", "pytest", "-q"],
    ["sed", "-n", "1,5p", "a.txt"],
    ["awk", "-F:", "$3>5{print $1}", "a.txt"],
    ["bash", "-lc", "ls -la && git status"],
]


def main() -> None:
    started = time.perf_counter()
    rules = ArgumentRules.builtin()
    print(f"load {len(rules.tools)} tools with their examples: {(time.perf_counter() - started) * 1000:.0f} ms")
    for argv in ORDINARY:
        best = min(timeit.repeat(lambda argv=argv: rules.judge(argv), number=1000, repeat=15)) / 1000  # type: ignore[misc]  # a lambda with defaults has no type
        print(f"{best * 1e6:7.1f} us  {' '.join(argv)}")


if __name__ == "__main__":
    main()
