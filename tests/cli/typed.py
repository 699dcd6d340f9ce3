"""Command lines as a user types them: `fable-exec` in a process of its own, in an environment that says little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "fable_exec"]
PATIENCE_SECONDS = 30
_NEUTRAL = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(PROJECT), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


def environment(**more: str) -> dict[str, str]:
    """What every command line here gets, and `more`."""
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return {**kept, **_NEUTRAL, **more}


def typed(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )


def started(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start it with pipes; the caller ends and waits."""
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([*PROGRAM, *arguments], env=environment(), stdout=subprocess.PIPE, **options)


def the_object(finished: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """The one JSON object that standard output is, with its version."""
    text = finished.stdout.decode("ascii")
    assert text.endswith("\n") and text.count("\n") == 1, text
    members: dict[str, Any] = json.loads(text)
    assert members["schema_version"] == 1
    return members


def is_running(marker: str) -> bool:
    """Whether a living process has `marker` among its arguments."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue  # it ended while we looked
    return False


def until(holds: Callable[[], bool], seconds: float = 10) -> bool:
    """Wait for something to become true; whether it did."""
    give_up_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.01)
    return True
