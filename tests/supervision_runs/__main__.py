"""`python -m tests.supervision_runs --table [--seed N]`: the big runs one after the other, and a table of what came of them."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.supervision_runs.jobs import RUNGS
from tests.supervision_runs.reusing import MOMENTS
from tests.supervision_runs.running import QUICK, WHOLE, answer_of

_LONGEST_SECONDS = 3600.0


def main() -> None:
    """Run all; exit status 1 where anything was at fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.supervision_runs", description=__doc__)
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--table", action="store_true", help="the whole forms, which take an hour")
    length.add_argument("--quick", action="store_true", help="the same of the short forms that `make test` runs")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    print("| run | rung | tried | came of it | faults | seed | s |\n|---|---|---|---|---|---|---|", flush=True)
    faults = 0
    for name, terms, tried in _runs(QUICK if options.quick else WHOLE, options.seed):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="supervision-runs-") as directory:
            answer = answer_of(name, Path(directory), timeout=_LONGEST_SECONDS, max_pids=1400, **terms)
        found, wrong = _told(name, answer)
        faults += len(wrong)
        row = (name, terms["rung"], tried, found, len(wrong), terms.get("seed", "-"), round(time.monotonic() - began))
        print(f"| {' | '.join(map(str, row))} |", flush=True)
        for each in wrong:
            print(f"    {each}", flush=True)
    raise SystemExit(1 if faults else 0)


def _runs(terms: Any, seed: int) -> Iterator[tuple[str, dict[str, Any], str]]:
    for rung in RUNGS:
        storm, crashes, reuse = terms["storm"], terms["crashes"], terms["reuse"]
        words = "{starts} starts, {processes} processes, {ids} ids, {workspaces} workspaces"
        yield "storm", {"rung": rung, "seed": seed, **storm}, words.format(**storm)
        words = "{per_moment} sets of processes killed at each moment, {random_moments} at random ones"
        yield "crashes", {"rung": rung, "seed": seed, **crashes}, words.format(**crashes)
        for moment in MOMENTS:
            more = {"rung": rung, "moment": moment, "powers": True, **reuse}
            yield "reuse", more, f"{reuse['rounds']} numbers reused at {moment}"


def _told(name: str, answer: dict[str, Any]) -> tuple[str, list[Any]]:
    """What came of it in words, and what must not have."""
    if name == "reuse":
        return _counted(answer["ends"]), list(answer["signals"])
    if name == "storm":
        return _counted(answer["counts"]), answer["faults"]
    ends: dict[str, int] = {}
    for by_reason in answer["ends by hit"].values():
        for reason, count in by_reason.items():
            ends[reason] = ends.get(reason, 0) + count
    blows = {name: answer[name] for name in ("blows", "met", "hit")}
    last = json.dumps(answer["last word, p50 and longest"])
    return f"{_counted(blows)}; {_counted(ends)}; last word after the keeper {last} s", answer["faults"]


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))


if __name__ == "__main__":
    main()
