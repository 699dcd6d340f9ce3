"""Each built-in invariant holds, and can fail: broken where the real rule stands, exactly that one does, with a path to show."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import attrs
import pytest

from fable_exec.assurance.kripke import atoms_of, check, parse_formula
from fable_exec.assurance.model import (
    ATOMS,
    BROKER_INVARIANTS,
    SUPERVISOR_ATOMS,
    SUPERVISOR_INVARIANTS,
    Verdict,
    Verification,
    broker_model,
    supervisor_model,
    verified,
    verify_policy,
    verify_supervisor,
)
from fable_exec.assurance.model.supervisors import _EVENTS as TRIED
from fable_exec.errors import PolicyError
from fable_exec.lifecycle import EVENTS, TRANSITIONS, HostRebooted, Judged, KeeperLost, Phase, RestartDecided, table
from fable_exec.policy import AssurancePolicy, Confinement, PathRules
from tests.assurance import hosts
from tests.assurance.breaking import BROKER_BREAKS, TABLE_BREAKS


def verdicts(found: Verification) -> dict[str, Verdict]:
    return {each.name: each.verdict for each in found.findings}


@pytest.mark.parametrize("host", hosts.HOSTS)
@pytest.mark.parametrize("confinement", ["strict", "degradable", "off"])
@pytest.mark.parametrize("locked_commands", ["readonly", "deny"])
def test_no_policy_breaks_one_by_its_fields_alone(host: str, confinement: str, locked_commands: str) -> None:
    confined = {"strict": Confinement(), "degradable": hosts.DEGRADABLE, "off": Confinement.off()}[confinement]
    policy = hosts.policy(confinement=confined, locked_commands=locked_commands)
    found = verify_policy(policy, hosts.HOSTS[host])
    assert found.failures == ()
    assert found.warnings == ()


def test_what_is_off_is_not_claimed() -> None:
    found = verdicts(verify_policy(hosts.policy(confinement=Confinement.off()), hosts.CAPABLE))
    claimed = {name for name, verdict in found.items() if verdict is Verdict.HOLDS}
    assert claimed == {
        "locked-writes", "locked-interpreters", "scoped-unlock", "unlock-authenticated", "running-ends", "listed-only",
        "other-processes", "max-brittleness",
    }  # fmt: skip
    assert set(found) - claimed == {name for name, verdict in found.items() if verdict is Verdict.NOT_CLAIMED}


def test_what_is_degradable_is_claimed_where_it_is_had_in_full() -> None:
    found = {host: verdicts(verify_policy(hosts.policy(), support))["host-metadata"] for host, support in hosts.HOSTS.items()}
    assert found["all"] is Verdict.HOLDS
    assert found["no namespaces"] is Verdict.NOT_CLAIMED
    reasons = {each.name: each.reason for each in verify_policy(hosts.policy(), hosts.NO_NAMESPACES).findings}
    assert reasons["host-metadata"] == "confinement.protections.host_metadata is degradable, and unavailable on this host"


PROTECTED = {each.name for each in BROKER_INVARIANTS if each.protection}


@pytest.mark.parametrize("name", BROKER_BREAKS)
def test_a_broken_rule_of_the_broker_fails_its_invariant_and_no_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BROKER_BREAKS[name]
    assert verify_policy(broken.policy, broken.support).holds
    broken.act(monkeypatch)
    found = verify_policy(broken.policy, broken.support)
    assert [each.name for each in found.failures if each.name != "max-brittleness"] == [name]
    assert (len(found.failures) == 2) == (name in PROTECTED)  # what nothing stands before is as brittle as can be, too
    failure = found.failures[0]
    assert failure.path[0].event == "" and "idle" in failure.path[0].labels
    assert failure.goes_round == (name == "running-ends")
    with pytest.raises(PolicyError, match=f"{name} fails"):
        found.require()


@pytest.mark.parametrize("name", TABLE_BREAKS)
def test_a_broken_row_of_the_supervisor_fails_its_invariant_and_no_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    TABLE_BREAKS[name](monkeypatch)
    failures = [each for each in verify_supervisor() if each.verdict is Verdict.FAILS]
    assert [each.name for each in failures] == [name]
    assert failures[0].path[1].event.startswith("Accepted")


def test_the_supervisor_as_it_is_breaks_none() -> None:
    assert [each.verdict for each in verify_supervisor()] == [Verdict.HOLDS] * len(SUPERVISOR_INVARIANTS)


def test_every_invariant_has_its_break() -> None:
    assert set(BROKER_BREAKS) == {each.name for each in BROKER_INVARIANTS}
    assert set(TABLE_BREAKS) == {each.name for each in SUPERVISOR_INVARIANTS}


def test_every_invariant_asks_for_what_there_is() -> None:
    for each in BROKER_INVARIANTS:
        assert atoms_of(parse_formula(each.formula)) <= ATOMS.keys(), each.name
    for each in SUPERVISOR_INVARIANTS:
        assert atoms_of(parse_formula(each.formula)) <= SUPERVISOR_ATOMS.keys(), each.name


def test_no_invariant_holds_because_what_it_is_about_never_happens() -> None:
    """What stands before each arrow is true of some world; a policy that can be unlocked, with and without confinement."""
    for confinement in (Confinement(), Confinement.off()):
        model = broker_model(hosts.policy(confinement=confinement), hosts.CAPABLE)
        for atom in (
            "unlocked",
            "unlocked_for_paths",
            "running",
            "interpreter_running",
            "writing",
            "fed",
            "ending",
            "within_scope",
        ):
            assert check(model.structure, f"EF {atom}").holds(model.initial), atom
    supervised = supervisor_model()
    for atom in SUPERVISOR_ATOMS.keys() - {"stuck"}:
        assert check(supervised.structure, f"EF {atom}").holds(supervised.initial), atom


def test_every_atom_is_true_of_some_world_of_some_policy_and_none_is_unknown() -> None:
    seen: set[str] = set()
    for support in (hosts.CAPABLE, hosts.NOTHING):
        for confinement in (hosts.DEGRADABLE, Confinement.off()):
            policy = hosts.policy(confinement=confinement, paths=PathRules(protected=(".env",)))
            seen |= broker_model(policy, support).structure.names
    assert seen == ATOMS.keys()
    assert supervisor_model().structure.names | {"stuck"} == SUPERVISOR_ATOMS.keys()


def test_a_locked_workspace_may_still_be_written_by_what_was_started_before_and_not_for_ever() -> None:
    """Locking ends no command; the path says so, and what is fed to it is refused."""
    model = broker_model(hosts.policy(), hosts.CAPABLE)
    result = check(model.structure, "AG(writes_locked -> !workspace_writable)")
    path = result.counterexample(model.initial)
    assert path is not None
    assert [step.event for step in model.steps(path)][-1] == "writes are locked"
    assert check(model.structure, "AG(writes_locked -> AF !workspace_writable)").holds(model.initial)
    assert check(model.structure, "AG(writes_locked & fed -> !workspace_writable)").holds(model.initial)


def test_the_model_takes_every_row_of_the_table() -> None:
    """But those of a dead keeper's state, all of them are met by walking the model's transitions."""
    structure = supervisor_model().structure
    phases = {world.progress.phase for world in structure.worlds if world.progress is not None}
    assert phases == set(Phase)
    taken = {
        (a.progress and a.progress.phase, b.progress and b.progress.phase)
        for a in structure.worlds
        for b in structure.transitions[a]
    }
    wanted = {(phase, row.phase) for (phase, _), row in TRANSITIONS.items()}
    assert wanted <= taken
    assert {event for _, event in table.TRANSITIONS} <= set(EVENTS)


def test_an_event_that_is_owed_and_unknown_to_the_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from fable_exec.lifecycle import WaitElapsed

    rows = {key: row for key, row in table.TRANSITIONS.items() if key != (Phase.KILLING, WaitElapsed)}
    monkeypatch.setattr(table, "TRANSITIONS", rows)
    failed = {each.name: each for each in verify_supervisor() if each.verdict is Verdict.FAILS}
    assert "terminal-reached" in failed
    assert failed["terminal-reached"].path[-1].event in (
        "nothing happens any more",
        "WaitElapsed(), which the table does not know here",
    )


# The policy's own formulas and bound.

IN_THE_HOLE = ("+admitted", "+deadline_armed", "+listed", "+protected_writable", "+running", "+workspace_writable")


def test_a_formula_of_the_policy_is_checked_and_its_counterexample_can_be_read() -> None:
    hole = hosts.policy(paths=PathRules(protected=(".env",)), assurance=AssurancePolicy(formulas=("AG !protected_writable",)))
    found = verify_policy(hole, hosts.CAPABLE)
    assert [each.name for each in found.failures] == ["assurance.formulas[0]"]
    assert list(found.failures[0].lines()) == [
        "0. at the start: +idle +writes_locked",
        "1. the right token unlocks: +admin_authenticated +unlocked -writes_locked",
        f"2. a program that writes is started: {' '.join(IN_THE_HOLE)} -idle",
    ]
    with pytest.raises(PolicyError) as caught:
        found.require()
    assert caught.value.faults[0][0] == "assurance"
    assert "1. the right token unlocks" in str(caught.value)
    assert verify_policy(attrs.evolve(hole, write_token_digest=None), hosts.CAPABLE).holds


def test_locked_commands_that_only_read_leave_no_hole_where_no_kernel_holds_them() -> None:
    """With nothing to hold the workspace, readers alone run while locked; broken, that is told."""
    for confinement in (hosts.DEGRADABLE, Confinement.off()):
        policy = hosts.policy(confinement=confinement, locked_commands="readonly", write_token_digest=None)
        model = broker_model(policy, hosts.NOTHING)
        assert check(model.structure, "AG(running -> !kernel_readonly & !workspace_writable)").holds(model.initial)
        assert check(model.structure, "EF running").holds(model.initial)


def test_a_host_that_keeps_nothing_read_only_makes_a_hole_where_readers_need_not_be_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fable_exec import decision

    monkeypatch.setattr(decision, "_must_be_a_reader", lambda policy, kernel_readonly: False)
    policy = hosts.policy(confinement=hosts.DEGRADABLE, locked_commands="readonly")
    assert verify_policy(policy, hosts.CAPABLE).holds
    found = verify_policy(policy, hosts.NOTHING)
    assert {each.name for each in found.failures} == {"locked-writes", "locked-interpreters", "scoped-unlock"}
    assert list(found.failures[0].lines())[1].startswith("1. a program that writes is started")


def test_an_atom_that_nothing_can_be_is_false_and_warned_of() -> None:
    policy = hosts.policy(assurance=AssurancePolicy(formulas=("AG !moonlit", "EF moonlit")))
    found = verify_policy(policy, hosts.CAPABLE)
    assert found.warnings == (
        "assurance.formulas[0] asks for moonlit, which is true of no world",
        "assurance.formulas[1] asks for moonlit, which is true of no world",
    )
    assert [each.name for each in found.failures] == ["assurance.formulas[1]"]


@pytest.mark.parametrize(("most", "holds"), [(0.8, True), (0.51, True), (0.5, False), (0.3, False)])
def test_what_is_as_brittle_as_the_bound_is_refused(most: float, holds: bool) -> None:
    found = verify_policy(hosts.policy(assurance=AssurancePolicy(max_brittleness=most)), hosts.CAPABLE)
    assert found.holds == holds
    if not holds:
        assert [each.name for each in found.failures] == ["max-brittleness"]
        assert "layers before it: mount namespace" in found.failures[0].reason
        with pytest.raises(PolicyError, match="max-brittleness fails"):
            found.require()


def test_only_what_is_strict_counts_against_the_bound() -> None:
    bound = AssurancePolicy(max_brittleness=0.5)
    assert verify_policy(hosts.policy(assurance=bound, confinement=Confinement.off()), hosts.CAPABLE).holds
    assert verify_policy(hosts.policy(assurance=bound, confinement=hosts.DEGRADABLE), hosts.NOTHING).holds


def test_the_answer_is_kept_by_digest_and_host() -> None:
    policy = hosts.policy(workspace="/usr/share")
    assert verified(policy, hosts.CAPABLE) is verified(hosts.policy(workspace="/usr/share"), hosts.CAPABLE)
    assert verified(policy, hosts.CAPABLE) is not verified(policy, hosts.NO_LANDLOCK)
    assert verified(policy, hosts.CAPABLE) is not verified(hosts.policy(workspace="/usr/share", launch="plain"), hosts.CAPABLE)


def test_what_starts_is_covered_and_what_was_never_checked_is_not() -> None:
    from fable_exec.writelock import Unlocked

    locked = verify_policy(hosts.policy(write_token_digest=None), hosts.CAPABLE)
    assert locked.covers(None, read_only=True, interprets=True)
    assert not locked.covers(None, read_only=False, interprets=False)
    assert not locked.covers(Unlocked(), read_only=False, interprets=False)
    unlocked = verify_policy(hosts.policy(), hosts.CAPABLE)
    assert unlocked.covers(Unlocked(), read_only=False, interprets=True)
    assert unlocked.covers(Unlocked((("x", "y"),)), read_only=True, interprets=False)
    assert not unlocked.covers(Unlocked((("x",),)), read_only=False, interprets=False)


def test_the_model_holds_no_second_copy_of_a_rule() -> None:
    """It never looks at what only the rules may look at."""
    from fable_exec.assurance.model import brokers

    names = {node.attr for node in ast.walk(ast.parse(inspect.getsource(brokers))) if isinstance(node, ast.Attribute)}
    assert not names & {
        "locked_commands",
        "argument_rules",
        "write_token_digest",
        "allowed_executables",
        "timeout_seconds",
        "mode",
    }


def test_who_verifies_a_policy_loads_nothing_of_supervised_executions() -> None:
    """It comes before a broker's first command."""
    program = """if True:
        import sys
        from fable_exec.assurance import model
        loaded = {"fable_exec.lifecycle", "fable_exec.assurance.model.supervisors"} & sys.modules.keys()
        print(sorted(loaded), all(hasattr(model, name) for name in model.__all__), hasattr(model, "nothing"))
    """
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[] True False\n"


def test_every_event_of_the_lifecycle_is_tried() -> None:
    judging = {Judged, RestartDecided, KeeperLost, HostRebooted}
    assert {type(event) for event in TRIED} | judging == set(EVENTS)
