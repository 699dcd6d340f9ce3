"""Run tests against what others wrote, in an environment of its own with all of it that can be had here.

    test_with.py adapters|verifiers [NAME...] [-- ARGUMENTS OF PYTEST]

An adapter's extra has the name of its module in fable_exec/adapters, and the group `suite-NAME`, where there is one, brings the
framework's own conformance suite; its tests are the files of its name in tests/adapters. A verifier has the group
`verifier-NAME`; its tests are the files that require the ability of its name. What this machine's package index does not have is
told, and its tests are skipped and counted. With names only those are tried.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.environment import PROJECT, ensure

KINDS = ("adapters", "verifiers")
ASYNCIO = ["asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function"]
"""What the suite of langchain-tests asks of pytest-asyncio, which it brings. Elsewhere pytest refuses these options."""
TESTS = PROJECT / "tests"
_VERIFIER = "verifier-"


@dataclasses.dataclass(frozen=True)
class Other:
    """Something of somebody else: what brings it, and what tries it."""

    extras: Sequence[str]
    groups: Sequence[str]
    files: Sequence[Path]


def adapters(project: Mapping[str, Any]) -> dict[str, Other]:
    """The extras that bring a framework, each with its suite."""
    modules = {path.stem for path in (PROJECT / "fable_exec" / "adapters").iterdir()}
    names = [name for name in project["project"]["optional-dependencies"] if name.replace("-", "_") in modules]
    suites = {name: [f"suite-{name}"] for name in names if f"suite-{name}" in project["dependency-groups"]}
    return {
        name: Other([name], suites.get(name, []), sorted((TESTS / "adapters").glob(f"test_{name.replace('-', '_')}*.py")))
        for name in names
    }


def verifiers(project: Mapping[str, Any]) -> dict[str, Other]:
    """The groups that bring a second opinion."""
    names = [group.removeprefix(_VERIFIER) for group in project["dependency-groups"] if group.startswith(_VERIFIER)]
    texts = {path: path.read_text() for path in sorted(TESTS.rglob("test_*.py"))}
    asking = {name: f'requires_ability("{name.replace("-", "_")}")' for name in names}
    return {
        name: Other([], [f"{_VERIFIER}{name}"], [path for path, text in texts.items() if asking[name] in text]) for name in names
    }


def installed(directory: Path, wanted: Sequence[Other]) -> tuple[Path, list[str]]:
    """The interpreter of the environment with all that could be installed, and the names of what could not."""
    python, missing = ensure(directory, ["cli"], ["test"]), []
    extras = [("extra", name) for other in wanted for name in other.extras]
    for part, name in [*extras, *(("group", name) for other in wanted for name in other.groups)]:
        try:
            ensure(directory, [name] if part == "extra" else [], [name] if part == "group" else [])
        except subprocess.CalledProcessError:
            missing.append(name)
    return python, missing


def options_of(python: Path) -> list[str]:
    """What pytest is told there besides what the project says."""
    has_asyncio = subprocess.run([str(python), "-c", "import pytest_asyncio"], stderr=subprocess.DEVNULL).returncode == 0
    return [f"--override-ini={option}" for option in ASYNCIO if has_asyncio]


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: that of pytest, or 2 for arguments that are none."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    kind, names, rest = arguments[0] if at else "", arguments[1:at], arguments[at + 1 :]
    if kind not in KINDS:
        print(f"say what to try: {' or '.join(KINDS)}, then names of some", file=sys.stderr)
        return 2
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    known = adapters(project) if kind == "adapters" else verifiers(project)
    if unknown := [name for name in names if name not in known]:
        print(f"there is none of {kind} called {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    wanted = [known[name] for name in names or known]
    python, missing = installed(PROJECT / f".venv-{kind}", wanted)
    files = sorted({str(path) for other in wanted for path in other.files})
    places = [str(TESTS / kind)] if kind == "adapters" and not names else files
    status = subprocess.run([str(python), "-m", "pytest", *options_of(python), *places, *rest], cwd=PROJECT).returncode
    print(f"{kind} tried: {', '.join(names or known)}; not to be had here: {', '.join(missing) or 'nothing'}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
