"""Trees that are hard to end, each under a deadline of its own, all in one pid box; prints what became of them as JSON."""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import sys
from typing import Any

from tests.commands import ENVIRONMENT
from tests.hosts import PROJECT
from tests.shapes import SHAPES, Shape
from tests.tree_shapes import others_in_this_namespace

GRACE = 0.3
LONG = 20.0
NAMES = (
    "setsid holder", "setsid child after the deadline", "siblings that hold the streams, one of them with a child",
    "TERM, HUP and INT ignored", "daemon by double fork", "hopping family, 32 wide", "bounded bomb", "bounded bomb of sessions",
    "process substitution", "leader kills itself, child stays", "leader stopped by its child", "child that stops itself",
    "nested subreaper", "leader that asks to be traced",
)  # fmt: skip


OWN = (Shape(name="setsid child after the deadline", program="setsid sleep 30 & (setsid sleep 30 &) & echo go; sleep 30"),)


def chosen() -> list[Shape]:
    return [shape for shape in (*OWN, *SHAPES) if shape.name in NAMES]


def expected_status(shape: Shape) -> int:
    if shape.survivors and shape.ends != "timed_out":
        return 125
    return 124 if shape.ends == "timed_out" else 0


def run(shape: Shape) -> dict[str, Any]:
    hard = shape.deadline if shape.leader_seconds is None else LONG
    program = ["python3", "-I", "-S", "-c"] if shape.in_python else ["bash", "-c"]
    argv = [sys.executable, "-m", "fable_exec", "deadline", str(hard), str(GRACE), "--", *program, shape.program]
    done = subprocess.run(
        argv, env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(PROJECT)}, stdin=subprocess.DEVNULL, capture_output=True
    )
    return {
        "name": shape.name,
        "status": done.returncode,
        "stdout_is_exact": shape.stdout is None or done.stdout == shape.stdout,
        "stderr": done.stderr.decode("utf-8", "replace")[-500:],
    }


def main() -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        findings = list(pool.map(run, [shape for shape in chosen() if not shape.alone]))
    findings += [run(shape) for shape in chosen() if shape.alone]
    print(json.dumps({"findings": findings, "left": others_in_this_namespace()}))


if __name__ == "__main__":
    main()
