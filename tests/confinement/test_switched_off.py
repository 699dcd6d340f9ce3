"""Each means is taken away for real: strict refuses and names the protection, degradable runs and says what is weaker."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.confine.seccomp import ARCHITECTURES, ENOSYS, Rule, deny
from fable_exec.policy import PROTECTIONS, Confinement, Protections
from tests.confine.entering import filtered

pytestmark = [
    pytest.mark.requires_ability("linux", "userns", "own_proc", "landlock"),
    pytest.mark.skipif(platform.machine() not in ARCHITECTURES, reason="no table for this machine"),
]

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, str(Path(__file__).parent / "programs" / "states.py")]
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
LANDLOCK = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")

Host = Callable[[str], "subprocess.CompletedProcess[str]"]


def without_calls(*names: str) -> Host:
    """A host whose kernel answers ENOSYS for these calls: a filter of the parent's, as a container has one."""

    def run(documents: str) -> subprocess.CompletedProcess[str]:
        return filtered([Rule(names, deny(ENOSYS))], PROGRAM, stdin=documents, env=ENVIRONMENT)

    return run


def in_box(*options: str, enter: str, root_keeps: bool = False) -> Host:
    """A host prepared by the shell words `enter` in namespaces of its own; who uses it has the capabilities of an ordinary user,
    or those of root where `root_keeps`: without CAP_SETFCAP root could not map itself (user_namespaces(7))."""

    def run(documents: str) -> subprocess.CompletedProcess[str]:
        who = "--map-root-user" if os.geteuid() == 0 else "--map-current-user"
        keeps = root_keeps and os.geteuid() == 0
        drop = 'exec "$@"' if keeps else 'exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all -- "$@"'
        argv = ["unshare", "--user", who, "--keep-caps", *options, "bash", "-c", f"{enter} && {drop}", "bash", *PROGRAM]
        return subprocess.run(argv, input=documents, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)

    return run


HOSTS: dict[str, Host] = {
    "landlock": without_calls(*LANDLOCK),
    "seccomp": without_calls("seccomp"),
    "namespaces": in_box(enter="echo 0 >/proc/sys/user/max_user_namespaces"),
    # Where a part of /proc is covered, as in Docker, the kernel refuses another /proc: it would uncover it (mount_namespaces(7)).
    "own_proc": in_box(
        "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", enter="mount -t tmpfs none /proc/irq", root_keeps=True
    ),
}


def documents(workspace: Path, *protections: Protections, **more: Any) -> str:
    return json.dumps(
        [
            {
                "workspace": str(workspace),
                "allowed_executables": ["true"],
                "confinement": {"protections": attrs.asdict(each)},
                **more,
            }
            for each in protections
        ]
    )


Asked = Callable[[str, Protections], dict[str, Any]]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """`asked(host, protections)`: what that host makes of one of those below, all of which it is asked in one process."""
    workspace = tmp_path_factory.mktemp("asked").resolve()
    default = Confinement.strict().protections
    told: dict[str, dict[Protections, dict[str, Any]]] = {}

    def ask(host: str, protections: Protections) -> dict[str, Any]:
        if host not in told:
            each = (EVERYTHING_DEGRADABLE, *(only(name, "strict") for name in WEAKER[host]), rest_strict(host), default)
            told[host] = dict(zip(each, answers(host, workspace, *each), strict=True))
        return told[host][protections]

    return ask


def answers(host: str, workspace: Path, *protections: Protections, **more: Any) -> list[dict[str, Any]]:
    readable = workspace / "read-me"
    readable.write_text("read")
    readable.chmod(0o600)
    done = HOSTS[host](documents(workspace, *protections, **more))
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


EVERYTHING_DEGRADABLE = Protections(**dict.fromkeys(PROTECTIONS, "degradable"))  # type: ignore[arg-type]  # the word is a mode


def only(protection: str, mode: str) -> Protections:
    """Everything degradable but one."""
    return attrs.evolve(EVERYTHING_DEGRADABLE, **{protection: mode})  # type: ignore[arg-type]  # a protection's name


WEAKER: dict[str, dict[str, str]] = {
    # host: protection -> state
    "landlock": {
        "workspace_writes": "degraded",
        "host_writes": "degraded",
        "host_reads": "degraded",
    },
    "seccomp": {"kernel_surface": "unavailable"},
    "namespaces": {"host_metadata": "unavailable", "later_files": "degraded", "other_processes": "degraded"},
    "own_proc": {"other_processes": "degraded"},
}


