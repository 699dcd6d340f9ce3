"""The durable writes of an execution: state read and replaced, outcome recorded, beside the same calls without any check."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import raw
from benchmarks.figure import MICROSECONDS, MILLISECONDS, Figure
from benchmarks.measuring import interleaved, timed
from benchmarks.setting import Setting
from fable_exec.statefile import RECORD_BYTES, RECORD_NAME, STATE_NAME, Form, StateFile

FORM = Form(1, {"execution_id": "7f0c2a0e-0000-4000-8000-000000000001"})
DOCUMENT: dict[str, Any] = {**FORM.members, "state": "running", **{f"member_{number}": "x" * 40 for number in range(40)}}
OUTCOME: dict[str, Any] = {"state": "exited", "returncode": 0, "descendants": {"remaining_pids": list(range(20))}}
DATA = json.dumps(DOCUMENT, sort_keys=True, indent=2).encode()
"""2.4 KiB, as a state with everything in it has."""

Act = Callable[[], object]


def measure(setting: Setting) -> list[Figure]:
    state, theirs = StateFile(setting.workspace(), FORM), setting.workspace() / STATE_NAME
    state.terminal_record().close()
    _write(state)
    raw.durable_write(str(theirs), DATA)
    jobs = {
        "write": (lambda: _write(state), lambda: raw.durable_write(str(theirs), DATA)),
        "read": (state.read, lambda: json.loads(theirs.read_bytes())),
        "record": _recorders(setting),
        "life": _lives(setting),
    }
    return [_measure(setting, key, *jobs[key]) for key in jobs]


TITLES = {
    "write": ("replace the state, under the lock", "write + fsync + rename + fsync(dir)", MILLISECONDS),
    "read": ("read the state, without a lock", "open, read, json.loads", MICROSECONDS),
    "record": ("record the outcome in place", "pwrite + fdatasync", MILLISECONDS),
    "life": ("all durable writes of an execution", "the same calls without checks or lock", MILLISECONDS),
}
ROUNDS = {"write": 400, "read": 2000, "record": 400, "life": 200}


def _measure(setting: Setting, key: str, ours: Act, theirs: Act) -> Figure:
    found = interleaved([timed("ours", ours), timed("raw", theirs)], setting.rounds(ROUNDS[key]))
    title, reference, unit = TITLES[key]
    return Figure(
        key=f"durable_state.{key}", title=title, unit=unit,
        ours=found["ours"], reference=found["raw"], reference_name=reference,
    )  # fmt: skip


def _write(state: StateFile) -> None:
    with state.locked() as held:
        held.write(DOCUMENT)


def _recorders(setting: Setting) -> tuple[Act, Act]:
    """Each records in a file whose space was made certain beforehand; what is there is made empty first, without a sync."""
    state = StateFile(setting.workspace(), FORM)
    record = setting.enter(state.terminal_record())
    fds = [setting.enter(_opened(state.directory / RECORD_NAME)), setting.enter(_opened(_certain(setting.workspace() / "raw")))]
    block = b"x" * RECORD_BYTES

    def ours() -> None:
        os.pwrite(fds[0], bytes(64), 0)
        record.write(OUTCOME)

    def theirs() -> None:
        os.pwrite(fds[1], bytes(64), 0)
        os.pwrite(fds[1], block, 0)
        os.fdatasync(fds[1])

    return ours, theirs


def _lives(setting: Setting) -> tuple[Act, Act]:
    fresh, parent = itertools.count(), setting.workspace()

    def ours() -> None:
        state = StateFile(_made(parent / str(next(fresh))), FORM)
        with state.terminal_record() as record:
            _write(state)
            _write(state)
            state.conclude(record, OUTCOME)

    def theirs() -> None:
        directory = _made(parent / str(next(fresh)))
        fd = os.open(_certain(directory / RECORD_NAME), os.O_RDWR)
        for turn in range(3):
            if turn == 2:
                os.pwrite(fd, b"x" * RECORD_BYTES, 0)
                os.fdatasync(fd)
            raw.durable_write(str(directory / STATE_NAME), DATA)
        os.close(fd)

    return ours, theirs


def _made(directory: Path) -> Path:
    directory.mkdir(mode=0o700)
    return directory


def _certain(path: Path) -> Path:
    with path.open("xb") as file:
        os.posix_fallocate(file.fileno(), 0, RECORD_BYTES)
        os.fsync(file.fileno())
    return path


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
