"""Counterexamples are true: with the rule broken, a real broker and a real supervisor do what the path says."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import AssurancePolicy, BrokerPolicy, Confinement, ExecutionBroker, Limits
from fable_exec.assurance.kripke import check
from fable_exec.assurance.model import BROKER_INVARIANTS, SUPERVISOR_INVARIANTS, Model, Verification, broker_model, verifying
from fable_exec.assurance.model import supervisors as model_of_supervisors
from fable_exec.assurance.model.brokers import BrokerWorld, Phase
from fable_exec.errors import FableExecError, InternalError, PolicyError
from fable_exec.lifecycle import Judged, RestartDecided, step
from fable_exec.protocol import StartCommand
from fable_exec.testing.leaks import nothing_left
from tests.assurance import hosts
from tests.assurance.breaking import BROKER_BREAKS, TABLE_BREAKS
from tests.doors import environment_with

TOKEN = "the administrator's"
TIMEOUT_SECONDS = 0.3
COMMANDS: dict[str, list[str]] = {
    "a known reader": ["cat"],
    "a program that writes": ["touch", "made"],
    "an interpreter": ["python3", "-c", "open('made', 'w')"],
    "an unlisted program": ["rm", "made"],
}
LOCK_EVENTS = {
    "the right token unlocks": lambda broker: broker.unlock_writes(TOKEN),
    "the right token unlocks for a time": lambda broker: broker.unlock_writes(TOKEN, expires_in_seconds=60),
    "the right token unlocks some paths": lambda broker: broker.unlock_writes(TOKEN, paths=["a"]),
    "the right token unlocks all paths": lambda broker: broker.unlock_writes(TOKEN, paths=["."]),
    "a wrong token is tried": lambda broker: broker.unlock_writes("somebody's"),
    "no token is given": lambda broker: broker.unlock_writes(""),
    "writes are locked": lambda broker: broker.lock_writes(),
}


class Replay:
    """Walks a real broker along a path of worlds, and compares what can be seen of it with what is true of each."""

    def __init__(self, broker: ExecutionBroker, model: Model[BrokerWorld], workspace: Path) -> None:
        self.broker, self.model, self.workspace = broker, model, workspace
        self.started: Any = None

    def walk(self, path: list[BrokerWorld]) -> None:
        for before, after in itertools.pairwise(path):
            event = self.model.events[before, after]
            if event in LOCK_EVENTS:
                LOCK_EVENTS[event](self.broker)
            elif after.phase is Phase.WRITING:
                self.write(after)
            elif after.phase is Phase.STARTED:
                self.start(after)
            elif event == "it goes on":
                assert self.started.wait(2 * TIMEOUT_SECONDS) is None, "its deadline has ended it"
            else:
                raise AssertionError(f"nothing here does {event!r}")
            assert self.broker.writes_enabled == ("unlocked" in self.model.structure.labels[after])

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        if self.started is not None:
            self.started.close()

    def write(self, world: BrokerWorld) -> None:
        for target in world.request.facts.targets:
            self.broker.write_file("/".join(target), "made")
            assert self.workspace.joinpath(*target).read_text() == "made"

    def start(self, world: BrokerWorld) -> None:
        command = world.command
        assert command is not None
        argv = COMMANDS[command.act.name]
        assert self.broker.explain(argv).allowed
        if not command.act.is_listed:
            return
        request = StartCommand(command=argv, keep_stdin_open=argv == ["cat"])
        self.started = self.broker.begin_command(request)
        if "made" in argv[-1] and "workspace_writable" in self.model.structure.labels[world]:
            assert self.started.wait(30) is not None
            assert (self.workspace / "made").exists()


@contextmanager
def broker_for(workspace: Path, confinement: Confinement) -> Iterator[tuple[ExecutionBroker, BrokerPolicy]]:
    policy = BrokerPolicy(
        workspace=workspace,
        allowed_executables=("cat", "touch", "python3"),
        write_token_digest=hashlib.sha256(TOKEN.encode()).hexdigest(),
        confinement=confinement,
        environment=environment_with(),
        limits=Limits(timeout_seconds=TIMEOUT_SECONDS),
    )
    for directory in ("a", "b"):
        (workspace / directory).mkdir(mode=0o700)
    with ExecutionBroker(policy) as broker:
        yield broker, policy


DONE_BY_A_BROKER = [
    "locked-writes",
    "locked-interpreters",
    "scoped-unlock",
    "unlock-authenticated",
    "running-ends",
    "listed-only",
]


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker checks itself, and refuses to run anything with a broken rule; here it shall."""
    monkeypatch.setattr(Verification, "require", lambda self: None)
    monkeypatch.setattr(Verification, "covers", lambda self, unlocked, **start: True)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", DONE_BY_A_BROKER)
