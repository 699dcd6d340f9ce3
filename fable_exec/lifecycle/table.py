"""Every transition of an execution in one table, and the step that follows it. Pure: it knows no process, file or clock.

The shell (a keeper, or `recover`) tells what happened as events and does, in their order, the actions that it gets back. Nothing
leaves EXITED: terminal is final. A job that is started again is so before that, in the same execution and under the same keeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import attrs

from fable_exec.errors import InternalError
from fable_exec.lifecycle.events import (
    EVENTS,
    Accepted,
    DeadlinePassed,
    DescendantsReconciled,
    Event,
    HostRebooted,
    Judged,
    KeeperLost,
    LaunchFailed,
    LeaderExited,
    LimitExceeded,
    RestartDecided,
    SignalSent,
    Started,
    StopRequested,
    WaitElapsed,
)
from fable_exec.lifecycle.reasons import Facts
from fable_exec.lifecycle.states import Phase, State

__all__ = ["IGNORED", "STOPPED_BEFORE_START", "TRANSITIONS", "Action", "Progress", "Row", "step"]


class Action(Enum):
    """What the shell must do. It does them in the order given, and reports what comes of each as an event."""

    RECORD_ACCEPTED = "record accepted"
    """Make the terminal record's space certain and state.json say `accepted`, durably. A failure here fails the start."""
    START = "start"
    """Make the job's process behind a gate: Started or LaunchFailed follows."""
    RECORD_RUNNING = "record running"
    """Make state.json say `running`, with the process and its birth token, durably. LaunchFailed when that cannot be."""
    OPEN_GATE = "open gate"
    """Let the job run. LaunchFailed when exec(2) fails."""
    CLOSE_GATE = "close gate"
    """Let what waits at the gate, if anything does, end without having run."""
    TERMINATE = "terminate"
    """SIGTERM to the job's group: SignalSent follows if the leader had not ended by itself."""
    BEGIN_GRACE = "begin grace"
    """WaitElapsed when the stop grace is over."""
    KILL = "kill"
    """SIGKILL to everything of the job: SignalSent follows as for TERMINATE."""
    BEGIN_KILL_WAIT = "begin kill wait"
    """WaitElapsed when a leader that does not die (uninterruptible, traced) has been waited for long enough."""
    RECONCILE = "reconcile"
    """End what the leader left, prove the emptiness, within a bound: DescendantsReconciled follows."""
    JUDGE = "judge"
    """RestartDecided where `is_restarted` says so, else `judged(facts, verdict)`, is the next event."""
    RECORD_ATTEMPT = "record attempt"
    """Make state.json say how the attempt ended, durably, so that no death of the keeper loses it."""
    BEGIN_RESTART_DELAY = "begin restart delay"
    """WaitElapsed when the job is to be started again."""
    RECORD_OUTCOME = "record outcome"
    """The one terminal write."""


@attrs.frozen
class Row:
    """Where a transition leads and what is to be done."""

    phase: Phase
    actions: tuple[Action, ...] = ()


_END = Row(Phase.ENDING, (Action.TERMINATE, Action.BEGIN_GRACE))
_KILL = Row(Phase.KILLING, (Action.KILL, Action.BEGIN_KILL_WAIT))
_RECONCILE = Row(Phase.RECONCILING, (Action.RECONCILE,))
_CONCLUDE = Row(Phase.EXITED, (Action.RECORD_OUTCOME,))
_NEVER_RAN = Row(Phase.EXITED, (Action.CLOSE_GATE, Action.RECORD_OUTCOME))

