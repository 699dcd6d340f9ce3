"""What may happen to a supervised execution: single events, facts, and whole lives of events that the tables take."""

from __future__ import annotations

from hypothesis import strategies as st

from fable_exec import lifecycle as lc
from fable_exec.errors import InternalError

__all__ = ["events", "facts", "lifecycles"]

_RETURNCODES = st.none() | st.sampled_from([0, 1, 20, 125, 255, -9, -15])

_RECONCILED = st.builds(
    lambda found, remaining, proved, error: lc.DescendantsReconciled(
        found=found or remaining, remaining=remaining, quiescent=proved and not remaining and not error, error=error
    ),
    st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["", "EACCES on /proc"]),
)  # fmt: skip

_EVENTS: st.SearchStrategy[lc.Event] = st.one_of(
    st.builds(lc.Accepted),
    st.just(lc.Started()),
    st.just(lc.LaunchFailed("exec failed with ENOENT")),
    st.just(lc.StopRequested()),
    st.builds(lc.DeadlinePassed, st.sampled_from(lc.Deadline)),
    st.builds(lc.LimitExceeded, st.sampled_from(lc.Limit), st.booleans()),
    st.builds(lc.SignalSent, st.booleans()),
    st.just(lc.WaitElapsed()),
    st.builds(lc.LeaderExited, _RETURNCODES),
    _RECONCILED,
    st.builds(lc.Judged, st.booleans()),
    st.just(lc.RestartDecided()),
    st.just(lc.KeeperLost()),
    st.just(lc.HostRebooted()),
)

_FACTS = st.builds(
    lc.Facts,
    launch_error=st.none() | st.just("exec failed with ENOENT"),
    host_rebooted=st.booleans(),
    keeper_lost=st.booleans(),
    descendants_detected=st.booleans(),
    descendants_quiescent=st.booleans(),
    descendant_error=st.sampled_from(["", "EACCES on /proc"]),
    signal_sent=st.booleans(),
    kill_sent=st.booleans(),
    stop_signal_sent=st.booleans(),
    deadline=st.none() | st.sampled_from(lc.Deadline),
    limit=st.none() | st.sampled_from(lc.Limit),
    end_wanted=st.booleans(),
    returncode=_RETURNCODES,
    verdict_holds=st.booleans(),
    policy_failure_codes=st.sampled_from([frozenset({20}), frozenset(), frozenset({1, 125})]),
)


def events() -> st.SearchStrategy[lc.Event]:
    """One event of any kind."""
    return _EVENTS


def facts() -> st.SearchStrategy[lc.Facts]:
    """Every combination, also those that no life leads to."""
    return _FACTS


@st.composite
def lifecycles(draw: st.DrawFn, *, most: int = 30) -> list[lc.Event]:
    """Events of one execution in an order that `lifecycle.step` takes from its acceptance on, up to `most` of them."""
    life: list[lc.Event] = [lc.Accepted()]
    progress, _ = lc.step(None, life[0])
    for event in draw(st.lists(_EVENTS, max_size=most - 1)):
        try:
            progress, _ = lc.step(progress, event)
        except InternalError:
            continue  # no row of the table has it here
        life.append(event)
    return life
