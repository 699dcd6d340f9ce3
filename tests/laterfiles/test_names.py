"""Which kind of file that runs later a path is, by its names alone."""

from __future__ import annotations

import pytest

from fable_exec.laterfiles import Kind, kind_of_path
from fable_exec.laterfiles.names import is_git_directory, kind_of_name


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".git/hooks/pre-commit", Kind.GIT_HOOKS), ("a/.git/config", Kind.GIT_CONFIG), (".GIT/config", Kind.GIT_CONFIG),
        (".git", Kind.GIT_POINTER), (".git/commondir", Kind.GIT_POINTER), (".git/HEAD", None),
        (".git/modules/m/config", Kind.GIT_CONFIG),
        ("a/.vscode/x", Kind.EDITOR_TASKS), (".envrc", Kind.SHELL_STARTUP), ("a/.claude/commands/x.md", Kind.AGENT_CONFIG),
        ("Makefile", None), ("package.json", None), ("conftest.py", None), (".npmrc", None), ("config", None), ("hooks/x", None),
        (".github/workflows/x.yml", None), (".pre-commit-config.yaml", None), (".hg/hgrc", Kind.VCS_CONFIG), ("hgrc", None),
        (".gitignore", None), (".gitattributes", None), (".env", None), ("src/environment.py", None),
    ],
)  # fmt: skip
def test_a_path_has_a_kind_by_its_names(path: str, kind: Kind | None) -> None:
    assert kind_of_path(tuple(path.split("/"))) is kind


def test_ordinary_directories_are_no_git_directories() -> None:
    assert not is_git_directory("src", ["objects", "refs", "hooks", "config"])
    assert is_git_directory("x", ["HEAD", "objects", "refs"])
    assert is_git_directory("x", ["HEAD", "commondir"])
    assert kind_of_name("config", ("src",), is_directory=False) is None