def rest_strict(host: str) -> Protections:
    """Everything strict that does not stand on what that host lacks."""
    kept = {name: "degradable" if name in WEAKER[host] else "strict" for name in PROTECTIONS}
    return Protections(**{**kept, "resources": "degradable"})  # type: ignore[arg-type]  # names and modes


@pytest.mark.parametrize("host", HOSTS)
def test_degradable_runs_and_says_what_is_weaker(host: str, asked: Asked) -> None:
    answer = asked(host, EVERYTHING_DEGRADABLE)
    assert answer["exit_code"] == 0
    weaker = {name: state for name, (state, _, _) in answer["applied"].items() if state != "active"}
    weaker.pop("resources", None)
    assert weaker == WEAKER[host]
    assert all(reason for state, _, reason in answer["applied"].values() if state != "active")


@pytest.mark.parametrize(("host", "protection"), [(host, name) for host, weaker in WEAKER.items() for name in weaker])
def test_strict_refuses_and_names_what_is_missing(host: str, protection: str, asked: Asked) -> None:
    answer = asked(host, only(protection, "strict"))
    assert (answer.get("error"), answer.get("protection")) == ("ConfinementUnavailable", protection)
    assert answer["reason"]


@pytest.mark.parametrize("host", HOSTS)
def test_what_does_not_stand_on_it_stays_strict(host: str, asked: Asked) -> None:
    answer = asked(host, rest_strict(host))
    assert answer.get("exit_code") == 0, answer


def test_the_default_modes_hold_without_namespaces_and_not_without_landlock_or_seccomp(asked: Asked) -> None:
    default = Confinement.strict().protections
    assert asked("namespaces", default).get("exit_code") == 0
    assert asked("own_proc", default).get("exit_code") == 0
    assert asked("landlock", default)["protection"] == "workspace_writes"
    assert asked("seccomp", default)["protection"] == "kernel_surface"


HELP = {"landlock": "Linux 5.13 or newer", "seccomp": "CONFIG_SECCOMP_FILTER"}
"""Words of what to do about each means that the default cannot do without."""


@pytest.mark.parametrize("host", HELP)
def test_where_the_default_does_not_hold_everything_but_commands_works(host: str, asked: Asked) -> None:
    answer = asked(host, Confinement.strict().protections)
    still = answer["still"]
    for words in (f'"{answer["protection"]}" is strict', answer["reason"], HELP[host], "fable-exec doctor", "degradable"):
        assert words in answer["message"]
    assert still["states"] == still["states explained"]
    assert {name: state for name, state in still["states"].items() if name in WEAKER[host]} == WEAKER[host]
    assert still["states"].keys() == set(PROTECTIONS)
    assert still["explained"] == [False, "confinement", "confinement-unavailable", answer["message"]]
    assert (still["planned"], still["unlisted"], still["read"]) == (True, "executable-denied", "read")


def test_where_no_launcher_can_be_had_everything_is_told_as_unavailable(workspace: Path) -> None:
    (answer,) = answers("namespaces", workspace, EVERYTHING_DEGRADABLE, launch="slots")
    assert set(answer["still"]["states"].values()) == {"unavailable"}
    assert answer["still"]["explained"][:3] == [False, "confinement", "confinement-unavailable"]
    assert answer["still"]["read"] == "read"


@pytest.mark.parametrize(("host", "launch"), [("namespaces", "slots"), ("namespaces", "namespace"), ("own_proc", "slots")])
def test_a_launch_mode_that_was_asked_for_by_name_is_not_replaced(host: str, launch: str, workspace: Path) -> None:
    (answer,) = answers(host, workspace, EVERYTHING_DEGRADABLE, launch=launch)
    assert (answer["error"], answer["protection"]) == ("ConfinementUnavailable", "whole_tree_end")


def test_without_landlock_in_plain_mode_nothing_about_files_holds(workspace: Path) -> None:
    (answer,) = answers("landlock", workspace, EVERYTHING_DEGRADABLE, launch="plain")
    states = {name: state for name, (state, _, _) in answer["applied"].items()}
    assert {states[name] for name in ("workspace_writes", "host_writes", "host_reads")} == {"unavailable"}
    (refused,) = answers("landlock", workspace, only("host_writes", "strict"), launch="plain")
    assert refused["protection"] == "host_writes"
