"""Logs to look at: what tests of several rooms write and read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fable_exec.audit import AuditLog


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, count: int = 3) -> bytes:
    with AuditLog(path) as log:
        for number in range(count):
            log.append("x", number=number)
    return path.read_bytes()
