"""`python -m benchmarks.leaks`: each executor and one command with a timeout, in a PID namespace of its own, as one table.

--write renews README.md here, the table of the project's README, and results.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.leaks import executors, frameworks
from benchmarks.leaks.box import run_in_box
from benchmarks.leaks.report import insert, table

__all__ = ["NAMES", "PAGES", "RESULTS", "TIMEOUT_SECONDS", "main", "tried"]

_HERE = Path(__file__).resolve().parent
NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(executors.__path__)))
RESULTS = _HERE / "results.json"
PAGES = (_HERE / "README.md", _HERE.parents[1] / "README.md")
TIMEOUT_SECONDS = 1.0


def tried(name: str, python: str, timeout_seconds: float = TIMEOUT_SECONDS) -> dict[str, Any]:
    """The row of one executor: its title, whether it is ours, and what was seen, or why nothing was."""
    module = importlib.import_module(f"benchmarks.leaks.executors.{name}")
    return {"title": module.TITLE, "ours": module.OURS} | run_in_box(python, name, timeout_seconds)


def measured(directory: Path) -> dict[str, Any]:
    """Every executor whose framework is there, and a reason for every framework that is not."""
    pythons, absent = _installed(directory)
    rows = {}
    for name in NAMES:
        needs = getattr(importlib.import_module(f"benchmarks.leaks.executors.{name}"), "FRAMEWORK", None)
        if needs in absent:
            continue
        print(name, file=sys.stderr)
        rows[name] = tried(name, pythons[needs] if needs else sys.executable)
    measured_with = [frameworks.REQUIREMENTS[name].replace("==", " ") for name in sorted(pythons)]
    return {"machine": machine.describe(_HERE), "executors": rows, "frameworks": measured_with, "not_installable": absent}


def _installed(directory: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The interpreter of every framework that is there, and the reason for every other."""
    pythons, absent = {}, {}
    for name in frameworks.REQUIREMENTS:
        try:
            pythons[name] = frameworks.interpreter(directory, name)
        except frameworks.NotInstallable as reason:
            absent[name] = str(reason)
    return pythons, absent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaks", description="What executors leave running.")
    parser.add_argument("--write", action="store_true", help="renew the tables and results.json")
    parser.add_argument("--environment", type=Path, default=frameworks.DIRECTORY, help="where the frameworks are, or will be")
    options = parser.parse_args()
    found = measured(options.environment.absolute())
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        for page in PAGES:
            insert(page, table(found))
    else:
        print(table(found))


if __name__ == "__main__":
    main()