TRANSITIONS: Mapping[tuple[Phase | None, type[Event]], Row] = MappingProxyType(
    {
        (None, Accepted): Row(Phase.ACCEPTED, (Action.RECORD_ACCEPTED, Action.START)),
        (Phase.ACCEPTED, Started): Row(Phase.RUNNING, (Action.RECORD_RUNNING, Action.OPEN_GATE)),
        (Phase.ACCEPTED, LaunchFailed): _NEVER_RAN,
        (Phase.ACCEPTED, StopRequested): _NEVER_RAN,
        (Phase.ACCEPTED, KeeperLost): _CONCLUDE,
        (Phase.ACCEPTED, HostRebooted): _CONCLUDE,
        (Phase.RUNNING, StopRequested): _END,
        (Phase.RUNNING, DeadlinePassed): _END,
        (Phase.RUNNING, LimitExceeded): _KILL,
        (Phase.RUNNING, LeaderExited): _RECONCILE,
        (Phase.RUNNING, LaunchFailed): _NEVER_RAN,
        (Phase.RUNNING, KeeperLost): _CONCLUDE,
        (Phase.RUNNING, HostRebooted): _CONCLUDE,
        (Phase.ENDING, SignalSent): Row(Phase.ENDING),
        (Phase.ENDING, LimitExceeded): _KILL,
        (Phase.ENDING, WaitElapsed): _KILL,
        (Phase.ENDING, LeaderExited): _RECONCILE,
        (Phase.ENDING, LaunchFailed): _NEVER_RAN,
        (Phase.KILLING, SignalSent): Row(Phase.KILLING),
        (Phase.KILLING, LimitExceeded): Row(Phase.KILLING),
        (Phase.KILLING, WaitElapsed): _RECONCILE,
        (Phase.KILLING, LeaderExited): _RECONCILE,
        (Phase.KILLING, LaunchFailed): _NEVER_RAN,
        (Phase.RECONCILING, LeaderExited): Row(Phase.RECONCILING),
        (Phase.RECONCILING, StopRequested): Row(Phase.RECONCILING),
        (Phase.RECONCILING, DeadlinePassed): Row(Phase.RECONCILING),
        (Phase.RECONCILING, SignalSent): Row(Phase.RECONCILING),
        (Phase.RECONCILING, LimitExceeded): Row(Phase.RECONCILING),
        (Phase.RECONCILING, DescendantsReconciled): Row(Phase.JUDGING, (Action.JUDGE,)),
        (Phase.RECONCILING, LaunchFailed): _NEVER_RAN,
        (Phase.JUDGING, StopRequested): Row(Phase.JUDGING),
        (Phase.JUDGING, DeadlinePassed): Row(Phase.JUDGING),
        (Phase.JUDGING, Judged): _CONCLUDE,
        (Phase.JUDGING, LaunchFailed): _CONCLUDE,
        (Phase.JUDGING, RestartDecided): Row(Phase.RESTARTING, (Action.RECORD_ATTEMPT, Action.BEGIN_RESTART_DELAY)),
        (Phase.RESTARTING, WaitElapsed): Row(Phase.RESTARTING, (Action.START,)),
        (Phase.RESTARTING, Started): Row(Phase.RUNNING, (Action.RECORD_RUNNING, Action.OPEN_GATE)),
        (Phase.RESTARTING, StopRequested): _NEVER_RAN,
        (Phase.RESTARTING, DeadlinePassed): _NEVER_RAN,
        (Phase.RESTARTING, LaunchFailed): _NEVER_RAN,
    }
)
"""Every transition there is. What is neither here nor in IGNORED cannot happen, and `step` says so."""

IGNORED: Mapping[Phase, frozenset[type[Event]]] = MappingProxyType(
    {
        # What already ends the job is what ends it; a limit alone may have ended it before that could.
        Phase.ENDING: frozenset({StopRequested, DeadlinePassed}),
        Phase.KILLING: frozenset({StopRequested, DeadlinePassed}),
        # The leader is gone: no wait is for it any more.
        Phase.RECONCILING: frozenset({WaitElapsed}),
        Phase.JUDGING: frozenset({WaitElapsed, LimitExceeded, LeaderExited}),
        Phase.EXITED: frozenset(EVENTS),
    }
)
"""What may come too late to matter, by phase."""

STOPPED_BEFORE_START = "a stop was requested before the job was started"


