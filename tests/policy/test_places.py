"""Where the workspace is, and what else a policy names by its place: what must not lie where commands may write."""

from __future__ import annotations

from pathlib import Path

import pytest

from fable_exec.errors import PolicyError
from fable_exec.policy import ArgumentPolicy, AuditRules, BrokerPolicy, Confinement, EnvironmentPolicy
from fable_exec.policy.confinement import RESERVED_DIRECTORIES
from fable_exec.policy.misplacing import misplaced


def test_the_workspace_is_resolved_once(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(workspace)
    policy = BrokerPolicy(workspace=str(link))
    link.unlink()
    assert policy.workspace == workspace
    with pytest.raises(PolicyError):
        BrokerPolicy(workspace=link)


def test_a_loop_of_links_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy(workspace=tmp_path / "loop")
    assert caught.value.faults[0][0] == "workspace"


def test_home_is_expanded_once_in_every_path_and_in_nothing_else(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    policy = BrokerPolicy(
        workspace="~/workspace",
        allowed_executables=["~/bin/tool"],
        environment=EnvironmentPolicy(set={"A": "~"}, path=["~/bin", "/bin"]),
        confinement=Confinement(runtime_read_paths=["~/toolchain"]),
        audit=AuditRules(path="~/log"),
    )
    monkeypatch.setenv("HOME", "/elsewhere")
    assert policy.workspace == workspace
    assert policy.allowed_executables == (f"{workspace.parent}/bin/tool",)
    assert policy.environment.path == (f"{workspace.parent}/bin", "/bin")
    assert policy.confinement.runtime_read_paths == (f"{workspace.parent}/toolchain",)
    assert policy.audit.path == workspace.parent / "log"
    assert policy.environment.set["A"] == "~"


@pytest.mark.parametrize("place", ["log.jsonl", "deep/log.jsonl", "../workspace/log.jsonl"])
def test_an_audit_log_in_the_workspace_is_refused(place: str, workspace: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy(workspace=workspace, audit=AuditRules(path=workspace / place))
    assert [path for path, _ in caught.value.faults] == ["audit.path"]


def test_an_audit_log_that_reaches_the_workspace_by_a_link_is_refused(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(workspace)
    with pytest.raises(PolicyError):
        BrokerPolicy(workspace=workspace, audit=AuditRules(path=tmp_path / "link" / "log.jsonl"))
    assert BrokerPolicy(workspace=workspace, audit=AuditRules(path=tmp_path / "log.jsonl"))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere/log.jsonl", "its directory does not exist; make it, or name a file elsewhere"),
        ("nowhere/either/log.jsonl", "its directory does not exist; make it, or name a file elsewhere"),
        ("file/log.jsonl", "what should be its directory is none; name a file elsewhere"),
        ("directory", "is a directory; name a file in it"),
    ],
)
def test_an_audit_log_without_a_place_is_refused_with_its_path_and_what_to_do(
    place: str, words: str, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    log = tmp_path / place
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy(workspace=workspace, audit=AuditRules(path=log))
    ((path, text),) = caught.value.faults
    assert path == "audit.path"
    assert text.startswith(words) and str(log)[:150] in text
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("place", ["/", *RESERVED_DIRECTORIES])
def test_a_confined_workspace_holds_nothing_that_commands_get_from_the_system(place: str) -> None:
    if not Path(place).is_dir():
        pytest.skip(f"no {place} here")
    for make in (
        lambda: BrokerPolicy(workspace=place),
        lambda: BrokerPolicy(workspace=place, confinement=Confinement.strict()),
        lambda: BrokerPolicy.from_mapping({"workspace": place}),
    ):
        with pytest.raises(PolicyError) as caught:
            make()
        assert [path for path, _ in caught.value.faults] == ["workspace"]
        assert "choose a directory of its own" in str(caught.value)
    assert BrokerPolicy(workspace=place, confinement=Confinement.off())


@pytest.mark.parametrize("place", ["/etc/netplan", "/etc/docker/one"])
def test_what_is_empty_for_commands_is_neither_their_workspace_nor_listed_for_them(place: str, workspace: Path) -> None:
    """Paths are compared as written: the place need not be there."""
    ((path, text),) = misplaced(Path(place), Confinement.strict(), audit_log=None, rule_files=())
    assert path == "workspace" and "which is empty for confined commands; choose a directory of its own" in text
    assert misplaced(Path(place), Confinement.off(), audit_log=None, rule_files=()) == []
    for field in ("runtime_read_paths", "runtime_write_paths"):
        with pytest.raises(PolicyError) as caught:
            Confinement(**{field: ("/srv", place)})  # type: ignore[arg-type]  # one of the two fields
        ((path, text),) = caught.value.faults
        assert path.endswith(f"{field}[1]") and "which is empty for confined commands" in text


def test_a_workspace_below_a_system_directory_is_one_of_its_own() -> None:
    assert BrokerPolicy(workspace="/usr/share")


def test_rules_that_commands_could_rewrite_are_refused(workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy(workspace=workspace, argument_rules=ArgumentPolicy(documents=(str(workspace / "rules.toml"),)))
    assert [path for path, _ in caught.value.faults] == ["argument_rules.documents"]
    assert BrokerPolicy(workspace=workspace, argument_rules=ArgumentPolicy(documents=(str(tmp_path / "rules.toml"), "# text")))
