"""What a keeper saw, as it saw it: one JSON line an event in supervisor.log. It tells people why; nothing is decided by it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs

from fable_exec.executions import now
from fable_exec.executions.logs import open_log
from fable_exec.executions.names import SUPERVISOR_LOG_NAME
from fable_exec.lifecycle import Event, Phase

__all__ = ["Chronicle"]

_encode = json.JSONEncoder(default=str).encode
_MOST_BYTES = 1024 * 1024
"""A keeper writes some ten lines; whatever makes it write for ever must not fill the disk."""


class Chronicle:
    """The log, open for appending as long as the keeper lives. What cannot be written is not."""

    def __init__(self, directory: Path) -> None:
        try:
            self._log = open_log(directory / SUPERVISOR_LOG_NAME)
        except OSError:
            self._log = -1

    def write(self, event: Event, phase: Phase) -> None:
        """Note `event`, and the phase that it led to."""
        self.note(type(event).__name__, phase=phase.value, **_members(event))

    def note(self, what: str, **members: Any) -> None:
        """Note something else."""
        line = _encode({"time": now(), "event": what, **members}) + "\n"
        try:
            if os.fstat(self._log).st_size + len(line) <= _MOST_BYTES:
                os.write(self._log, line.encode("ascii"))
        except OSError:
            pass  # the job and its outcome matter more


def _members(event: Event) -> dict[str, Any]:
    return {name: _plain(value) for name, value in attrs.asdict(event, recurse=False).items()}


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else getattr(value, "value", value)
