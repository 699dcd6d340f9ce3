"""A supervised execution as a structure: every world that the real transition table leads to, whatever happens.

Events are tried in every world, and `lifecycle.step` says where they lead; `judged` and `is_restarted` how an attempt is judged.
What the model adds is what must happen: an action that begins a wait, or makes something happen, owes its event.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import attrs

from fable_exec.assurance.model.exploring import Model, explore
from fable_exec.errors import InternalError
from fable_exec.lifecycle import (
    Accepted,
    Action,
    Deadline,
    DeadlinePassed,
    DescendantsReconciled,
    Event,
    ExitCodeVerdict,
    HostRebooted,
    Judged,
    KeeperLost,
    LaunchFailed,
    LeaderExited,
    Limit,
    LimitExceeded,
    Phase,
    Progress,
    RestartDecided,
    SignalSent,
    Started,
    State,
    StopRequested,
    WaitElapsed,
    is_restarted,
    judged,
    step,
)

__all__ = ["SUPERVISOR_ATOMS", "SupervisedWorld", "explore_supervisor", "supervisor_model"]

_RESTARTS = 1
_SEGFAULT = -11

_EVENTS: tuple[Event, ...] = (
    Accepted(),
    Started(),
    LaunchFailed("exec failed"),
    StopRequested(),
    DeadlinePassed(Deadline.HARD),
    LimitExceeded(Limit.MEMORY),
    SignalSent(),
    WaitElapsed(),
    LeaderExited(0),
    LeaderExited(_SEGFAULT),
    DescendantsReconciled(quiescent=True),
    DescendantsReconciled(quiescent=False),
    DescendantsReconciled(found=True, remaining=True, quiescent=False),
)
"""One of each kind that the table tells apart, without those that the facts or the end of a keeper decide."""

_OWED: Mapping[Action, tuple[type[Event], ...]] = {
    Action.START: (Started, LaunchFailed),
    Action.OPEN_GATE: (LeaderExited, DeadlinePassed),
    Action.BEGIN_GRACE: (WaitElapsed,),
    Action.BEGIN_KILL_WAIT: (WaitElapsed,),
    Action.BEGIN_RESTART_DELAY: (WaitElapsed,),
    Action.RECONCILE: (DescendantsReconciled,),
    Action.JUDGE: (Judged, RestartDecided),
}
"""What the action's own words promise: one of these follows. A job that runs ends, or its time is over."""

_ONLY_WHEN_OWED = frozenset({Started, WaitElapsed, DescendantsReconciled, Judged, RestartDecided})
"""What comes of our own actions alone; the rest comes from the world, at any time."""

SUPERVISOR_ATOMS: Mapping[str, str] = {
    **{f"is_{phase.value}": f"the phase is {phase.value}" for phase in Phase},
    "signalling": "a signal is being sent to the job",
    "identity_known": "the job's process was made, who it is is known, and nobody has reaped it",
    "gate_open": "the job may run",
    "recorded_running": "its state says, durably, that it runs, and who it is",
    "outcome_recorded": "the one terminal write was made",
    "nothing_left": "a proof says that nothing of the last attempt is left",
    "stuck": "what happens next is nothing that the table knows",
}
"""What a formula about a supervised execution may ask for."""


@attrs.frozen
class SupervisedWorld:
    """An execution at one moment. `done` are the actions that led here."""

    progress: Progress | None = None
    done: tuple[Action, ...] = ()
    owed: frozenset[type[Event]] = frozenset()
    has_identity: bool = False
    is_recorded: bool = False
    is_stuck: bool = False


@functools.cache
def supervisor_model() -> Model[SupervisedWorld]:
    """Every world that the supervisor's table leads to from an execution that does not exist yet."""
    return explore_supervisor()


def explore_supervisor() -> Model[SupervisedWorld]:
    """The same, explored anew: for whoever has changed the table."""
    return explore(SupervisedWorld(), _moves, _labels)


def _moves(world: SupervisedWorld) -> Iterator[tuple[str, SupervisedWorld]]:
    """What can happen. A world in which nothing that is owed changes anything may stay as it is."""
    if world.is_stuck:
        return
    goes_on = False
    for event in _events(world):
        try:
            one = _after(world, event)
        except InternalError:
            if type(event) in world.owed:
                yield f"{event!r}, which the table does not know here", attrs.evolve(world, is_stuck=True, owed=frozenset())
            continue
        if one is not None:
            goes_on = goes_on or type(event) in world.owed
            yield repr(event), one
    yield from _loss_of_keeper(world)
    if not goes_on and world.progress is not None:
        yield "nothing happens any more", world


def _events(world: SupervisedWorld) -> Iterator[Event]:
    """All that could come. Of what is over the table says that nothing matters any more, so everything is tried there."""
    progress = world.progress
    if progress is not None and progress.phase is Phase.EXITED:
        yield from (*_EVENTS, RestartDecided(), Judged(True), KeeperLost(), HostRebooted())
        return
    yield from (event for event in _EVENTS if type(event) in world.owed or type(event) not in _ONLY_WHEN_OWED)
    if progress is not None and Judged in world.owed:
        again = is_restarted(progress.facts, progress.attempt, _RESTARTS)
        yield RestartDecided() if again else judged(progress.facts, ExitCodeVerdict())


def _after(world: SupervisedWorld, event: Event) -> SupervisedWorld | None:
    """The world after `event`; None where it comes too late to matter. Raises InternalError where it cannot happen."""
    before = world.progress
    progress, actions = step(before, event)
    if progress is before or (progress == before and not actions):
        return None
    has_identity = (world.has_identity or isinstance(event, Started)) and not isinstance(event, LeaderExited | LaunchFailed)
    is_recorded = (world.is_recorded and not isinstance(event, Started)) or Action.RECORD_RUNNING in actions
    return SupervisedWorld(progress, actions, _owed(world, progress, event, actions), has_identity, is_recorded)


def _owed(world: SupervisedWorld, progress: Progress, event: Event, actions: tuple[Action, ...]) -> frozenset[type[Event]]:
    """What must happen now: what was owed before, as long as the phase lasts and it has not come, and what the actions owe."""
    still = world.owed if world.progress is not None and progress.phase is world.progress.phase else frozenset[type[Event]]()
    paid = next((events for events in _OWED.values() if type(event) in events and still.issuperset(events)), ())
    return still.difference(paid).union(*(_OWED.get(action, ()) for action in actions))


def _loss_of_keeper(world: SupervisedWorld) -> Iterator[tuple[str, SupervisedWorld]]:
    """Somebody else reads the state that a dead keeper left, and concludes."""
    state = None if world.progress is None else world.progress.phase.state
    if state in (State.ACCEPTED, State.RUNNING):
        for event in (KeeperLost(), HostRebooted()):
            progress, actions = step(Progress.recovered(state), event)
            yield repr(event), SupervisedWorld(progress, actions, is_recorded=world.is_recorded)


def _labels(world: SupervisedWorld) -> Iterator[str]:
    progress = world.progress
    if progress is None:
        return
    yield f"is_{progress.phase.value}"
    facts = {
        "signalling": Action.TERMINATE in world.done or Action.KILL in world.done,
        "identity_known": world.has_identity,
        "gate_open": Action.OPEN_GATE in world.done,
        "recorded_running": world.is_recorded,
        "outcome_recorded": Action.RECORD_OUTCOME in world.done,
        "nothing_left": progress.facts.descendants_quiescent,
        "stuck": world.is_stuck,
    }
    yield from (atom for atom, holds in facts.items() if holds)
