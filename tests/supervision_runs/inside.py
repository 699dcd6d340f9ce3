"""The runs, as programs for a box: `python -m tests.supervision_runs.inside NAME JSON` prints its answer as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.supervision_runs.blow_series import crashes
from tests.supervision_runs.clocks import jumping, other_times
from tests.supervision_runs.embedding import in_tasks, in_threads
from tests.supervision_runs.orphans import orphan, unbound
from tests.supervision_runs.places import life, recover, reside, resided, visit, visited
from tests.supervision_runs.reusing import reuse
from tests.supervision_runs.storms import Storm

PROGRAMS: dict[str, Callable[..., Any]] = {
    "crashes": crashes,
    "in_tasks": in_tasks,
    "in_threads": in_threads,
    "jumping": jumping,
    "life": life,
    "orphan": orphan,
    "other_times": other_times,
    "recover": recover,
    "reside": reside,
    "resided": resided,
    "reuse": reuse,
    "storm": lambda directory, **terms: Storm(**terms).run(Path(directory)),
    "unbound": unbound,
    "visit": visit,
    "visited": visited,
}


if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](**json.loads(sys.argv[2]))))
