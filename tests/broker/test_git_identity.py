"""Commits under confinement: who they are by, each way that docs/how-to/commit-with-git.md names, and what git does without."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import Confinement, EnvironmentPolicy, ExecutionBroker
from tests.cli.typed import typed
from tests.confinement.places import in_modes
from tests.doors import TOKEN, policy_for

pytestmark = pytest.mark.requires_ability("git", "landlock")
NAMES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
IDENTITY = dict(zip(NAMES, ("Agent", "agent@example.org") * 2, strict=True))
COMMIT = ("git", "commit", "-q", "--allow-empty", "-m", "more")
AGENT = "Agent <agent@example.org>\n"


@pytest.fixture
def repository(workspace: Path) -> Path:
    subprocess.run(["git", "init", "-q", "."], cwd=workspace, check=True)
    return workspace


def broker_over(workspace: Path, mode: str, readable: Path | None = None, **environment: Any) -> ExecutionBroker:
    confinement = attrs.evolve(Confinement.strict(), runtime_read_paths=(str(readable),) if readable else ())
    broker = ExecutionBroker(
        policy_for(
            workspace,
            launch=mode,
            allowed_executables=("git",),
            environment=EnvironmentPolicy(**environment),
            confinement=confinement,
        )
    )
    broker.unlock_writes(TOKEN)
    return broker


def author(broker: ExecutionBroker) -> str:
    return broker.execute_command(("git", "log", "-1", "--format=%an <%ae>")).stdout


@in_modes("slots", "plain")
def test_with_an_identity_in_the_policy_commits_are_by_it_and_nothing_is_refused(repository: Path, mode: str) -> None:
    with broker_over(repository, mode, set=IDENTITY) as broker:
        results = [broker.execute_command(command) for command in (COMMIT, ("git", "checkout", "-q", "-b", "branch"))]
        assert [(each.success, each.denials) for each in results] == [(True, ())] * 2
        assert author(broker) == AGENT


@in_modes("slots", "plain")
def test_it_can_be_the_environments_the_requests_the_repositorys_or_a_files(
    repository: Path, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        for name, value in IDENTITY.items():
            patch.setenv(name, value)
        with broker_over(repository, mode, inherit=NAMES) as broker:
            assert broker.execute_command(COMMIT).success and author(broker) == AGENT
    with broker_over(repository, mode, request_names=NAMES) as broker:
        asked = {**IDENTITY, "GIT_AUTHOR_NAME": "Model"}
        assert broker.execute_command(COMMIT, env=asked).success and author(broker) == "Model <agent@example.org>\n"
    settings = tmp_path / "settings" / "gitconfig"
    settings.parent.mkdir()
    settings.write_text("[user]\nname = File\nemail = file@example.org\n")
    with broker_over(repository, mode, settings.parent, set={"GIT_CONFIG_GLOBAL": str(settings)}) as broker:
        assert broker.execute_command(COMMIT).success and author(broker) == "File <file@example.org>\n"
    for name, value in (("name", "Agent"), ("email", "agent@example.org")):
        subprocess.run(["git", "config", f"user.{name}", value], cwd=repository, check=True)
    with broker_over(repository, mode) as broker:
        assert broker.execute_command(COMMIT).success and author(broker) == AGENT


@pytest.mark.requires_ability("userns")
def test_without_one_git_fails_to_commit_and_the_command_line_says_what_to_set(repository: Path) -> None:
    with broker_over(repository, "slots") as broker:
        result = broker.execute_command(COMMIT)
        assert result.exit_code == 128 and "Author identity unknown" in result.stderr
        assert result.denials == ()  # its own host is found: nothing was refused
    told = typed("run", "--workspace", str(repository), "--unlocked", "--", *COMMIT)
    (note,) = (line for line in told.stderr.decode().splitlines() if line.startswith("fable-exec: "))
    assert told.returncode == 128 and all(name in note for name in (*NAMES, "environment.set"))


@pytest.mark.requires_ability("userns")
def test_a_command_does_not_give_it_to_the_hosts_repository_but_to_itself(repository: Path) -> None:
    before = (repository / ".git" / "config").read_bytes()
    with broker_over(repository, "slots") as broker:
        assert "could not write config file .git/config" in broker.execute_command(("git", "config", "user.name", "Agent")).stderr
        given = ("-c", "user.name=Agent", "-c", "user.email=agent@example.org")
        assert broker.execute_command((COMMIT[0], *given, *COMMIT[1:])).success and author(broker) == AGENT
    assert (repository / ".git" / "config").read_bytes() == before


@pytest.mark.requires_ability("userns")
def test_where_no_identity_is_needed_nothing_is_told(repository: Path) -> None:
    options = ("run", "--workspace", str(repository), "--unlocked")
    identity = tuple(f"--env={name}={value}" for name, value in IDENTITY.items())
    assert typed(*options, *identity, "--", *COMMIT).stderr == b""
    told = typed(*options, "--", "git", "checkout", "-q", "-b", "branch")
    assert (told.returncode, told.stderr) == (0, b"")