def test_a_broker_with_a_broken_rule_does_what_the_counterexample_says(
    name: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without confinement, so that a rule stands alone; the lock and what is listed are decided the same with it."""
    formula = next(each.formula for each in BROKER_INVARIANTS if each.name == name)
    with broker_for(workspace, Confinement.off()) as (broker, policy):
        BROKER_BREAKS[name].act(monkeypatch)
        model = broker_model(policy, hosts.CAPABLE)
        path = check(model.structure, formula).counterexample(model.initial)
        assert path is not None
        with Replay(broker, model, workspace) as replay:
            replay.walk(path)


@pytest.mark.parametrize("name", DONE_BY_A_BROKER)
def test_a_broker_with_a_broken_rule_runs_nothing_and_prints_the_path(
    name: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifying._answered.cache_clear()
    with broker_for(workspace, Confinement.off()) as (broker, _):
        BROKER_BREAKS[name].act(monkeypatch)
        with pytest.raises(PolicyError, match=rf"assurance: {name} fails .* 0\. at the start") as caught:
            broker.execute_command(["cat"])
        explained = broker.explain(["cat"])
    assert (explained.allowed, explained.rule, explained.message) == (False, "assurance", str(caught.value))
    verifying._answered.cache_clear()


def test_no_broker_is_made_for_a_policy_that_breaks_what_it_states_and_nothing_is_left(workspace: Path) -> None:
    hole = hosts.policy(workspace=workspace, assurance=AssurancePolicy(formulas=("AG !workspace_writable",)))
    with nothing_left(), pytest.raises(PolicyError, match=r"assurance.formulas\[0\] fails .* 1\. the right token unlocks"):
        ExecutionBroker(hole)
    with nothing_left(), ExecutionBroker(attrs.evolve(hole, write_token_digest=None)):
        pass


def test_what_was_never_checked_is_not_run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Verification, "covers", lambda self, unlocked, **start: False)
    with broker_for(workspace, Confinement.off()) as (broker, _), pytest.raises(InternalError, match="no check has covered"):
        broker.execute_command(["cat"])


@pytest.mark.parametrize("paths", [None, ["."], ["a"], ["a", "b"]])
def test_every_way_to_unlock_is_covered(paths: list[str] | None, workspace: Path) -> None:
    with broker_for(workspace, Confinement.off()) as (broker, _):
        assert broker.execute_command(["cat"]).success
        broker.unlock_writes(TOKEN, paths=paths)
        assert broker.execute_command(["cat"]).success
        broker.lock_writes()
        assert broker.execute_command(["cat"]).success


@pytest.mark.parametrize("name", DONE_BY_A_BROKER)
def test_a_broker_with_its_own_rules_does_not(name: str, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    formula = next(each.formula for each in BROKER_INVARIANTS if each.name == name)
    with broker_for(workspace, Confinement.off()) as (broker, policy):
        with monkeypatch.context() as broken:
            BROKER_BREAKS[name].act(broken)
            model = broker_model(policy, hosts.CAPABLE)
        path = check(model.structure, formula).counterexample(model.initial)
        assert path is not None
        with Replay(broker, model, workspace) as replay, pytest.raises((FableExecError, AssertionError)):
            replay.walk(path)


@pytest.mark.parametrize("name", TABLE_BREAKS)
def test_the_step_of_the_supervisor_takes_every_path_that_is_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    TABLE_BREAKS[name](monkeypatch)
    model = model_of_supervisors.explore_supervisor()
    formula = next(each.formula for each in SUPERVISOR_INVARIANTS if each.name == name)
    path = check(model.structure, formula).counterexample(model.initial)
    assert path is not None
    events = (*model_of_supervisors._EVENTS, Judged(True), Judged(False), RestartDecided())
    for before, after in itertools.pairwise(path):
        if before == after:
            continue  # nothing happens any more
        event = next(each for each in events if repr(each) == model.events[before, after])
        assert step(before.progress, event) == (after.progress, after.done)


KEEPER = """
import os, sys
sys.path[:0] = sys.argv[1:-1]
from fable_exec.lifecycle import Action, Phase, Row, StopRequested, table
row = Row(Phase.ENDING, (Action.TERMINATE,{kept}))
table.TRANSITIONS = {{**table.TRANSITIONS, (Phase.RUNNING, StopRequested): row}}
from fable_exec.keeper.zygote import serve
os.chdir("/")
serve(int(sys.argv[-1]))
"""


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_supervisor_without_the_grace_never_ends_a_job_that_ignores_its_stop(
    is_broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counterexample of terminal-reached: stopped, signalled, and nothing happens any more."""
    from fable_exec.supervisor import Supervisor, zygote
    from tests.supervisor.jobs import Jobs, kill_keeper
    from tests.waiting import LONG_SECONDS, until

    program = tmp_path / "keeper.py"
    program.write_text(KEEPER.format(kept="" if is_broken else "Action.BEGIN_GRACE"))
    monkeypatch.setattr(zygote, "_PROGRAM", program)
    with Supervisor(tmp_path / "root") as supervisor:
        jobs = Jobs(supervisor, tmp_path.resolve())
        execution = jobs.shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", stop_grace_seconds=0.1)
        try:
            until(lambda: execution.runner_log.read_bytes())  # it ignores the signal now
            supervisor.request_stop(execution.execution_id)
            if is_broken:
                time.sleep(1.0)  # ten times its grace
            else:
                supervisor.wait(execution.execution_id, LONG_SECONDS)
            found = supervisor.get(execution.execution_id)
            assert found is not None
            assert (found.state.value == "exited") != is_broken
        finally:
            if is_broken:
                kill_keeper(execution)
            supervisor.wait(execution.execution_id, LONG_SECONDS) if not is_broken else None
