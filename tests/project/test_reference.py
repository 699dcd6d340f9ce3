"""Reference tables that are written by hand still say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fable_exec import errors

PROJECT = Path(__file__).resolve().parents[2]


def test_the_errors_page_lists_every_class_with_its_code_and_a_builtin_it_inherits() -> None:
    rows = [
        line.split("|")[1:4] for line in (PROJECT / "docs/reference/errors.md").read_text().splitlines() if line.startswith("| `")
    ]
    documented = {name.strip(" `"): (parents, code.strip(" `")) for name, parents, code in rows}
    classes = {name: getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert documented.keys() == classes.keys()
    for name, kind in classes.items():
        parents, code = documented[name]
        assert code == kind.code
        inherited = {base.__name__ for base in kind.__mro__}
        assert {word.strip(" `") for word in parents.split(",")} - {""} <= inherited, name


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("adapters.md", marks=pytest.mark.requires_ability("confinement")),
        "argument-rules.md",
        "attestations.md",
        "audit.md",
        "lifecycle.md",
        "paths.md",
        "proofs.md",
        "tree-digests.md",
    ],
)
def test_the_example_that_opens_a_page_does_what_it_asserts(page: str, workspace: Path, tmp_path: Path) -> None:
    text = (PROJECT / "docs/reference" / page).read_text()
    example = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    assert "assert " in example
    (workspace / "src").mkdir()
    exec(example.replace("/srv/project", str(workspace)).replace("/var/log/agent", str(tmp_path)), {})
