"""Rules of the house that the import contracts cannot express."""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "fable_exec"
MODULES = sorted(PACKAGE.rglob("*.py"))
DOORS_TO_THE_KERNEL = ("_launcher", "_sys")


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Absolute dotted names that a module imports, wherever the statement stands."""
    package = ".".join(path.relative_to(PROJECT).parent.parts)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield importlib.util.resolve_name("." * node.level + (node.module or ""), package)


def test_ctypes_stays_behind_the_doors_to_the_kernel() -> None:
    users = {room(path) for path in MODULES for name in imported(path) if name.split(".")[0] == "ctypes"}
    assert users <= set(DOORS_TO_THE_KERNEL)


def test_the_launcher_needs_the_standard_library_and_itself() -> None:
    names = {name for path in (PACKAGE / "_launcher").rglob("*.py") for name in imported(path)}
    foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not f"{name}.".startswith("fable_exec._launcher.")} == set()


def test_the_library_imports_by_absolute_names_and_the_launcher_program_by_relative_ones() -> None:
    """The program also runs from its files alone, where nothing is called fable_exec."""
    imports = [(path, node) for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom)]
    assert [str(path) for path, node in imports if node.level and room(path) != "_launcher"] == []
    own = [(path, node) for path, node in imports if (node.module or "").split(".")[0] == "fable_exec"]
    assert [str(path) for path, _ in own if room(path) == "_launcher"] == []


def test_the_launcher_program_looks_for_no_codec() -> None:
    """Confined, or as another user, it may not reach the standard library; UTF-8 is there from the start."""
    calls = [
        node for path in (PACKAGE / "_launcher").rglob("*.py") for node in ast.walk(tree(path)) if isinstance(node, ast.Call)
    ]
    keywords = [keyword for call in calls for keyword in call.keywords if keyword.arg == "encoding"]
    assert {ast.unparse(keyword.value) for keyword in keywords} <= {"'utf-8'"}


@pytest.mark.parametrize("word", ["preexec_fn", "shell"])
def test_no_process_is_started_in_a_way_that_touches_the_host_or_a_shell(word: str) -> None:
    calls = [node for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    assert [ast.unparse(call) for call in calls for keyword in call.keywords if keyword.arg == word] == []


IGNORE = re.compile(r"# *(?:type: *ignore|noqa|ruff: *noqa|mypy: *ignore|pyright: *ignore)")
WITH_ITS_REASON = re.compile(r"# type: ignore\[[a-z, -]+\]  # \S.*|# noqa: [A-Z0-9, ]+  # \S.*|# ruff: noqa: [A-Z0-9, ]+ - \S.*")


def test_every_line_that_a_checker_is_told_to_ignore_says_which_rule_and_why() -> None:
    places = [PACKAGE, *(PROJECT / name for name in ("tests", "benchmarks", "examples", "tools"))]
    modules = [path for place in places for path in place.rglob("*.py")]
    files = [path for path in modules if not any(part.startswith(".") for part in path.relative_to(PROJECT).parts)]
    lines = [(path, line) for path in files if path != Path(__file__) for line in path.read_text().splitlines()]
    ignoring = [(path, line[found.start() :]) for path, line in lines if (found := IGNORE.search(line))]
    assert len(ignoring) > 20
    assert [f"{path}: {text}" for path, text in ignoring if not WITH_ITS_REASON.fullmatch(text)] == []


def test_no_room_is_called_by_a_word_that_says_nothing() -> None:
    assert {"utils", "helpers", "manager", "common"}.isdisjoint(path.stem for path in MODULES)


DESIGN = (PROJECT / "docs/explanation/design.md").read_text()
LAYERS = [
    [room.strip() for room in layer.split("|")]
    for contract in tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if contract["id"] == "floors"
    for layer in contract["layers"]
]


def test_the_picture_of_the_design_has_the_rooms_in_the_order_of_the_import_contracts() -> None:
    picture = DESIGN.partition("```text\n")[2].partition("```")[0].splitlines()
    places = [
        [next(place for place, line in enumerate(picture) if re.search(rf"(?<![\w.]){room}(?![\w.])", line)) for room in layer]
        for layer in LAYERS
    ]
    assert all(max(above) < min(below) for above, below in itertools.pairwise(places)), places


def test_the_design_has_a_line_for_every_room() -> None:
    rows = {room for row in re.findall(r"^\| (`.*?) \| ", DESIGN, re.MULTILINE) for room in re.findall(r"`(\w+)`", row)}
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__", "__main__"} <= rows


def test_every_module_says_what_it_does() -> None:
    assert [str(path) for path in MODULES if not ast.get_docstring(tree(path)) and path.read_text().strip()] == []


def test_every_public_name_is_there() -> None:
    import fable_exec.errors

    assert [name for name in fable_exec.__all__ if not hasattr(fable_exec, name)] == []
    assert set(fable_exec.__all__) <= set(dir(fable_exec))
    errors = {name for name, each in vars(fable_exec.errors).items() if isinstance(each, type) and issubclass(each, Exception)}
    assert errors <= set(fable_exec.__all__)
    assert (PACKAGE / "py.typed").exists()


def test_the_import_loads_nothing_of_the_command_line_and_no_event_loop() -> None:
    program = "import sys, fable_exec; print(sorted({'click', 'rich', 'asyncio'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
