"""Every example in the README, the tutorial and the how-to pages runs and says what the page says."""

from __future__ import annotations

import doctest
import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fable_exec.cli.program import COMMANDS

PROJECT = Path(__file__).resolve().parents[1]
README = (PROJECT / "README.md").read_text()
PROJECT_TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
PAGES = [
    PROJECT / "README.md",
    *sorted((PROJECT / "docs").glob("tutorial/*.md")),
    *sorted((PROJECT / "docs").glob("how-to/*.md")),
]
WITH_EXAMPLES = [page for page in PAGES if ">>> " in page.read_text()]
RUNS_GIT = pytest.mark.requires_ability("git")


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=str(page.relative_to(PROJECT)), marks=RUNS_GIT if '["git", ' in page.read_text() else ())
        for page in WITH_EXAMPLES
    ],
)
def test_every_example_of_the_page_says_what_the_page_says(page: Path, workspace: Path) -> None:
    (workspace / "notes.txt").write_text("remember the milk\n")
    (workspace / "notes.txt").chmod(0o600)
    token = "the admin's secret"
    names = {"folder": str(workspace), "token": token, "digest": hashlib.sha256(token.encode()).hexdigest()}
    # A fence closes an example as a blank line would.
    text = page.read_text().replace("\n```", "\n\n")
    example = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
    report: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert tried > 0
    assert failed == 0, "".join(report)


def test_the_readme_has_examples_and_starts_with_the_two_commands() -> None:
    lines = README.splitlines()
    assert PROJECT / "README.md" in WITH_EXAMPLES
    assert [line.split("#")[0].strip() for line in lines[2:4]] == ["make demo", "make test"]


INSTALLED = re.compile(r"pip install ('[^']+'|[^\s`]+)")


@pytest.mark.parametrize("page", [page for page in PAGES if "pip install" in page.read_text()], ids=lambda page: page.name)
def test_a_page_installs_from_a_checkout_first_and_says_that_an_index_may_not_have_it(page: Path) -> None:
    text = page.read_text()
    installed = [name.strip("'") for name in INSTALLED.findall(text)]
    from_index = [name for name in installed if name.startswith(PROJECT_TABLE["name"])]
    assert installed[0] in (".", ".[cli]")
    assert set(installed) == {"."} | set(from_index) | {name.replace(PROJECT_TABLE["name"], ".") for name in from_index}
    assert "on no package index yet" in text[: text.index(from_index[0])]
    extras = {name.partition("[")[2].strip("]") for name in installed} - {""}
    assert extras <= set(PROJECT_TABLE["optional-dependencies"])


def test_every_proof_that_the_readme_names_exists() -> None:
    rows = [line for line in README.splitlines() if "`tests/" in line]
    named = {part for row in rows for part in row.split("`") if part.startswith("tests/")}
    assert named
    assert [name for name in sorted(named) if not list((PROJECT / name).glob("test_*.py"))] == []


def test_the_readme_shows_every_command_of_the_command_line_and_no_other() -> None:
    lines = [line.split() for line in README.splitlines()]
    assert {words[1] for words in lines if words[:1] == ["fable-exec"]} == set(COMMANDS)


@pytest.mark.requires_ability("confinement")
@pytest.mark.requires_ability("git")
@pytest.mark.parametrize("line", [line.strip() for line in README.splitlines() if line.startswith("    fable-exec ")])
def test_a_command_line_of_the_readme_is_accepted(line: str, workspace: Path) -> None:
    argv = line.split("#")[0].split()[1:]
    subprocess.run(["git", "init", "--quiet", str(workspace)], check=True)
    command = [sys.executable, "-m", "fable_exec", *argv]
    finished = subprocess.run(command, cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
