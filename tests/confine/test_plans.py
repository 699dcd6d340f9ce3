"""What plans say, for the main cases, line by line: a change of what a launcher does is seen in review."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import attrs
import pytest

from fable_exec.confine import FileView, LaunchMode, Plan, Support, compile_plan
from fable_exec.confine.view import SYSTEM_DIRECTORIES
from fable_exec.errors import ConfinementUnavailable
from fable_exec.policy import PROTECTIONS, Confinement, Protections
from fable_exec.policy.confinement import RESERVED_DIRECTORIES

GOLDEN = Path(__file__).parent / "golden"
CAPABLE = Support(user_namespaces=0, root_namespaces=errno.EPERM, own_proc=0, own_pid_max=0, landlock_abi=7, machine="x86_64")
OBSERVABLE = attrs.evolve(CAPABLE, notify=0)
NO_NAMESPACES = attrs.evolve(CAPABLE, user_namespaces=errno.ENOSPC, own_proc=errno.EPERM)
LOCKED = FileView(workspace="/srv/work", writable=False, runtime_paths=("/opt/tool/bin/tool", "/opt/venv", "/usr/bin/python3"))
UNLOCKED = attrs.evolve(LOCKED, writable=True)
STRICT = Confinement.strict()
DEGRADABLE = Confinement(protections=Protections(**dict.fromkeys(PROTECTIONS, "degradable")))  # type: ignore[arg-type]  # the word is a mode
PORTS = Confinement(network="ports", connect_ports=(443,), bind_ports=(8080,))

CASES: dict[str, tuple[LaunchMode, Support, Confinement, FileView]] = {
    "slots-locked": ("auto", CAPABLE, STRICT, LOCKED),
    "slots-unlocked": ("auto", CAPABLE, STRICT, UNLOCKED),
    "slots-aarch64": ("auto", attrs.evolve(CAPABLE, machine="aarch64"), STRICT, LOCKED),
    "slots-ports": ("auto", CAPABLE, PORTS, UNLOCKED),
    "slots-observed": ("auto", OBSERVABLE, STRICT, UNLOCKED),
    "slots-observed-reads": ("auto", OBSERVABLE, attrs.evolve(PORTS, observe="reads"), LOCKED),
    "plain-observed": ("auto", attrs.evolve(NO_NAMESPACES, notify=0), STRICT, LOCKED),
    "slots-off": ("auto", CAPABLE, Confinement.off(), UNLOCKED),
    "namespace-locked": ("auto", attrs.evolve(CAPABLE, own_proc=errno.EPERM), STRICT, LOCKED),
    "plain-locked": ("auto", NO_NAMESPACES, STRICT, LOCKED),
    "plain-unlocked": ("auto", NO_NAMESPACES, STRICT, UNLOCKED),
    "plain-old-landlock": ("auto", attrs.evolve(NO_NAMESPACES, landlock_abi=1), DEGRADABLE, UNLOCKED),
    "plain-nothing": (
        "auto",
        attrs.evolve(NO_NAMESPACES, landlock_abi=0, landlock=errno.ENOSYS, seccomp=errno.ENOSYS),
        DEGRADABLE,
        UNLOCKED,
    ),
}


def plan(case: str) -> Plan:
    launch, support, confinement, view = CASES[case]
    return compile_plan(launch, support, confinement, view)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize(
    "ability", ["user_namespaces", "root_namespaces", "own_proc", "own_pid_max", "seccomp", "notify", "landlock"]
)
def test_what_was_short_for_a_moment_is_no_answer(ability: str, number: int) -> None:
    def answering(errno_: int) -> Support:
        return attrs.evolve(CAPABLE, **{ability: errno_})  # type: ignore[arg-type]  # an ability, not the machine's name

    assert answering(number).shortage == number
    assert answering(errno.ENOSPC).shortage == 0


@pytest.mark.parametrize("case", CASES)
def test_the_plans_are_the_committed_ones(case: str) -> None:
    """FABLE_EXEC_WRITE_GOLDEN=1 writes the files anew."""
    text = plan(case).explain() + "\n"
    file = GOLDEN / f"plan-{case}.txt"
    if os.environ.get("FABLE_EXEC_WRITE_GOLDEN"):
        file.write_text(text)
    assert file.read_text() == text


@pytest.mark.parametrize("case", CASES)
def test_a_plan_is_a_pure_function_of_its_arguments(case: str) -> None:
    assert plan(case) == plan(case)
    assert plan(case).digest == plan(case).digest


def test_locked_and_unlocked_are_two_launchers() -> None:
    assert plan("slots-locked").digest != plan("slots-unlocked").digest
    assert plan("plain-locked").digest != plan("plain-unlocked").digest


def test_an_architecture_without_a_table_is_refused() -> None:
    with pytest.raises(ConfinementUnavailable) as caught:
        compile_plan("auto", attrs.evolve(CAPABLE, machine="riscv64"), STRICT, LOCKED)
    assert caught.value.protection == "kernel_surface"


def test_a_strict_protection_that_is_not_active_is_refused_by_name() -> None:
    with pytest.raises(ConfinementUnavailable) as caught:
        compile_plan("auto", attrs.evolve(CAPABLE, landlock_abi=0, landlock=errno.ENOSYS), STRICT, LOCKED)
    assert caught.value.protection == "workspace_writes"
    assert "ENOSYS" in caught.value.reason


@pytest.mark.parametrize(
    ("support", "confinement", "protection", "state"),
    [
        # the filter comes with kernel_surface: what stands on it in plain mode falls with it
        (NO_NAMESPACES, {"kernel_surface": "off"}, "network", "unavailable"),
        (NO_NAMESPACES, {"kernel_surface": "off"}, "host_sockets", "unavailable"),
        (NO_NAMESPACES, {"kernel_surface": "off"}, "whole_tree_end", "degraded"),
        (CAPABLE, {"kernel_surface": "off"}, "network", "active"),
        # sockets with a path are in sight without a view of the files
        (
            CAPABLE,
            dict.fromkeys(("workspace_writes", "host_writes", "host_metadata", "host_reads"), "off"),
            "host_sockets",
            "degraded",
        ),
        (attrs.evolve(NO_NAMESPACES, landlock_abi=5), {}, "host_sockets", "degraded"),
    ],
)
def test_no_state_claims_more_than_its_means(support: Support, confinement: dict[str, str], protection: str, state: str) -> None:
    protections = attrs.evolve(DEGRADABLE.protections, **confinement)  # type: ignore[arg-type]  # names and modes from the table
    found = compile_plan("auto", support, attrs.evolve(DEGRADABLE, protections=protections), LOCKED).applied
    assert {each.protection: each.state for each in found}[protection] == state


def test_ports_and_abstract_sockets_of_the_hosts_network_need_landlock() -> None:
    old = attrs.evolve(CAPABLE, landlock_abi=5)
    found = compile_plan("auto", old, attrs.evolve(DEGRADABLE, network="full"), LOCKED).applied
    assert {each.protection: each.state for each in found}["host_sockets"] == "degraded"
    older = attrs.evolve(CAPABLE, landlock_abi=3)
    found = compile_plan("auto", older, attrs.evolve(DEGRADABLE, network="ports"), LOCKED).applied
    assert {each.protection: each.state for each in found}["network"] == "unavailable"


def test_no_workspace_may_be_or_hold_what_the_view_mounts() -> None:
    targets = {step[2] for step in plan("slots-locked").stage if step[0] == "bind"} - {"/srv/work", *LOCKED.runtime_paths}
    assert targets | set(SYSTEM_DIRECTORIES) <= set(RESERVED_DIRECTORIES)
