"""Small file systems of a test's own, each in a mount namespace that ends with the program which uses it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def on_tmpfs(place: Path, options: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python source in a tmpfs that is mounted on `place`; it is root there, in a user namespace for ordinary users."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "none", str(place)]
    return _run([*user, "--mount"], [mount], place, program, arguments)


def on_ext4(image: Path, place: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python source in a new ext4 of 8 MiB in the file `image`, mounted on `place`. Needs the ability loop_ext4.

    Its journal is committed when somebody syncs, and not every five seconds besides.
    """
    image.touch()
    os.truncate(image, 8 << 20)
    make = ["mkfs.ext4", "-q", "-m", "0", str(image)]
    mount = ["mount", "-o", "loop,commit=3600", str(image), str(place)]
    return _run(["--mount"], [make, mount], place, program, arguments)


def _run(
    namespaces: list[str], before: list[list[str]], place: Path, program: str, arguments: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    steps = [*before, ["cd", str(place)]]
    script = " && ".join([*map(shlex.join, steps), 'exec "$0" -c "$@"'])
    argv = ["unshare", *namespaces, "sh", "-c", script, sys.executable, textwrap.dedent(program), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(PROJECT)})
