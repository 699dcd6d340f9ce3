"""Trees of processes with known effects: see fable_exec.testing.ProcessTree for what is promised of each."""

from __future__ import annotations

from hypothesis import strategies as st

from fable_exec.testing.trees import MOST_PROCESSES, Branch, ProcessTree

__all__ = ["process_trees"]

_MOST_BELOW_ONE = 3


def _branches(inner: st.SearchStrategy[tuple[Branch, ...]]) -> st.SearchStrategy[tuple[Branch, ...]]:
    branch = st.builds(
        Branch,
        way=st.sampled_from(["child", "session", "daemon"]),
        stays=st.booleans(),
        keeps_streams=st.booleans(),
        deaf=st.booleans(),
        branches=inner,
    )
    return st.lists(branch, max_size=_MOST_BELOW_ONE).map(tuple)


def process_trees(*, most: int = MOST_PROCESSES, stays: bool = False) -> st.SearchStrategy[ProcessTree]:
    """Trees of up to `most` processes.

    Args:
        stays: the leader stays too, so that only a deadline or a cancel ends it.
    """
    if not 1 <= most <= MOST_PROCESSES:
        raise ValueError(f"most must be between 1 and {MOST_PROCESSES}, not {most}")
    nothing: st.SearchStrategy[tuple[Branch, ...]] = st.just(())
    branches = _branches(_branches(nothing)).filter(lambda found: sum(each.size for each in found) < most)
    codes = st.sampled_from([0, 1, 2, 126, 127, 128, 137, 255]) | st.integers(0, 255)
    return st.builds(ProcessTree, branches=branches, exit_code=st.just(0) if stays else codes, stays=st.just(stays))
