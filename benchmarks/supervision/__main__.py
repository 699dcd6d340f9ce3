"""`python -m benchmarks.supervision [--count N] [--write]`: hold N executions at once, print every figure beside its budget.

An execution is three processes: keeper, init and job. The number is lowered to what the machine may have in all
(--most-processes). It runs in a PID namespace with a pid_max of its own, which ends after --seconds with all that is in it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.lines import PROJECT, environment
from benchmarks.report import write_readme
from benchmarks.supervision.budgets import table
from benchmarks.supervision.scale import measured

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
PROCESSES_OF_ONE = 3
OURS = 60
"""This process, its threads and the box, and what starts and ends meanwhile."""
_USER = ["--user", "--map-current-user", "--keep-caps"]
"""For an ordinary user: what it takes to lower pid_max, given up before anything runs."""
_DROP = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all", "--bounding-set=-all"]
_ENTER = 'echo "$1" >/proc/sys/kernel/pid_max && ulimit -u "$2" && shift 2 && { "$@"; exit "$?"; }'


def boxed(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """What `measured` finds in a namespace of its own."""
    with tempfile.TemporaryDirectory(prefix="fable-exec-scale-", dir=options.directory) as directory:
        answer = Path(directory, "found.json")
        argv = [sys.executable, "-m", "benchmarks.supervision", "--inside", str(answer), f"--count={count}"]
        user, drop = ([], []) if os.geteuid() == 0 else (_USER, _DROP)
        box = ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", _ENTER, "bash"]
        # Numbers of threads count too, and the kernel gives none below 300 twice.
        bounds = [str(max(1000, 5 * count + 500)), str(options.most_processes + 500)]
        limit = ["timeout", "--signal=KILL", str(options.seconds)]
        subprocess.run(
            [*limit, *box, *bounds, *drop, *argv], cwd=PROJECT, env=environment(), stdin=subprocess.DEVNULL, check=True
        )
        found: dict[str, Any] = json.loads(answer.read_text())
        return found


def possible(count: int, most_processes: int) -> int:
    """How many of `count` executions the machine has room for."""
    there = sum(name.isdigit() for name in os.listdir("/proc"))
    return max(1, min(count, (most_processes - there - OURS) // PROCESSES_OF_ONE))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.supervision", description=__doc__)
    parser.add_argument("--count", type=int, default=450, help="executions at once")
    parser.add_argument("--most-processes", type=int, default=1500, help="of the whole machine")
    parser.add_argument("--seconds", type=int, default=240, help="after which everything is ended")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="where files are written")
    parser.add_argument("--write", action="store_true", help="renew benchmarks/supervision/README.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what was found goes there too")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        options.inside.write_text(json.dumps(measured(options.inside.parent, options.count)))
        return 0
    before = machine.load()
    found = boxed(possible(options.count, options.most_processes), options)
    about = (
        f"Measured {datetime.datetime.now(datetime.UTC):%Y-%m-%d} on {machine.describe(options.directory.resolve())}. "
        f"Load average {before:.1f} before and {machine.load():.1f} after, the run's own part included."
    )
    text = f"{about}\n\n{table(found, options.count)}"
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    if options.write:
        write_readme(HERE / "README.md", text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
