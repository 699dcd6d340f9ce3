"""Start a worker where it can harm nobody: process ids, mounts, IPC and a host name of its own, as root or as an ordinary user."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["run_worker"]

_PROJECT = Path(__file__).resolve().parent.parent.parent
_BOX = ["unshare", "--mount", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
_SECONDS = 900


def run_worker(system: str, *, ordinary_user: int = 0, only: str = "", seconds: int = _SECONDS) -> dict[str, Any]:
    """The worker's results; `ordinary_user` is the id to run as, 0 for whoever runs this."""
    with tempfile.TemporaryDirectory(prefix="fable-escapes-answer-", dir="/var/tmp") as directory:
        os.chmod(directory, 0o777)
        answer = Path(directory) / "answer.json"
        argv = [sys.executable, "-m", "benchmarks.escapes.worker", system, "--only", only, "--output", str(answer)]
        environment = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "ESCAPES_PEERS")},
            "ESCAPES_HOST_SECRET": f"escapes-{secrets.token_hex(8)}",
            "ESCAPES_DIRECTORY": directory,
            "PYTHONPATH": str(_PROJECT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": directory,
        }
        boxed = _boxed(argv, ordinary_user)
        if boxed != argv:
            environment["ESCAPES_BOXED"] = "1"
        done = subprocess.run(
            ["timeout", "-s", "KILL", str(seconds), *boxed],
            cwd=_PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if not answer.exists():
            return {"system": system, "skipped": f"the worker ended with {done.returncode}: {done.stderr[-2000:]}"}
        found: dict[str, Any] = json.loads(answer.read_text())
        return found


def _boxed(argv: list[str], ordinary_user: int) -> list[str]:
    if os.geteuid() == 0:
        user = (
            []
            if not ordinary_user
            else ["setpriv", f"--reuid={ordinary_user}", f"--regid={ordinary_user}", "--clear-groups", "--"]
        )
        # The host name is set inside, so that every run has another one.
        return [*_BOX, "sh", "-c", f'hostname box-{secrets.token_hex(4)}; exec "$@"', "sh", *user, *argv]
    box = [*_BOX, "--user", "--map-current-user"]
    return [*box, *argv] if subprocess.run([*box, "true"], capture_output=True).returncode == 0 else argv
