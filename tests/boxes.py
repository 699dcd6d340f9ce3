"""A box for tests that fork without end, daemonise or leave their session: nothing in it can outlive it or flood the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

Finished = subprocess.CompletedProcess[str]

FEWEST_PIDS = 301  # the kernel's lower bound for pid_max

_ENTER = 'echo "$1" >/proc/sys/kernel/pid_max && ulimit -u "$1" && shift && { "$@"; exit "$?"; }'


def run_in_pid_box(
    program: str | Sequence[str],
    timeout: float,
    max_pids: int,
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Finished:
    """Run Python source or an argv as a child of the init of a new PID namespace with its own /proc and its own pid_max.

    When it ends, and after `timeout` seconds at the latest (status 137), the kernel ends everything in the namespace. It runs
    as the user who runs the suite: for an ordinary user the capabilities of the user namespace are dropped before it starts.
    """
    argv = [sys.executable, "-c", textwrap.dedent(program)] if isinstance(program, str) else list(program)
    if max_pids < FEWEST_PIDS:
        raise ValueError(f"max_pids {max_pids} is below the kernel's {FEWEST_PIDS}")
    user, drop = ([], []) if os.geteuid() == 0 else (_USER_NAMESPACE, _DROP_CAPABILITIES)
    box = ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc"]
    enter = ["bash", "-c", _ENTER, "bash", str(max_pids), *drop, *argv]
    return subprocess.run(
        ["timeout", "--signal=KILL", str(timeout), *box, *enter], cwd=cwd, env=env, input=stdin, capture_output=True, text=True
    )


# The capabilities are needed to lower pid_max and must not reach the program: an ordinary user has none.
_USER_NAMESPACE = ["--user", "--map-current-user", "--keep-caps"]
_DROP_CAPABILITIES = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all", "--bounding-set=-all"]
