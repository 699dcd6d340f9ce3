"""Run the tests of the adapters in an environment of their own, with every framework that can be had here.

An adapter's extra has the name of its module in fable_exec/adapters, and the group `suite-NAME`, where there is one, brings the
framework's own conformance suite. What this machine's package index does not have is told, and its tests are skipped and counted.
With names only those adapters are tried, and of tests/adapters only the files of their names.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.environment import PROJECT, ensure

DIRECTORY = PROJECT / ".venv-adapters"
ASYNCIO = ["asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function"]
"""What the suite of langchain-tests asks of pytest-asyncio, which it brings. Elsewhere pytest refuses these options."""
TESTS = PROJECT / "tests" / "adapters"


def adapters(project: dict[str, Any]) -> list[str]:
    """The extras that bring a framework."""
    modules = {path.stem for path in (PROJECT / "fable_exec" / "adapters").iterdir()}
    return [name for name in project["project"]["optional-dependencies"] if name.replace("-", "_") in modules]


def installed(names: Sequence[str], groups: Sequence[str]) -> tuple[Path, list[str]]:
    """The interpreter of the environment with all that could be installed, and the names of what could not."""
    python, missing = ensure(DIRECTORY, ["cli"], ["test"]), []
    for extras, wanted in [([name], []) for name in names] + [([], [f"suite-{name}"]) for name in names]:
        if wanted and wanted[0] not in groups:
            continue
        try:
            ensure(DIRECTORY, extras, wanted)
        except subprocess.CalledProcessError:
            missing += [*extras, *wanted]
    return python, missing


def files_of(names: Sequence[str]) -> list[str]:
    """The test files of these adapters."""
    return sorted(str(path) for name in names for path in TESTS.glob(f"test_{name.replace('-', '_')}*.py"))


def options_of(python: Path) -> list[str]:
    """What pytest is told there besides what the project says."""
    has_asyncio = subprocess.run([str(python), "-c", "import pytest_asyncio"], stderr=subprocess.DEVNULL).returncode == 0
    return [f"--override-ini={option}" for option in ASYNCIO if has_asyncio]


def main(arguments: Sequence[str]) -> int:
    """`[NAME...] [-- ARGUMENTS OF PYTEST]`; returns the exit status."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    names, rest = arguments[:at], arguments[at + 1 :]
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    known = adapters(project)
    if unknown := [name for name in names if name not in known]:
        print(f"there is no adapter {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    python, missing = installed(names or known, list(project["dependency-groups"]))
    places = files_of(names) if names else [str(TESTS)]
    status = subprocess.run([str(python), "-m", "pytest", *options_of(python), *places, *rest], cwd=PROJECT).returncode
    print(f"adapters tried: {', '.join(names or known)}; not to be had here: {', '.join(missing) or 'nothing'}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
