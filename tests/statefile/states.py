"""The documents and directories that the tests of this room share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fable_exec.statefile import Form, StateFile

FORM = Form(1, {"execution_id": "7f0c2a0e-0000-4000-8000-000000000001"})
OLD: dict[str, Any] = {**FORM.members, "state": "running", "note": "old"}
NEW: dict[str, Any] = {**FORM.members, "state": "running", "note": "new" * 2000}
OUTCOME: dict[str, Any] = {"state": "exited", "returncode": 0, "termination_reason": "completed"}
ENDED = {**OLD, **OUTCOME}


def directory_in(parent: Path, name: str = "execution") -> Path:
    made = parent / name
    made.mkdir(mode=0o700)
    return made


def state_in(parent: Path, document: dict[str, Any] | None = None) -> StateFile:
    """A new state file, with `document` in it."""
    state = StateFile(directory_in(parent), FORM)
    if document is not None:
        with state.locked() as held:
            held.write(document)
    return state


def put(state: StateFile, name: str, content: bytes) -> None:
    (state.directory / name).touch(mode=0o600)
    (state.directory / name).write_bytes(content)
