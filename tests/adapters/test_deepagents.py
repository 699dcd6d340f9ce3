"""The deepagents backend through the suite of langchain-tests. Where they are not installed this is skipped.

What the backend does in deepagents' own agent loop: test_deepagents_agent.py; without deepagents: test_deepagents_operations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker, EnvironmentPolicy
from fable_exec.adapters import BlockingAgentWorkspace
from fable_exec.adapters.deepagents_texts import MAX_BINARY_BYTES, MEDIA_ENDINGS
from tests.adapters.places import shell_policy
from tests.adapters.suites import suite
from tests.doors import PATH, TOKEN

PROGRAMS = ("sh", "cat", "wc", "rm", "mkdir", "touch", "chmod", "seq", "python")
ABSOLUTE = "it waits for paths relative to the search; deepagents 0.7.32 documents absolute ones, by which its permissions go"
FILES_ALONE = "it waits for directories too; deepagents 0.7.32 documents that only files are found, by absolute paths"
OVERWRITES = "it waits for a refusal; deepagents 0.7.32 documents that `write` overwrites"
SUITE_FAULTS = {
    "test_glob": ABSOLUTE,
    "test_glob_basic_pattern": ABSOLUTE,
    "test_glob_hidden_files_explicitly": ABSOLUTE,
    "test_glob_with_character_class": ABSOLUTE,
    "test_glob_with_directories": FILES_ALONE,
    "test_glob_with_question_mark": ABSOLUTE,
    "test_write_existing_file_fails": OVERWRITES,
}
"""Rows of langchain-tests 1.1.9 that contradict what deepagents documents, and which its own backends fail too."""


def _sandbox_tests() -> Any:
    from langchain_tests.integration_tests import SandboxIntegrationTests

    expected = {name: _expected_to_fail(getattr(SandboxIntegrationTests, name), why) for name, why in SUITE_FAULTS.items()}
    return type("SandboxRows", (SandboxIntegrationTests,), expected)


def _expected_to_fail(row: Callable[..., None], why: str) -> Any:
    """The row as it is. The suite lets nobody override one without saying why."""

    @pytest.mark.xfail(strict=True, raises=AssertionError, reason=why)
    def same(self: Any, sandbox_backend: Any, sandbox_test_root: str) -> None:
        row(self, sandbox_backend, sandbox_test_root)

    return same


@pytest.mark.requires_ability("confinement")
@pytest.mark.requires_ability("langchain_tests")
@pytest.mark.filterwarnings("ignore:Class-scoped fixtures defined as instance methods")  # the suite has such a one itself
class TestBySandboxTests(suite("langchain_tests", _sandbox_tests)):
    root: Path

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def place(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Every row asks for its name, also the one that has no sandbox."""
        cls.root = tmp_path_factory.mktemp("sandbox").resolve()

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, place: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
        from fable_exec.adapters.deepagents import FableBackend

        programs = tmp_path_factory.mktemp("programs").resolve()
        (programs / "python").symlink_to("/usr/bin/python3")  # two rows call it so; many hosts do not
        policy = shell_policy(
            cls.root,
            allowed_executables=PROGRAMS,
            environment=EnvironmentPolicy(path=(str(programs), *PATH)),
            max_output_bytes=1 << 24,
        )
        broker = AsyncExecutionBroker(policy)
        with BlockingAgentWorkspace(broker) as workspace:
            workspace.call(lambda _: broker.unlock_writes(TOKEN))
            yield FableBackend(workspace)

    @property
    def sandbox_root_dir(self) -> str:
        return str(self.root)


@pytest.mark.requires_ability("langchain_tests")
@pytest.mark.parametrize("row", SUITE_FAULTS)
def test_what_is_taken_for_a_fault_of_the_suite_fails_with_deepagents_own_backend(row: str, tmp_path: Path) -> None:
    from deepagents.backends import LocalShellBackend
    from langchain_tests.integration_tests import SandboxIntegrationTests

    class Rows(SandboxIntegrationTests):
        sandbox = None

    backend = LocalShellBackend(root_dir=tmp_path, virtual_mode=False, inherit_env=True)
    with pytest.raises(AssertionError):
        getattr(Rows(), row)(backend, str(tmp_path / row))


@pytest.mark.requires_ability("deepagents")
def test_the_facts_of_deepagents_that_are_written_down_here_are_deepagents_own() -> None:
    from deepagents.backends import sandbox, utils

    assert sandbox.MAX_BINARY_BYTES == MAX_BINARY_BYTES
    assert utils._EXTENSION_TO_FILE_TYPE.keys() | utils._VIDEO_EXTRA_EXTENSIONS == MEDIA_ENDINGS


@pytest.mark.requires_ability("deepagents")
@pytest.mark.requires_ability("confinement")
def test_the_backend_gives_deepagents_own_answers(workspace: Path) -> None:
    from deepagents.backends import protocol

    from fable_exec.adapters.deepagents import FableBackend

    with BlockingAgentWorkspace(AsyncExecutionBroker(shell_policy(workspace)), view="root") as agent_workspace:
        backend = FableBackend(agent_workspace)
        assert isinstance(backend, protocol.SandboxBackendProtocol)
        assert backend.execute("echo hi") == protocol.ExecuteResponse(output="hi\n", exit_code=0, truncated=False)
        assert backend.write("/file", "x").error
        assert backend.download_files(["/none"]) == [protocol.FileDownloadResponse(path="/none", error="file_not_found")]
        assert (backend.id, backend.id == FableBackend(agent_workspace).id) == (backend.id, False)


PATTERNS = (
    "*.py", "**/*.py", "/*.py", "src/**/*.py", "src/*.py", "src/**", "**", "*", "/*", ".*", "*.yml", "**/*.yml", ".github/**",
    ".github/**/*.yml", "a?.py", "a[12].py", "a[!1].py", "a[^1].py", "*.{py,yml}", "src/{deep,other}/*.py", "{src,.github}/**/*",
    "{a{1,2},b}.py", "{x}.py", "src//deep/b.py", "src/", "src/**/", "deep/b.py", "**/deep/**", "*.{py", "none/*", "{,s}rc/*",
)  # fmt: skip
FILES = (
    "a1.py", "a2.py", "b.py", "{x}.py", ".env", ".hidden.py", "src/a.py", "src/deep/b.py", "src/deep/.c.py", "src/other/d.py",
    ".github/ci.yml", ".github/workflows/ci.yml", "src/deep/deep/e.txt",
)  # fmt: skip


@pytest.mark.requires_ability("deepagents")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_fits_what_it_fits_for_deepagents_own_matcher(pattern: str) -> None:
    from deepagents.backends.utils import compile_grep_include_glob

    from fable_exec.adapters.deepagents_patterns import FilePattern

    fits = compile_grep_include_glob(pattern)
    ours = FilePattern.parse(pattern)
    assert [each for each in FILES if ours.fits(tuple(each.split("/")))] == [each for each in FILES if fits(each)]
    for each in FILES:  # and no directory on the way to one is passed by
        names = tuple(each.split("/"))
        assert not ours.fits(names) or all(ours.leads_on(names[:depth]) for depth in range(1, len(names)))
