"""A protection that is announced but does not hold is caught: the launcher performs a plan with a step taken out."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import BrokerPolicy, Confinement, ConfinementUnavailable
from fable_exec.broker import confined as room
from fable_exec.canary import Attempt, CanaryReport, judge
from fable_exec.confine import FileView, Plan
from fable_exec.outcome import Applied
from fable_exec.policy import PROTECTIONS, Protections
from tests.confinement.places import confined, in_modes, states
from tests.ports import free_port

pytestmark = pytest.mark.requires_ability("linux")

DEGRADABLE = Confinement(protections=Protections(**dict.fromkeys(PROTECTIONS, "degradable")))  # type: ignore[arg-type]  # the word is a mode


def without(name: str) -> Callable[[Plan], Plan]:
    """The plan without a step, announcing the same as before."""
    return lambda plan: attrs.evolve(
        plan,
        stage=tuple(step for step in plan.stage if step[0] != name),
        slot=tuple(step for step in plan.slot if step[0] != name),
        launcher=tuple(step for step in plan.launcher if step[0] != name),
    )


def without_namespace(name: str) -> Callable[[Plan], Plan]:
    return lambda plan: attrs.evolve(
        without("loopback_up")(plan), namespaces=tuple(each for each in plan.namespaces if each != name)
    )


def with_writable_workspace(plan: Plan) -> Plan:
    """The mounts and rules of an unlocked launcher under a locked one's claims."""
    from fable_exec.confine import compile_plan, probe_host

    workspace = next(step[1] for step in plan.stage if step[0] == "bind" and step[4:] == ("required",) and "{" not in step[1])
    view = FileView(workspace=workspace, writable=True)
    assert plan.mode != "kept"
    other = compile_plan(plan.mode, probe_host(), Confinement.strict(), view)
    return attrs.evolve(plan, stage=other.stage, launcher=other.launcher)


INJECTED: list[tuple[str, str, str, Callable[[Plan], Plan]]] = [
    # launch mode, protection that no longer holds, what is taken out, how
    ("slots", "kernel_surface", "the filter", without("load_filter")),
    ("namespace", "kernel_surface", "the filter", without("load_filter")),
    ("plain", "kernel_surface", "the filter", without("load_filter")),
    ("plain", "network", "the filter", without("load_filter")),
    ("plain", "host_writes", "landlock", without("restrict_files")),
    ("plain", "host_reads", "landlock", without("restrict_files")),
    ("plain", "workspace_writes", "landlock", without("restrict_files")),
    ("slots", "workspace_writes", "the read-only mount", with_writable_workspace),
    ("namespace", "workspace_writes", "the read-only mount", with_writable_workspace),
]


@pytest.mark.parametrize(
    ("mode", "protection", "harm"),
    [
        pytest.param(mode, protection, harm, id=f"{mode}: {protection} without {what}")
        for mode, protection, what, harm in INJECTED
    ],
)
@pytest.mark.requires_ability("userns", "own_proc", "landlock")
def test_what_is_announced_and_does_not_hold_is_found_out(
    mode: str, protection: str, harm: Callable[[Plan], Plan], workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = room.compile_command_plan  # type: ignore[attr-defined]  # as that room imported it
    monkeypatch.setattr(room, "compile_command_plan", lambda *arguments, **named: harm(compiled(*arguments, **named)))
    with confined(workspace, mode, confinement=DEGRADABLE) as broker:
        told = {each.protection: each for each in broker.execute_command(("true",)).confinement}
    assert (told[protection].state, told[protection].means != "") == ("degraded", True)
    assert told[protection].reason.startswith("announced, but the canary was not refused: ")
    strict = attrs.evolve(DEGRADABLE, protections=attrs.evolve(DEGRADABLE.protections, **{protection: "strict"}))  # type: ignore[arg-type]  # a name from the table
    with confined(workspace, mode, confinement=strict) as broker, pytest.raises(ConfinementUnavailable) as caught:
        broker.execute_command(("true",))
    assert caught.value.protection == protection


@in_modes()
def test_the_canary_is_stopped_everywhere_it_matters(mode: str, workspace: Path) -> None:
    with confined(workspace, mode) as broker:
        _, commands, _ = broker.command_parts
        report = commands.canary(read_only=True)
        claimed = states(broker)
    succeeded = {each.protection for each in report.attempts if not each.stopped}
    assert {name for name in succeeded if claimed[name] == "active"} == set()
    assert len(report.digest) == 64


@pytest.mark.parametrize(
    ("number", "holds"),
    [
        *((number, True) for number in (errno.EACCES, errno.EROFS, errno.ENOENT)),
        *((number, False) for number in (0, errno.ENOSPC, errno.EMFILE, errno.EAGAIN)),
    ],
)
def test_an_attempt_that_the_host_had_no_room_for_proves_nothing(number: int, holds: bool) -> None:
    announced = (Applied("host_writes", "strict", "active", "the mounts", ""),)
    (told,) = judge(announced, CanaryReport((Attempt("write_outside", "host_writes", number),)), writable=False)
    assert told.state == ("active" if holds else "degraded")


@pytest.mark.requires_ability("landlock")
@pytest.mark.parametrize("holds", [True, False])
@in_modes("slots", "plain")
def test_a_reserved_port_that_is_not_refused_is_found_out(
    mode: str, holds: bool, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole network is open, and the plan that is performed says nothing of ports."""
    compiled = room.compile_command_plan  # type: ignore[attr-defined]  # as that room imported it

    def without_ports(policy: BrokerPolicy, *rest: Any, **named: Any) -> Plan:
        open_ports = attrs.evolve(policy, confinement=attrs.evolve(policy.confinement, reserved_ports=()))
        other: Plan = compiled(open_ports, *rest, **named)
        return attrs.evolve(other, applied=compiled(policy, *rest, **named).applied)

    if not holds:
        monkeypatch.setattr(room, "compile_command_plan", without_ports)
    confinement = attrs.evolve(DEGRADABLE, network="full", reserved_ports=(free_port(),))
    with confined(workspace, mode, confinement=confinement) as broker:
        told = {each.protection: each for each in broker.execute_command(("true",)).confinement}["network"]
    through = "announced, but the canary was not refused: connect_reserved, bind_reserved"
    assert (told.state, told.reason) == (("active", "") if holds else ("degraded", through))


@pytest.mark.parametrize("network", ["full", "ports"])
@in_modes()
def test_what_the_policy_opens_is_no_way_out(mode: str, network: str, workspace: Path) -> None:
    with confined(workspace, mode, confinement=Confinement(network=network)) as broker:  # type: ignore[arg-type]  # a word from the table
        assert states(broker)["network"] == "active"
