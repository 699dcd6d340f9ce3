"""`python -m benchmarks.leaks.worker EXECUTOR SECONDS DIRECTORY`: one executor and the scene, as one line of JSON.

It runs in a box (`box.py`), which ends what the executor leaves; this program does not clean up after it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import cast

import attrs

from benchmarks.leaks.executors import Executor
from benchmarks.leaks.scene import perform

__all__: list[str] = []


def main() -> None:
    name, seconds, directory = sys.argv[1:]
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # some executors print what their commands do
    module = cast(Executor, importlib.import_module(f"benchmarks.leaks.executors.{name}"))
    with module.executor(Path(directory)) as run:
        os.write(answer, json.dumps(attrs.asdict(perform(run, float(seconds)))).encode())
        os._exit(0)  # what the executor would still wait for is of no interest, and its children end with the box


if __name__ == "__main__":
    main()
