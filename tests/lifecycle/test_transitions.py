"""Walks through the table, what holds of every row, and what holds after any sequence of events."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec import lifecycle as lc
from fable_exec.errors import InternalError
from fable_exec.lifecycle import Action, Deadline, Facts, Phase, Progress, State, TerminalReason, step, terminal_reason
from fable_exec.testing.strategies import events as any_events

ORDER = [State.ACCEPTED, State.RUNNING, State.EXITED]
BEGUN: list[lc.Event] = [lc.Accepted(), lc.Started()]
ALONE = lc.DescendantsReconciled(quiescent=True)
LEFT_SOME = lc.DescendantsReconciled(found=True, quiescent=True)
LEFT_SOME_FOR_EVER = lc.DescendantsReconciled(found=True, remaining=True, quiescent=False)
UNPROVED = lc.DescendantsReconciled(quiescent=False)
STOP, TERM, KILL, WAIT = lc.StopRequested(), lc.SignalSent(), lc.SignalSent(kill=True), lc.WaitElapsed()
HARD = lc.DeadlinePassed(Deadline.HARD)
YES, NO, AGAIN = lc.Judged(holds=True), lc.Judged(holds=False), lc.RestartDecided()

OUTPUT, MEMORY, PROCESSES, CPU = (lc.LimitExceeded(limit) for limit in lc.Limit)
SIGNALLED = lc.LimitExceeded(lc.Limit.CPU, by_signal=True)
KILLED, TERMED, OVERTIME = lc.LeaderExited(-9), lc.LeaderExited(-15), lc.LeaderExited(-24)
CRASHED = [*BEGUN, lc.LeaderExited(-11), ALONE, AGAIN]
"""Once, and it is to be started again."""

WALKS: list[tuple[str, list[lc.Event], str]] = [
    ("the usual one", [*BEGUN, lc.LeaderExited(0), ALONE, YES], "completed"),
    ("the proof does not hold", [*BEGUN, lc.LeaderExited(0), ALONE, NO], "verification_failed"),
    ("it says so itself", [*BEGUN, lc.LeaderExited(20), ALONE, NO], "verification_failed"),
    ("it crashes", [*BEGUN, lc.LeaderExited(-11), ALONE, NO], "crashed"),
    ("a status that nobody was told", [*BEGUN, lc.LeaderExited(None), ALONE, NO], "crashed"),
    ("a scan found nothing, which proves nothing but is no fault", [*BEGUN, lc.LeaderExited(0), UNPROVED, YES], "completed"),
    ("it leaves a daemon", [*BEGUN, lc.LeaderExited(0), LEFT_SOME, NO], "descendants_terminated"),
    ("it leaves what cannot be ended", [*BEGUN, lc.LeaderExited(0), LEFT_SOME_FOR_EVER, NO], "descendants_uncontained"),
    (
        "nobody can look",
        [*BEGUN, lc.LeaderExited(0), lc.DescendantsReconciled(quiescent=False, error="EACCES"), NO],
        "descendant_check_failed",
    ),
    ("a stop", [*BEGUN, STOP, TERM, lc.LeaderExited(-15), ALONE, NO], "stopped"),
    ("a stop that it answers with status 0", [*BEGUN, STOP, TERM, lc.LeaderExited(0), ALONE, NO], "stopped"),
    ("a stop that needs a kill", [*BEGUN, STOP, TERM, WAIT, KILL, lc.LeaderExited(-9), ALONE, NO], "stopped"),
    ("a stop whose whole tree is ended with it", [*BEGUN, STOP, TERM, lc.LeaderExited(-15), LEFT_SOME, NO], "stopped"),
    ("a stop that one outlives", [*BEGUN, STOP, TERM, lc.LeaderExited(-15), LEFT_SOME_FOR_EVER, NO], "descendants_uncontained"),
    ("a stop that comes as it ends by itself", [*BEGUN, STOP, lc.LeaderExited(0), ALONE, YES], "completed"),
    ("the same, and it left a daemon", [*BEGUN, STOP, lc.LeaderExited(0), LEFT_SOME, NO], "descendants_terminated"),
    ("a stop after its end", [*BEGUN, lc.LeaderExited(0), STOP, ALONE, STOP, YES, STOP], "completed"),
    ("two stops", [*BEGUN, STOP, TERM, STOP, lc.LeaderExited(-15), ALONE, NO], "stopped"),
    ("a leader that cannot die", [*BEGUN, STOP, TERM, WAIT, KILL, WAIT, LEFT_SOME_FOR_EVER, NO], "descendants_uncontained"),
    ("one that dies at last", [*BEGUN, STOP, TERM, WAIT, KILL, WAIT, lc.LeaderExited(-9), ALONE, NO], "stopped"),
    ("a deadline", [*BEGUN, HARD, TERM, lc.LeaderExited(-15), ALONE, NO], "timed_out"),
    ("silence", [*BEGUN, lc.DeadlinePassed(Deadline.IDLE), TERM, WAIT, KILL, lc.LeaderExited(-9), LEFT_SOME, NO], "timed_out"),
    ("a deadline that comes as it ends by itself", [*BEGUN, HARD, lc.LeaderExited(0), ALONE, YES], "completed"),
    ("a deadline first, then a stop", [*BEGUN, HARD, TERM, STOP, lc.LeaderExited(-15), ALONE, NO], "timed_out"),
    ("a stop first, then a deadline", [*BEGUN, STOP, TERM, HARD, WAIT, KILL, lc.LeaderExited(-9), ALONE, NO], "stopped"),
    ("too much output", [*BEGUN, OUTPUT, TERM, lc.LeaderExited(0), ALONE, NO], "output_limited"),
    ("too much output, seen when it had ended", [*BEGUN, lc.LeaderExited(0), OUTPUT, ALONE, NO], "output_limited"),
    ("too much memory", [*BEGUN, MEMORY, lc.LeaderExited(-9), ALONE, NO], "memory_limited"),
    ("too much memory, seen when it was dead", [*BEGUN, lc.LeaderExited(-9), MEMORY, ALONE, NO], "memory_limited"),
    (
        "too much memory, then, as it ends, too much output",
        [*BEGUN, MEMORY, TERM, OUTPUT, lc.LeaderExited(-15), OUTPUT, ALONE, NO],
        "memory_limited",
    ),
    ("too many processes", [*BEGUN, PROCESSES, TERM, TERMED, LEFT_SOME, NO], "pids_limited"),
    ("too much processor time, after a warning", [*BEGUN, CPU, TERM, WAIT, KILL, KILLED, ALONE, NO], "cpu_limited"),
    ("the same, and the warning is enough", [*BEGUN, OVERTIME, SIGNALLED, LEFT_SOME, NO], "cpu_limited"),
    ("the same, seen as it ends", [*BEGUN, CPU, OVERTIME, SIGNALLED, LEFT_SOME, NO], "cpu_limited"),
    ("the same, when a stop found nobody", [*BEGUN, STOP, OVERTIME, SIGNALLED, LEFT_SOME, NO], "cpu_limited"),
    ("the same, after the signal of a stop", [*BEGUN, STOP, TERM, OVERTIME, SIGNALLED, ALONE, NO], "stopped"),
    ("a signal of that number of its own", [*BEGUN, OVERTIME, ALONE, NO], "crashed"),
    ("late output of one that left a daemon", [*BEGUN, lc.LeaderExited(0), OUTPUT, LEFT_SOME, NO], "descendants_terminated"),
    ("a stop that finds it killed for its memory", [*BEGUN, STOP, KILLED, MEMORY, ALONE, NO], "memory_limited"),
    ("the same, noticed before its end", [*BEGUN, STOP, MEMORY, KILLED, ALONE, NO], "memory_limited"),
    ("the same, when the grace is over", [*BEGUN, STOP, WAIT, MEMORY, KILLED, ALONE, NO], "memory_limited"),
    ("a deadline, and output seen first", [*BEGUN, HARD, OUTPUT, lc.LeaderExited(0), ALONE, NO], "output_limited"),
    ("late output of one whose grace is over", [*BEGUN, STOP, WAIT, OUTPUT, lc.LeaderExited(0), ALONE, NO], "output_limited"),
    ("too much memory, and output before the signal", [*BEGUN, MEMORY, OUTPUT, TERM, TERMED, ALONE, NO], "memory_limited"),
    ("memory after the signal of a stop", [*BEGUN, STOP, TERM, MEMORY, TERMED, MEMORY, ALONE, NO], "stopped"),
    ("a stop and the end of one poll", [*BEGUN, STOP, TERMED, TERM, ALONE, NO], "stopped"),
    ("the same with what it had started", [*BEGUN, STOP, TERMED, TERM, LEFT_SOME, NO], "stopped"),
    ("a kill and the end of one poll", [*BEGUN, HARD, WAIT, KILLED, KILL, ALONE, NO], "timed_out"),
    ("no process could be made", [lc.Accepted(), lc.LaunchFailed("fork failed with EAGAIN")], "launch_failed"),
    ("exec failed behind the gate", [*BEGUN, lc.LaunchFailed("exec failed with ENOENT")], "launch_failed"),
    ("exec failed, seen after exit", [*BEGUN, lc.LeaderExited(127), lc.LaunchFailed("exec failed with ENOENT")], "launch_failed"),
    ("exec failed, seen when all was over", [*BEGUN, lc.LeaderExited(127), ALONE, lc.LaunchFailed("ENOENT")], "launch_failed"),
    ("exec failed under a stop", [*BEGUN, STOP, TERM, lc.LaunchFailed("exec failed with ENOENT")], "launch_failed"),
    ("a stop before the start", [lc.Accepted(), STOP], "launch_failed"),
    ("it does better the second time", [*CRASHED, WAIT, lc.Started(), lc.LeaderExited(0), ALONE, YES], "completed"),
    ("it crashes once more", [*CRASHED, WAIT, lc.Started(), lc.LeaderExited(3), ALONE, NO], "crashed"),
    ("a stop before the second start", [*CRASHED, STOP], "crashed"),
    ("a stop as the second start begins", [*CRASHED, WAIT, STOP], "crashed"),
    ("no time is left for a second start", [*CRASHED, HARD], "crashed"),
    ("a second start that fails", [*CRASHED, WAIT, lc.LaunchFailed("fork failed with EAGAIN")], "launch_failed"),
    ("the same behind the gate", [*CRASHED, WAIT, lc.Started(), lc.LaunchFailed("ENOENT")], "launch_failed"),
    ("a stop of the second", [*CRASHED, WAIT, lc.Started(), STOP, TERM, TERMED, ALONE, NO], "stopped"),
    ("a deadline of the second", [*CRASHED, WAIT, lc.Started(), HARD, TERM, TERMED, ALONE, NO], "timed_out"),
    ("a stop and a deadline after its end", [*BEGUN, lc.LeaderExited(1), HARD, ALONE, HARD, STOP, NO], "crashed"),
]  # fmt: skip


def walk(events: list[lc.Event], progress: Progress | None = None) -> tuple[Progress, list[Action]]:
    done: list[Action] = []
    for event in events:
        progress, actions = step(progress, event)
        done += actions
    assert progress is not None
    return progress, done


@pytest.mark.parametrize(("events", "word"), [row[1:] for row in WALKS], ids=[row[0] for row in WALKS])
def test_a_walk_ends_once_with_its_reason(events: list[lc.Event], word: str) -> None:
    progress, done = walk(events)
    assert progress.phase is Phase.EXITED
    assert terminal_reason(progress.facts).value == word
    assert done.count(Action.RECORD_OUTCOME) == 1 and done[-1] is Action.RECORD_OUTCOME
    if word == "launch_failed":
        assert (progress.facts.returncode, progress.facts.exit_code, progress.facts.signal) == (None, None, None)


def test_the_walks_take_every_transition() -> None:
    taken = set()
    recoveries: list[tuple[list[lc.Event], Progress | None]] = [
        ([event], Progress.recovered(state)) for event in (lc.KeeperLost(), lc.HostRebooted()) for state in ORDER[:2]
    ]
    more = [[*BEGUN, STOP, TERM, WAIT, lc.LaunchFailed("late")]]
    walks: list[tuple[list[lc.Event], Progress | None]] = [(events, None) for events in [*(row[1] for row in WALKS), *more]]
    for events, progress in [*walks, *recoveries]:
        for event in events:
            taken.add((progress and progress.phase, type(event)))
            progress, _ = step(progress, event)
    assert lc.TRANSITIONS.keys() <= taken


def test_the_first_status_that_was_told_stays() -> None:
    progress, _ = walk([*BEGUN, lc.LeaderExited(3), lc.LeaderExited(None), lc.LeaderExited(0), ALONE, NO])
    assert (progress.facts.returncode, terminal_reason(progress.facts)) == (3, TerminalReason.CRASHED)


def test_every_attempt_begins_with_fresh_facts_and_a_number() -> None:
    waiting, _ = walk([lc.Accepted(frozenset({3})), lc.Started(), MEMORY, lc.LeaderExited(-11), LEFT_SOME, AGAIN, WAIT])
    assert (waiting.attempt, waiting.facts.returncode, waiting.facts.limit) == (1, -11, lc.Limit.MEMORY)
    for event in (lc.Started(), lc.LaunchFailed("fork failed with EAGAIN")):
        begun, _ = step(waiting, event)
        error = "fork failed with EAGAIN" if isinstance(event, lc.LaunchFailed) else None
        assert (begun.attempt, begun.ending_for) == (2, None)
        assert begun.facts == Facts(policy_failure_codes=frozenset({3}), launch_error=error)


@pytest.mark.parametrize("event", [STOP, HARD])
def test_what_ends_the_pause_leaves_the_outcome_of_the_last_attempt(event: lc.Event) -> None:
    waiting, _ = walk(CRASHED)
    ended, actions = step(waiting, event)
    assert actions == (Action.CLOSE_GATE, Action.RECORD_OUTCOME)
    assert (ended.attempt, ended.facts.returncode, ended.facts.deadline, ended.facts.stop_signal_sent) == (1, -11, None, False)


@pytest.mark.parametrize(
    "wanted", [[STOP, KILLED], [HARD, KILLED], [MEMORY, KILLED], [KILLED, STOP], [KILLED, HARD], [KILLED, OUTPUT]]
)
@pytest.mark.parametrize("late", [[], [STOP]])
def test_a_job_whose_end_was_wanted_is_not_started_again(wanted: list[lc.Event], late: list[lc.Event]) -> None:
    judging, _ = walk([*BEGUN, *wanted, ALONE, *late])
    assert judging.phase is Phase.JUDGING
    assert not lc.is_restarted(judging.facts, judging.attempt, 100)
    crashed, _ = walk([*BEGUN, KILLED, ALONE])
    assert lc.is_restarted(crashed.facts, crashed.attempt, 100)


@pytest.mark.parametrize("before", [[], [STOP]], ids=["running", "in its grace"])
def test_a_job_over_a_limit_gets_no_grace(before: list[lc.Event]) -> None:
    _, done = walk([*BEGUN, *before, MEMORY])
    assert done[-2:] == [Action.KILL, Action.BEGIN_KILL_WAIT]


def test_what_is_done_for_a_second_attempt() -> None:
    _, done = walk([*CRASHED, WAIT, lc.Started(), lc.LeaderExited(0), ALONE, YES])
    assert [action.value for action in done] == [
        "record accepted", "start", "record running", "open gate", "reconcile", "judge", "record attempt", "begin restart delay",
        "start", "record running", "open gate", "reconcile", "judge", "record outcome",
    ]  # fmt: skip


def test_what_is_done_in_the_usual_walk() -> None:
    _, done = walk(WALKS[0][1])
    assert [action.value for action in done] == [
        "record accepted", "start", "record running", "open gate", "reconcile", "judge", "record outcome",
    ]  # fmt: skip


def test_a_stop_terminates_at_once_and_kills_only_when_the_grace_is_over() -> None:
    progress, _ = walk(BEGUN)
    ending, actions = step(progress, STOP)
    assert actions == (Action.TERMINATE, Action.BEGIN_GRACE)
    assert step(ending, STOP) == (ending, ())
    killing, done = walk([TERM, WAIT], ending)
    assert done == [Action.KILL, Action.BEGIN_KILL_WAIT]
    assert not killing.facts.kill_sent and step(killing, KILL)[0].facts.kill_sent


@pytest.mark.parametrize("state", ORDER[:2])
@pytest.mark.parametrize(("event", "word"), [(lc.KeeperLost(), "keeper_lost"), (lc.HostRebooted(), "host_rebooted")])
def test_what_recover_finds_is_recorded_without_an_invented_status(event: lc.Event, word: str, state: State) -> None:
    progress, actions = step(Progress.recovered(state), event)
    assert (progress.phase, actions) == (Phase.EXITED, (Action.RECORD_OUTCOME,))
    assert terminal_reason(progress.facts).value == word
    assert (progress.facts.returncode, progress.facts.exit_code, progress.facts.signal) == (None, None, None)


@given(any_events())
def test_terminal_is_final_whatever_happens(event: lc.Event) -> None:
    for progress in (Progress.recovered(State.EXITED), walk(WALKS[0][1])[0]):
        assert step(progress, event) == (progress, ())


def test_nothing_leads_out_of_exited_or_back() -> None:
    assert all(phase is not Phase.EXITED for phase, _ in lc.TRANSITIONS)
    for (phase, _), row in lc.TRANSITIONS.items():
        assert phase is None or ORDER.index(phase.state) <= ORDER.index(row.phase.state)
    steps = {(phase, row.phase) for (phase, _), row in lc.TRANSITIONS.items() if phase is not row.phase}
    assert all((after, before) not in steps for before, after in steps)


def test_every_phase_is_reached_and_can_end() -> None:
    leads = {phase: {row.phase for (source, _), row in lc.TRANSITIONS.items() if source is phase} for phase in (None, *Phase)}
    reached, waiting = set(), [None]
    while waiting:
        fresh = leads[waiting.pop()] - reached
        reached |= fresh
        waiting += fresh  # type: ignore[arg-type]  # a list of phases by now
    assert reached == set(Phase)
    for phase in set(Phase) - {Phase.EXITED}:
        assert leads[phase] - {phase}


def test_no_wait_is_without_a_bound() -> None:
    for phase in (Phase.ENDING, Phase.KILLING):
        assert lc.TRANSITIONS[phase, lc.WaitElapsed].phase not in (phase, Phase.RUNNING)
        begins = [row for (source, _), row in lc.TRANSITIONS.items() if row.phase is phase and source is not phase]
        assert begins and all(row.actions[-1] in (Action.BEGIN_GRACE, Action.BEGIN_KILL_WAIT) for row in begins)
    assert lc.TRANSITIONS[Phase.RESTARTING, lc.WaitElapsed].actions == (Action.START,)
    pauses = [row for (source, _), row in lc.TRANSITIONS.items() if row.phase is Phase.RESTARTING is not source]
    assert [row.actions for row in pauses] == [(Action.RECORD_ATTEMPT, Action.BEGIN_RESTART_DELAY)]


def test_the_record_comes_before_what_it_is_the_record_of() -> None:
    for (phase, _), row in lc.TRANSITIONS.items():
        if Action.OPEN_GATE in row.actions:
            assert row.actions == (Action.RECORD_RUNNING, Action.OPEN_GATE)
        if Action.START in row.actions:
            assert row.actions == ((Action.START,) if phase is Phase.RESTARTING else (Action.RECORD_ACCEPTED, Action.START))
        assert (Action.RECORD_OUTCOME in row.actions) == (row.phase is Phase.EXITED != phase)
        assert Action.RECORD_OUTCOME not in row.actions[:-1]


ALL = {event.__name__ for event in lc.EVENTS}
IMPOSSIBLE: dict[Phase | None, set[str]] = {
    None: ALL - {"Accepted"},
    Phase.ACCEPTED: {"Accepted", "DeadlinePassed", "LimitExceeded", "SignalSent", "WaitElapsed", "LeaderExited",
                     "DescendantsReconciled", "Judged", "RestartDecided"},
    Phase.RUNNING: {"Accepted", "Started", "SignalSent", "WaitElapsed", "DescendantsReconciled", "Judged", "RestartDecided"},
    Phase.ENDING: {"Accepted", "Started", "DescendantsReconciled", "Judged", "RestartDecided", "KeeperLost", "HostRebooted"},
    Phase.KILLING: {"Accepted", "Started", "DescendantsReconciled", "Judged", "RestartDecided", "KeeperLost", "HostRebooted"},
    Phase.RECONCILING: {"Accepted", "Started", "Judged", "RestartDecided", "KeeperLost", "HostRebooted"},
    Phase.JUDGING: {"Accepted", "Started", "SignalSent", "DescendantsReconciled", "KeeperLost", "HostRebooted"},
    Phase.RESTARTING: {"Accepted", "LimitExceeded", "SignalSent", "LeaderExited", "DescendantsReconciled", "Judged",
                       "RestartDecided", "KeeperLost", "HostRebooted"},
    Phase.EXITED: set(),
}  # fmt: skip


@pytest.mark.parametrize("phase", [None, *Phase])
def test_every_pair_is_a_transition_ignored_or_impossible(phase: Phase | None) -> None:
    in_table = {kind.__name__ for source, kind in lc.TRANSITIONS if source is phase}
    ignored = {kind.__name__ for kind in lc.IGNORED.get(phase, ())} if phase else set()
    assert not in_table & ignored
    assert ALL - in_table - ignored == IMPOSSIBLE[phase]


@pytest.mark.parametrize(
    ("progress", "event", "words"),
    [
        (None, lc.Started(), "Started cannot happen to an execution that does not exist yet"),
        (Progress(phase=Phase.RUNNING), lc.Started(), "Started cannot happen to an execution that is running"),
        (Progress(phase=Phase.RUNNING), YES, "Judged cannot happen to an execution that is running"),
        (Progress(phase=Phase.ACCEPTED), lc.LeaderExited(0), "LeaderExited cannot happen to an execution that is accepted"),
    ],
)
def test_what_cannot_happen_is_an_error_of_this_library(progress: Progress | None, event: lc.Event, words: str) -> None:
    with pytest.raises(InternalError, match=words):
        step(progress, event)


@pytest.mark.parametrize(
    "facts",
    [
        {"remaining": True, "quiescent": False},
        {"found": True, "remaining": True, "quiescent": True},
        {"quiescent": True, "error": "EACCES"},
    ],
)
def test_a_reconciliation_that_contradicts_itself_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="remain"):
        lc.DescendantsReconciled(**facts)


@pytest.mark.fuzz
@given(st.lists(any_events(), max_size=30))
def test_whatever_happens_the_account_stays_true(events: list[lc.Event]) -> None:
    """Any order of any events, those left out that cannot happen: one record at most, and a reason that the events bear out."""
    progress: Progress | None = None
    happened: list[lc.Event] = []  # to the last attempt
    restarts = 0
    done: list[Action] = []
    for event in events:
        before = progress
        try:
            progress, actions = step(progress, event)
        except InternalError:
            assert progress is before
            continue
        happened = [*([] if before and before.attempt < progress.attempt else happened), event]
        restarts += isinstance(event, lc.RestartDecided)
        done += actions
        assert before is None or ORDER.index(before.phase.state) <= ORDER.index(progress.phase.state)
    assert done.count(Action.RECORD_OUTCOME) == (progress is not None and progress.phase is Phase.EXITED)
    assert max(done.count(Action.KILL), done.count(Action.TERMINATE)) <= done.count(Action.OPEN_GATE) <= 1 + restarts
    if progress is None:
        return
    check_account(progress.facts, happened)
    assert pickle.loads(pickle.dumps(progress)) == progress


def check_account(facts: Facts, happened: list[lc.Event]) -> None:
    kinds = [type(event) for event in happened]
    reason = terminal_reason(facts)
    if reason is TerminalReason.STOPPED:
        assert lc.SignalSent in kinds[kinds.index(lc.StopRequested) :]
    if reason is TerminalReason.TIMED_OUT:
        assert lc.SignalSent in kinds[kinds.index(lc.DeadlinePassed) :]
    if reason is TerminalReason.COMPLETED:
        assert lc.LeaderExited(0) in happened and lc.Judged(holds=True) in happened
        assert not any(isinstance(event, lc.DescendantsReconciled) and event.remaining for event in happened)
    if facts.descendants_quiescent:
        assert any(isinstance(event, lc.DescendantsReconciled) and event.quiescent for event in happened)
    for_limit = any(isinstance(event, lc.LimitExceeded) and event.by_signal for event in happened)
    assert facts.kill_sent <= (lc.SignalSent in kinds) and facts.kill_sent <= facts.signal_sent
    assert facts.signal_sent <= (lc.SignalSent in kinds or for_limit)
    limits = [event.limit for event in happened if isinstance(event, lc.LimitExceeded)]
    assert facts.limit is None or facts.limit in limits
    assert facts.launch_error is None or facts.returncode is None
    assert facts.returncode is None or lc.LeaderExited(facts.returncode) in happened
