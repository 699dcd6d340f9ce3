"""Blows at every moment of every story and at random ones, by several workers at once, and what came of them."""

from __future__ import annotations

import collections
import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from fable_exec.supervisor import Supervisor
from tests.supervision_runs.blows import TARGETS, Moment
from tests.supervision_runs.crashing import LONGEST_SECONDS, STORIES, Blow, Crash, Struck

_IN_ONE_ROOT = 25


def crashes(directory: str, rung: str, seed: int, per_moment: int, random_moments: int, workers: int) -> dict[str, Any]:
    """Blows at every moment that the stories of `rung` show, and at random ones.

    Args:
        per_moment: how many sets of targets each moment gets, by chance; all of them with len(TARGETS).
        workers: how many executions at a time.
    """
    began = time.monotonic()
    chance = random.Random(seed)
    stories = {story: _undisturbed(Path(directory), rung, story) for story in STORIES}
    blows = []
    for story, (moments, _) in stories.items():
        for moment in moments:
            for targets in chance.sample(TARGETS, per_moment):
                blows.append(Blow(rung=rung, story=story, targets=targets, moment=moment, seed=chance.getrandbits(32)))
    at_moments = len(blows)
    for _ in range(random_moments):
        story = chance.choice(STORIES)
        seconds = chance.uniform(0.0, stories[story][1])
        targets = chance.choice(TARGETS)
        blows.append(Blow(rung=rung, story=story, targets=targets, seconds=seconds, seed=chance.getrandbits(32)))
    chance.shuffle(blows)
    told = _struck(Path(directory), blows, workers)
    return {"seed": seed, "at_moments": at_moments, **_summary(told), "seconds": round(time.monotonic() - began, 1)}


def _undisturbed(directory: Path, rung: str, story: str) -> tuple[list[Moment], float]:
    """The moments that the story shows, and how long it takes from the first of them."""
    with Supervisor(directory / "undisturbed") as rival:
        struck = Crash(directory, Blow(rung=rung, story=story, targets=(), moment=None, seconds=LONGEST_SECONDS), rival).run()
    assert struck.faults == [], struck.faults
    return struck.moments, struck.seconds


def _struck(directory: Path, blows: Sequence[Blow], workers: int) -> list[dict[str, Any]]:
    """All blows, by so many workers at once."""
    files = []
    for worker in range(workers):
        place = directory / f"worker{worker}"
        place.mkdir()
        files.append(place / "told")
        if os.fork() == 0:
            status = 1
            try:
                files[-1].write_text(json.dumps(_struck_by_one(place, blows[worker::workers])))
                status = 0
            finally:
                os._exit(status)
    for _ in files:
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    return [each for file in files for each in json.loads(file.read_text())]


def _struck_by_one(place: Path, blows: Sequence[Blow]) -> list[dict[str, Any]]:
    found = []
    for first in range(0, len(blows), _IN_ONE_ROOT):
        # `recover` looks at everything below its root: a few executions in each keep that short.
        with Supervisor(place / f"root{first}") as rival:
            for blow in blows[first : first + _IN_ONE_ROOT]:
                try:
                    struck = Crash(place, blow, rival).run()
                except Exception as error:
                    struck = Struck(faults=[repr(error)[:500]])
                found.append({"blow": str(blow), **attrs.asdict(struck)})
    return found


def _summary(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts, and every fault beside its blow."""
    words = sorted(each["last_word"] for each in told if each["last_word"] is not None)
    by_targets: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for each in told:
        by_targets["+".join(each["hit"]) or "nobody"][each["end"]] += 1
    return {
        "blows": len(told),
        "met": sum(each["met"] for each in told),
        "hit": sum(bool(each["hit"]) for each in told),
        "ends by hit": {hit: dict(ends) for hit, ends in sorted(by_targets.items())},
        "last word, p50 and longest": [round(words[len(words) // 2], 4), round(words[-1], 4)] if words else [],
        "faults": [[each["blow"], each["hit"], each["faults"]] for each in told if each["faults"]],
    }
