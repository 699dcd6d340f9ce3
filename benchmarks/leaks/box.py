"""A PID namespace for one executor: whatever it leaves ends with it, a minute after its start at the latest."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["run_in_box"]

_PROJECT = Path(__file__).resolve().parents[2]
_SECONDS = 60
_ENTER = 'ulimit -u 400; "$@"; exit "$?"'  # the shell stays, and is the init that orphans go to


def run_in_box(python: str, executor: str, timeout_seconds: float) -> dict[str, Any]:
    """What the worker says of `executor`, run by the interpreter `python`: a `Seen`, or {"failed": reason}."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    unshare = ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc"]
    with tempfile.TemporaryDirectory() as directory:
        workspace = Path(directory).resolve() / "workspace"
        workspace.mkdir(mode=0o700)
        worker = [python, "-m", "benchmarks.leaks.worker", executor, str(timeout_seconds), str(workspace)]
        argv = ["timeout", "--signal=KILL", str(_SECONDS), *unshare, "bash", "-c", _ENTER, "bash", *worker]
        # Answers go to files: a child that keeps a pipe open must not hold up the reader of the answer as well.
        with tempfile.TemporaryFile("w+") as answer, tempfile.TemporaryFile("w+") as complaint:
            # What the executor keeps in files of its own goes with the directory.
            environment = {**os.environ, "TMPDIR": directory}
            done = subprocess.run(argv, cwd=_PROJECT, env=environment, stdin=subprocess.DEVNULL, stdout=answer, stderr=complaint)
            answer.seek(0)
            complaint.seek(0)
            lines, complaints = answer.read().splitlines(), complaint.read().strip()
    if lines:
        seen: dict[str, Any] = json.loads(lines[-1])
        return seen
    if done.returncode in (-9, 137):
        return {"failed": f"not returned after {_SECONDS} s"}
    return {"failed": complaints.rpartition("\n")[2][:200] or f"status {done.returncode}"}
