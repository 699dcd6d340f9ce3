"""What can be tried in several ways is tried in one of them by each run of the suite, and in all of them by the deep runs.

Which one depends on the test, on its other parameters, and on whether root runs it: so both runs of `make test` have tried two.
"""

from __future__ import annotations

import collections
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ["try_one_way"]

_TESTS = Path(__file__).resolve().parent
WAYS = {
    "broker/test_commands_at_every_door.py": ("door", "locked_door"),
    "broker/test_following_at_every_door.py": ("door", "locked_door"),
    "broker/test_lock_at_every_door.py": ("door", "locked_door"),
    "confinement/test_ending.py": ("mode",),
    "confinement/test_everyday.py": ("mode",),
    "denials": ("mode",),
    "keeper": ("rung", "scene"),
    "laterfiles": ("guarded", "pinned", "swept"),
    "runner/test_concurrency.py": ("mode",),
    "runner/test_exactness.py": ("mode",),
    "runner/test_hosts.py": ("mode",),
    "runner/test_limits.py": ("mode",),
    "runner/test_streams.py": ("mode",),
    "runner/test_tree_shapes.py": ("mode",),
    "supervision_runs": ("rung",),
}
"""The parameters that are a way, by file or directory; elsewhere every way is tried each time."""


def try_one_way(items: Iterable[pytest.Function]) -> None:
    """Mark as deep what another way of the same test stands for."""
    groups: dict[str, dict[str, pytest.Function]] = collections.defaultdict(dict)
    for item in items:
        way = _way_of(item)
        if way and item.get_closest_marker("deep") is None:
            name, _, parameters = item.nodeid.partition("[")
            groups[f"{name}[{parameters.replace(way, '*', 1)}"][way] = item
    for name, found in groups.items():
        ways = sorted(found)
        chosen = ways[(zlib.crc32(name.encode()) + (os.geteuid() == 0)) % len(ways)]
        for way in ways:
            if way != chosen:
                found[way].add_marker(pytest.mark.deep)


def _way_of(item: pytest.Function) -> str:
    """The value of its parameter that is a way, "" where there is none."""
    if not item.path.is_relative_to(_TESTS):
        return ""
    place = item.path.relative_to(_TESTS)
    names = next((WAYS[str(each)] for each in (place, *place.parents) if str(each) in WAYS), ())
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return next((str(given[name]) for name in names if name in given), "")
