"""The sentry as a broker posts it: told in which launch mode pins hold."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Confinement, ConfinementUnavailable, ExecutionBroker
from fable_exec.outcome import Applied
from fable_exec.policy import Protections
from tests import hosts
from tests.laterfiles.conftest import PINNING
from tests.laterfiles.test_pins import DEEP_FILE

_PLAIN = pytest.param("plain", marks=pytest.mark.requires_ability("linux", "git"))
DEGRADABLE: dict[str, Any] = dict.fromkeys(
    ("workspace_writes", "host_writes", "host_reads", "network", "host_sockets", "whole_tree_end", "kernel_surface"), "degradable"
)


def policy_for(workspace: Path, mode: Any, later_files: Any = "degradable", **more: Any) -> BrokerPolicy:
    return BrokerPolicy(
        workspace=workspace,
        allowed_executables=("sh",),
        write_token_digest=hashlib.sha256(b"token").hexdigest(),
        confinement=Confinement(protections=Protections(**DEGRADABLE, later_files=later_files), **more),
        launch=mode,
    )


@contextmanager
def unlocked(policy: BrokerPolicy) -> Iterator[ExecutionBroker]:
    with ExecutionBroker(policy) as broker:
        broker.unlock_writes("token")
        yield broker


def of_later_files(applied: Iterable[Applied]) -> tuple[str, str]:
    return next((each.state, each.reason) for each in applied if each.protection == "later_files")


@pytest.mark.parametrize("mode", [*PINNING, _PLAIN])
def test_a_configuration_cannot_be_written_by_another_name_in_any_launch_mode(mode: Any, workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    with unlocked(policy_for(workspace, mode)) as broker:
        broker.execute_command(["sh", "-c", "ln .git/config alias"])
        broker.execute_command(["sh", "-c", r"printf '[core]\n\tfsmonitor = touch x\n' >> alias"])
    assert "fsmonitor" not in (workspace / ".git/config").read_text()


def make_unpinnable(workspace: Path) -> None:
    """A later file of the host with a path that is too long for one call: the kernel refuses to mount over it."""
    subprocess.run(["bash", "-c", DEEP_FILE], cwd=workspace, check=True)


def remove_deep(workspace: Path) -> None:
    subprocess.run("rm -rf r*", shell=True, cwd=workspace, check=True)


@pytest.mark.parametrize("mode", PINNING)
def test_a_pin_that_is_refused_degrades_what_is_degradable(mode: Any, workspace: Path) -> None:
    make_unpinnable(workspace)
    (workspace / ".envrc").write_text("host")
    with unlocked(policy_for(workspace, mode)) as broker:
        result = broker.execute_command(["sh", "-c", "echo evil > .envrc; exit 3"])
    assert result.exit_code == 3 and (workspace / ".envrc").read_text() == "host"
    state, reason = of_later_files(result.confinement)
    assert (state, reason.startswith("the kernel refused to pin rrr")) == ("degraded", True)
    remove_deep(workspace)


@pytest.mark.parametrize("mode", PINNING)
def test_a_pin_that_is_refused_refuses_by_name_what_is_strict(mode: Any, workspace: Path) -> None:
    make_unpinnable(workspace)
    with unlocked(policy_for(workspace, mode, "strict")) as broker:
        with pytest.raises(ConfinementUnavailable, match="later_files") as caught:
            broker.execute_command(["sh", "-c", "echo ran > witness"])
        assert caught.value.protection == "later_files" and "File name too long" in caught.value.reason
        remove_deep(workspace)
    assert not (workspace / "witness").exists()


def link_outside(workspace: Path) -> str:
    (workspace / ".envrc").write_text("x")
    os.link(workspace / ".envrc", workspace.parent / "outside")
    return ".envrc has 1 more names outside the workspace"


def dig_deep(workspace: Path) -> str:
    subprocess.run(["bash", "-c", DEEP_FILE.replace("range(19)", "range(24)")], cwd=workspace, check=True)
    return "it lies too deep to be named"


@pytest.mark.parametrize("mode", [*PINNING, _PLAIN])
@pytest.mark.parametrize("weaken", [link_outside, dig_deep])
def test_what_the_sentry_cannot_see_to_stands_in_every_outcome(mode: Any, weaken: Any, workspace: Path) -> None:
    words = weaken(workspace)
    with unlocked(policy_for(workspace, mode)) as broker:
        result = broker.execute_command(["sh", "-c", "true"])
    state, reason = of_later_files(result.confinement)
    assert state == "degraded" and words in reason
    assert [each for each in result.denials if each.operation != "plant not-judged"] == []


@pytest.mark.parametrize("mode", PINNING)
def test_it_stands_there_as_soon_as_it_is_so_and_goes_when_it_is_over(mode: Any, workspace: Path) -> None:
    with unlocked(policy_for(workspace, mode)) as broker:
        states = [of_later_files(broker.execute_command(["sh", "-c", "true"]).confinement)]
        words = link_outside(workspace)
        states.append(of_later_files(broker.execute_command(["sh", "-c", "true"]).confinement))
        (workspace.parent / "outside").unlink()
        (workspace / ".envrc").write_text("y")
        states.append(of_later_files(broker.execute_command(["sh", "-c", "true"]).confinement))
    assert [state for state, _ in states] == ["active", "degraded", "active"]
    assert words in states[1][1]


@pytest.mark.parametrize("mode", PINNING)
def test_where_it_is_strict_nothing_runs_while_it_is_so(mode: Any, workspace: Path) -> None:
    with unlocked(policy_for(workspace, mode, "strict")) as broker:
        assert broker.execute_command(["sh", "-c", "true"]).success
        words = link_outside(workspace)
        for _ in range(2):
            with pytest.raises(ConfinementUnavailable, match=words):
                broker.execute_command(["sh", "-c", "echo ran > witness"])
        (workspace.parent / "outside").unlink()
        (workspace / ".envrc").write_text("y")
        assert broker.execute_command(["sh", "-c", "true"]).success
    assert not (workspace / "witness").exists()


@pytest.mark.requires_ability("userns", "git")
@pytest.mark.parametrize("mode", PINNING)
def test_that_there_are_no_more_watches_stands_there_too(mode: Any, workspace: Path) -> None:
    program = f"""
    import sys
    from pathlib import Path
    from tests.laterfiles.test_in_a_broker import of_later_files, policy_for, unlocked
    workspace = Path(sys.argv[1])
    with unlocked(policy_for(workspace, {mode!r})) as broker:
        print(of_later_files(broker.execute_command(["sh", "-c", "for i in $(seq 99); do mkdir d$i; done"]).confinement)[0])
        print(of_later_files(broker.execute_command(["sh", "-c", "true"]).confinement))
    """
    few = 'echo 50 > /proc/sys/user/max_inotify_watches; exec "$@"'
    answer = subprocess.run(
        ["unshare", "--user", "--map-root-user", "bash", "-ec", few, "bash",
         sys.executable, "-c", textwrap.dedent(program), workspace],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(hosts.PROJECT)},
    )  # fmt: skip
    first, second = answer.stdout.splitlines()
    assert first == "active", answer.stderr
    assert second.startswith("('degraded', 'no more inotify watches"), answer.stderr


IN_A_PINNED_REPOSITORY = {
    "git switch -q -c topic origin/main": (0, "could not write config file"),
    "git switch -q --no-track -c topic2 origin/main": (0, ""),
    "git branch -m renamed": (128, "Device or resource busy"),
    "git remote add more /elsewhere": (128, "Device or resource busy"),
    "git config user.name x": (4, "Device or resource busy"),
}


@pytest.mark.parametrize("mode", PINNING)
def test_git_says_what_it_could_not_record_in_a_repository_of_the_hosts_and_leaves_no_lock(mode: Any, workspace: Path) -> None:
    """The words of docs/reference/confinement.md, and that what a command made is its own in the next one."""
    made = "git init -q -b main {0} && cd {0} && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first"
    tracked = " && git update-ref refs/remotes/origin/main HEAD && git remote add origin /x"
    subprocess.run(["sh", "-c", made.format("host") + tracked], cwd=workspace, check=True)
    with unlocked(policy_for(workspace, mode)) as broker:
        for text, (status, told) in IN_A_PINNED_REPOSITORY.items():
            result = broker.execute_command(["sh", "-c", text], cwd="host")
            assert (text, result.exit_code) == (text, status) and told in result.stderr
            assert (result.stderr == "") == (told == "")
        assert not (workspace / "host/.git/config.lock").exists()
        broker.execute_command(["sh", "-c", made.format("own")])
        own = broker.execute_command(
            ["sh", "-c", "git config user.name x && git branch -m renamed && cd .. && rm -rf own"], cwd="own"
        )
        assert (own.exit_code, own.stderr) == (0, "")
