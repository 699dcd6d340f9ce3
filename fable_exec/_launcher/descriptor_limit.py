"""The launcher program's own room for descriptors: what the host's hard limit allows. Commands get the host's soft limit.

A host with few descriptors left passes its limit on; with that, this program could hold nothing.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

_ENOUGH = 16384


class _Limit:
    """What the host passed on; None until it was raised."""

    inherited: tuple[int, int] | None = None


_limit = _Limit()


def raise_descriptor_limit() -> None:
    """Raise the soft limit of this process and of what it forks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
        _limit.inherited = (soft, hard)


def give_descriptor_limit_back() -> None:
    """In a process that is about to become a command: have the limit that the host passed on."""
    if _limit.inherited is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, _limit.inherited)


def keep_descriptor_limit() -> None:
    """From now on commands get the limit that this process has."""
    _limit.inherited = None


@contextlib.contextmanager
def inherited_descriptor_limit(highest: int) -> Iterator[None]:
    """The host's limit, for as long as a command is being started from descriptors up to `highest`.

    posix_spawn(3) refuses numbers beyond the limit; a command started from such a one keeps the higher limit.
    """
    if _limit.inherited is None or highest >= _limit.inherited[0]:
        yield
        return
    raised = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, _limit.inherited)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, raised)
