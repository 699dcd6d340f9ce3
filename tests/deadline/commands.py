"""`fable-exec deadline` as it is typed, and what it leaves."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.cli import typed

HARD, GRACE = "20", "5"


def deadline(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end; `words` begin with HARD GRACE."""
    return typed.typed("deadline", *words, **options)


def shell(script: str, hard: str = HARD, grace: str = GRACE, *idle: str) -> tuple[str, ...]:
    return hard, grace, *idle, "--", "sh", "-c", script


def started(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start it with a pipe each; the command has said "ready" when this returns."""
    process = typed.started("deadline", *words, **options)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def timeout_of(stderr: bytes) -> dict[str, Any]:
    """The one line of JSON that standard error is."""
    assert stderr.endswith(b"\n") and stderr.count(b"\n") == 1, stderr
    members: dict[str, Any] = json.loads(stderr)
    return members
