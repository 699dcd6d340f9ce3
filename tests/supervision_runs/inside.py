"""The runs, as programs for a box: `python -m tests.supervision_runs.inside NAME JSON` prints its answer as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.supervision_runs.crashing import crashes
from tests.supervision_runs.embedding import in_tasks, in_threads
from tests.supervision_runs.reusing import reuse
from tests.supervision_runs.storms import Storm

PROGRAMS: dict[str, Callable[..., Any]] = {
    "crashes": crashes,
    "in_tasks": in_tasks,
    "in_threads": in_threads,
    "reuse": reuse,
    "storm": lambda directory, **terms: Storm(**terms).run(Path(directory)),
}


if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](**json.loads(sys.argv[2]))))