@attrs.frozen(kw_only=True)
class Progress:
    """An execution as its shell knows it: the phase, the facts of the last attempt so far, what it is being ended for.

    Args:
        attempt: how often the job was started, or tried to be, from 1.
    """

    phase: Phase
    facts: Facts = Facts()
    ending_for: Event | None = None
    attempt: int = 1

    @classmethod
    def recovered(cls, state: State) -> Progress:
        """What a state file tells of an execution that somebody else kept."""
        return cls(phase={State.ACCEPTED: Phase.ACCEPTED, State.RUNNING: Phase.RUNNING, State.EXITED: Phase.EXITED}[state])


def step(progress: Progress | None, event: Event) -> tuple[Progress, tuple[Action, ...]]:
    """Where `event` leads from `progress` (None: nothing exists yet), and what is to be done now, in order.

    Returns:
        The same progress and no action for an event that comes too late to matter.

    Raises:
        InternalError: the event cannot happen here; the shell's account of the world is wrong.
    """
    phase = None if progress is None else progress.phase
    row = TRANSITIONS.get((phase, type(event)))
    if row is None:
        if progress is not None and type(event) in IGNORED.get(progress.phase, ()):
            return progress, ()
        where = "does not exist yet" if phase is None else f"is {phase.value}"
        raise InternalError(f"{type(event).__name__} cannot happen to an execution that {where}")
    before = progress or Progress(phase=row.phase)
    if phase is Phase.RESTARTING and isinstance(event, Started | LaunchFailed):
        before = _next_attempt(before)
    begins_to_end = phase is Phase.RUNNING and row.phase in (Phase.ENDING, Phase.KILLING)
    ending_for = event if begins_to_end else before.ending_for
    return attrs.evolve(before, phase=row.phase, facts=_noted(before, event), ending_for=ending_for), row.actions


def _next_attempt(before: Progress) -> Progress:
    """Nothing of the last attempt is true of the next one."""
    facts = Facts(policy_failure_codes=before.facts.policy_failure_codes)
    return Progress(phase=before.phase, facts=facts, attempt=before.attempt + 1)


def _noted(before: Progress, event: Event) -> Facts:
    """The facts with what `event` adds to them."""
    facts = before.facts
    match event:
        case Accepted():
            return attrs.evolve(facts, policy_failure_codes=event.policy_failure_codes)
        case LaunchFailed():
            return attrs.evolve(
                facts, launch_error=event.error, exec_errno=event.exec_errno, returncode=None
            )  # a status was that of our own code
        case StopRequested() if before.phase is Phase.ACCEPTED:
            return attrs.evolve(facts, launch_error=STOPPED_BEFORE_START)
        case StopRequested() | DeadlinePassed():
            return attrs.evolve(facts, end_wanted=True)
        case LimitExceeded() if facts.limit in (None, event.limit) and not facts.signal_sent:  # else something else ends it
            return attrs.evolve(facts, limit=event.limit, signal_sent=event.by_signal, end_wanted=True)
        case SignalSent():
            return _signalled(before, event)
        case LeaderExited():
            return facts if facts.returncode is not None else attrs.evolve(facts, returncode=event.returncode)
        case DescendantsReconciled():
            return _reconciled(facts, event)
        case Judged():
            return attrs.evolve(facts, verdict_holds=event.holds)
        case KeeperLost():
            return attrs.evolve(facts, keeper_lost=True)
        case HostRebooted():
            return attrs.evolve(facts, host_rebooted=True)
    return facts


def _signalled(before: Progress, event: SignalSent) -> Facts:
    """Only now is it the stop, or the deadline, that ends the job; until then it may still end by itself."""
    facts = attrs.evolve(before.facts, signal_sent=True, kill_sent=before.facts.kill_sent or event.kill)
    match before.ending_for:
        case StopRequested():
            return attrs.evolve(facts, stop_signal_sent=True)
        case DeadlinePassed(deadline):
            return attrs.evolve(facts, deadline=deadline)
    return facts


def _reconciled(facts: Facts, event: DescendantsReconciled) -> Facts:
    """Members that our own ending ended were not left behind by the job; members that nothing ended always count."""
    return attrs.evolve(
        facts,
        descendants_detected=event.remaining or (event.found and not facts.signal_sent),
        descendants_quiescent=event.quiescent,
        descendant_error=event.error,
    )
