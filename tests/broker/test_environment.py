"""The environment of commands: what reaches one, and every name that must not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import Confinement, Denied, EnvironmentPolicy, ExecutionBroker, InvalidRequest, PathNotFound, Protections
from fable_exec.broker.environment import base_environment, command_environment
from fable_exec.outcome import EndedBy
from fable_exec.policy import INJECTION_NAMES, INJECTION_PREFIXES
from tests.doors import TOKEN, environment_with, policy_for

PRINT_ENVIRONMENT = ["python3", "-I", "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
ADDED_BY_LAUNCHER = {"HOME", "TMPDIR", "TEMP", "TMP"}
WITHOUT_NETWORK = {"npm_config_fetch_retries", "PIP_RETRIES"}
EVERY_INJECTION_NAME = sorted(INJECTION_NAMES | {f"{prefix}ANYTHING" for prefix in INJECTION_PREFIXES})


@pytest.fixture
def environment_of(workspace: Path) -> Iterator[Any]:
    """The environment that a command sees under the given rules."""

    def ask(rules: EnvironmentPolicy, **more: Any) -> dict[str, str]:
        with ExecutionBroker(policy_for(workspace, environment=rules)) as broker:
            broker.unlock_writes(TOKEN)
            found: dict[str, str] = json.loads(broker.execute_command(PRINT_ENVIRONMENT, **more).stdout)
        return found

    yield ask


@pytest.mark.requires_ability("confinement")
def test_a_command_sees_the_path_the_locale_and_nothing_else_of_the_host(
    environment_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECRET_KEY", "LD_PRELOAD", "PYTHONPATH", "GIT_DIR", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, "/host")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("LC_TIME", "C")
    rules = environment_with()
    found = environment_of(rules)
    found.pop("LC_CTYPE", None)  # python sets it when it starts in the C locale
    host_locale = {name for name in found if name.startswith("LC_")} | {"LANG"}
    assert found.keys() == {"PATH", "PYTHONUNBUFFERED", *WITHOUT_NETWORK} | host_locale | ADDED_BY_LAUNCHER
    assert (found["LANG"], found["LC_TIME"], found["PYTHONUNBUFFERED"]) == ("C.UTF-8", "C", "1")
    assert found["PATH"] == ":".join(rules.path or ())
    assert "/host" not in found.values()


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize(
    ("confinement", "given", "expected"),
    [
        (Confinement(), {}, {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}),
        (Confinement(), {"PIP_RETRIES": "3"}, {"npm_config_fetch_retries": "0", "PIP_RETRIES": "3"}),
        (Confinement(network="full"), {}, {}),
        (Confinement(network="ports", connect_ports=(443,)), {}, {}),
        (Confinement(protections=Protections(network="degradable")), {}, {}),  # there may be one
        (Confinement.off(), {}, {}),
    ],
)
def test_only_without_a_network_are_package_tools_told_not_to_try_again(
    confinement: Confinement, given: dict[str, str], expected: dict[str, str], workspace: Path
) -> None:
    policy = policy_for(workspace, confinement=confinement, environment=environment_with(set=given))
    found = base_environment(policy, ("/usr/bin",), {})
    assert {name: value for name, value in found.items() if name in WITHOUT_NETWORK} == expected


@pytest.mark.requires_ability("confinement")
@pytest.mark.skipif(not Path("/usr/bin/npm").exists(), reason="no npm where commands find it")
def test_npm_says_at_once_that_there_is_no_network(workspace: Path) -> None:
    (workspace / "package.json").write_text('{"name": "a", "version": "1.0.0"}')
    policy = policy_for(workspace, allowed_executables=("npm",), environment=EnvironmentPolicy(path=("/usr/bin", "/bin")))
    with ExecutionBroker(policy) as broker:
        broker.unlock_writes(TOKEN)
        result = broker.execute_command(("npm", "install", "--no-audit", "left-pad"), timeout_seconds=30)
        assert (result.outcome, result.success) == (EndedBy.EXITED, False) and "EAI_AGAIN" in result.stderr


LOCALES: list[tuple[dict[str, str], dict[str, str], str | None]] = [
    ({}, {}, "C.UTF-8"),
    ({"LANG": ""}, {}, "C.UTF-8"),
    ({"LC_TIME": "C"}, {}, "C.UTF-8"),
    ({"LANG": "C"}, {}, "C"),
    ({"LC_ALL": "C"}, {}, None),
    ({"LC_CTYPE": "de_DE"}, {}, None),
    ({}, {"LANG": "de_DE"}, "de_DE"),
    ({}, {"LC_ALL": "C"}, None),
]


@pytest.mark.requires_ability("linux")
@pytest.mark.parametrize(("host", "rules", "expected"), LOCALES)
def test_the_locale_is_one_of_utf8_where_nobody_says_another(
    host: dict[str, str], rules: dict[str, str], expected: str | None, workspace: Path
) -> None:
    policy = policy_for(workspace, environment=environment_with(set=rules))
    assert base_environment(policy, (), host).get("LANG") == expected


@pytest.mark.requires_ability("confinement")
def test_a_host_without_a_locale_still_has_names_listed_as_they_are(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name == "LANG" or name.startswith("LC_")]:
        monkeypatch.delenv(name)
    (workspace / "bl\u00e4tter").touch()
    with ExecutionBroker(policy_for(workspace, allowed_executables=("bash",))) as broker:
        counted = broker.execute_command(["bash", "-c", "name=$(echo bl*); echo $name ${#name}"])
    assert counted.stdout == "bl\u00e4tter 7\n"


@pytest.mark.requires_ability("confinement")
def test_home_and_the_temporary_directories_are_private_and_writable(workspace: Path) -> None:
    program = "import os; [open(os.environ[n] + '/x', 'w') for n in ('HOME', 'TMPDIR', 'TEMP', 'TMP')]; print(os.environ['HOME'])"
    with ExecutionBroker(policy_for(workspace)) as broker:
        broker.unlock_writes(TOKEN)
        result = broker.execute_command(["python3", "-c", program])
        assert result.success, result.stderr
    assert not Path(result.stdout.strip()).exists()


@pytest.mark.requires_ability("confinement")
def test_the_policy_sets_and_inherits_what_it_names(environment_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MY_A", "MY_B", "OTHER", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, f"host {name}")
    rules = environment_with(set={"CI": "1", "MY_B": "policy"}, inherit=("MY_*", "LD_LIBRARY_PATH"))
    found = environment_of(rules)
    assert (found["CI"], found["MY_A"], found["MY_B"]) == ("1", "host MY_A", "policy")
    assert found["LD_LIBRARY_PATH"] == "host LD_LIBRARY_PATH"  # named in full
    assert "OTHER" not in found


@pytest.mark.requires_ability("confinement")
def test_a_request_sets_what_the_policy_lists(environment_of: Any) -> None:
    rules = environment_with(set={"DEBUG": "0"}, request_names=("DEBUG", "APP_*"))
    found = environment_of(rules, env={"DEBUG": "1", "APP_MODE": "x=y z"})
    assert (found["DEBUG"], found["APP_MODE"]) == ("1", "x=y z")


@pytest.mark.parametrize("name", EVERY_INJECTION_NAME)
def test_a_pattern_of_the_policy_never_lets_an_injection_name_in(name: str, workspace: Path) -> None:
    policy = policy_for(workspace, environment=environment_with(inherit=("MY_*",), request_names=("MY_*",)))
    assert name not in base_environment(policy, (), {name: "x"}) or name == "PATH"
    for variant in (name, name.lower()):
        with pytest.raises(Denied):
            command_environment({}, {variant: "x"}, policy.environment)


@pytest.mark.parametrize("name", [name for name in EVERY_INJECTION_NAME if name != "PATH"])
def test_an_injection_name_passes_when_the_policy_names_it_in_full(name: str, workspace: Path) -> None:
    rules = environment_with(inherit=(name,), request_names=(name,))
    policy = policy_for(workspace, environment=rules)
    expected = "1" if name == "PYTHONUNBUFFERED" else "x"
    assert base_environment(policy, (), {name: "x"})[name] == expected
    assert command_environment({}, {name: "x"}, rules)[name] == expected


def test_unbuffered_python_is_not_for_requests_to_switch_off(workspace: Path) -> None:
    rules = environment_with(request_names=("PYTHONUNBUFFERED",))
    assert command_environment({}, {"PYTHONUNBUFFERED": ""}, rules)["PYTHONUNBUFFERED"] == "1"


@pytest.mark.parametrize("name", ["", "A B", "A\n", "1A", "A-é"])
def test_names_that_no_variable_has_are_malformed(name: str) -> None:
    with pytest.raises((InvalidRequest, Denied)):
        command_environment({}, {name: "x"}, environment_with(request_names=("A*",)))


@pytest.mark.requires_ability("confinement")
def test_git_leaves_its_index_alone_where_nothing_may_be_changed(workspace: Path) -> None:
    (workspace / "file").write_text("x")
    for arguments in (["init", "-q", "."], ["add", "file"]):
        subprocess.run(["git", *arguments], cwd=workspace, check=True, capture_output=True)
    os.utime(workspace / "file", (1, 1))  # the index is now to be refreshed
    with ExecutionBroker(policy_for(workspace, allowed_executables=("git", "sh"))) as broker:
        locked = broker.execute_command(["git", "status", "--short"])
        assert (locked.exit_code, locked.stdout, locked.denials) == (0, "A  file\n", ())
        broker.unlock_writes(TOKEN)
        assert broker.execute_command(["sh", "-c", "echo ${GIT_OPTIONAL_LOCKS-none}"]).stdout == "none\n"


@pytest.mark.requires_ability("confinement")
def test_no_command_runs_in_a_workspace_that_was_removed(workspace: Path) -> None:
    with ExecutionBroker(policy_for(workspace, allowed_executables=("ls",))) as broker:
        assert broker.execute_command(["ls"]).success
        shutil.rmtree(workspace)
        workspace.mkdir()
        with pytest.raises(PathNotFound) as caught:
            broker.execute_command(["ls"])
        assert caught.value.reason == "workspace-gone"
