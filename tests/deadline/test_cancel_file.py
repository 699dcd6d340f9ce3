"""The cancel file: what stops a command, and that every other file is refused, and said."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec._launcher import kernel_inotify
from fable_exec.deadline import MAX_CANCEL_BYTES, CancelFile, write_cancel_file
from fable_exec.errors import InvalidRequest
from fable_exec.procident import identify
from tests.cli.typed import environment, is_running
from tests.deadline.commands import deadline, shell, started
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("linux")


def private(path: Path, data: bytes, mode: int = 0o600) -> None:
    path.write_bytes(data)
    path.chmod(mode)


def right(**more: Any) -> dict[str, Any]:
    return {"type": "cancel", "process": identify(os.getpid()).to_members(), **more}


def members(document: object) -> bytes:
    return json.dumps(document).encode()


def linked(path: Path) -> None:
    private(path.with_name("other"), members(right()))
    path.symlink_to("other")


def linked_hard(path: Path) -> None:
    private(path.with_name("other"), members(right()))
    os.link(path.with_name("other"), path)


def of_another(path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        private(path, members({"type": "cancel", "process": identify(other.pid).to_members()}))
    finally:
        other.kill()
        other.wait()


def with_process(**more: Any) -> bytes:
    return members({"type": "cancel", "process": {**identify(os.getpid()).to_members(), **more}})


def without(name: str) -> bytes:
    process = identify(os.getpid()).to_members()
    del process[name]
    return members({"type": "cancel", "process": process})


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "a symbolic link": (linked, "symbolic link"),
    "a hard link": (linked_hard, "more than one link"),
    "a directory": (lambda path: path.mkdir(mode=0o700), "not a regular file"),
    "a FIFO": (lambda path: os.mkfifo(path, 0o600), "not a regular file"),
    "readable by others": (lambda path: private(path, members(right()), 0o644), "others may open it"),
    "readable only": (lambda path: private(path, members(right()), 0o400), "its mode is 0400"),
    "executable": (lambda path: private(path, members(right()), 0o700), "its mode is 0700"),
    "too long": (lambda path: private(path, members(right()) + b" " * MAX_CANCEL_BYTES), "longer than 1024 bytes"),
    "empty": (lambda path: private(path, b""), "no whole JSON"),
    "torn": (lambda path: private(path, members(right())[:-2]), "no whole JSON"),
    "two documents": (lambda path: private(path, members(right()) * 2), "no whole JSON"),
    "no object": (lambda path: private(path, b"[1]"), "not a JSON object"),
    "another type": (lambda path: private(path, members(right(type="stop"))), 'must have "type"'),
    "one member more": (lambda path: private(path, members(right(reason="x"))), 'must have "type"'),
    "a member twice": (lambda path: private(path, members(right())[:-1] + b', "type": "cancel"}'), "names a member twice"),
    "no process": (lambda path: private(path, members(right(process=1))), 'must have "type"'),
    "a member of the process more": (lambda path: private(path, with_process(uid=0)), '"process" must have'),
    "a member of the process less": (lambda path: private(path, without("unique_id")), '"process" must have'),
    "a number that is text": (lambda path: private(path, with_process(pid="1")), "another type"),
    "another process": (of_another, "another process"),
    "our number, born at another time": (lambda path: private(path, with_process(unique_id=1)), "another process"),
    "our number and nothing else": (
        lambda path: private(path, with_process(birth_token=None, unique_id=None)),
        "cannot be proved to be this one",
    ),
}


@pytest.mark.parametrize("make, reason", WRONG.values(), ids=WRONG)
def test_every_other_file_is_refused_and_said_once(make: Callable[[Path], object], reason: str, tmp_path: Path) -> None:
    told: list[str] = []
    with watched(tmp_path / "cancel", told) as file:
        make(tmp_path / "cancel")
        assert not file.asked() and not file.asked()
        assert len(told) == 1 and reason in told[0], told


class watched(CancelFile):
    """A look-out that gives its descriptors back; a deadline's own lasts as long as its process."""

    def __init__(self, path: Path, told: list[str]) -> None:
        super().__init__(str(path), told.append)

    def __enter__(self) -> watched:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.descriptor, self._directory):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.mark.requires_ability("root")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    told: list[str] = []
    with watched(tmp_path / "cancel", told) as file:
        private(tmp_path / "cancel", members(right()))
        os.chown(tmp_path / "cancel", 12345, 12345)
        assert not file.asked()
    assert told == ["it belongs to another user"]


@pytest.mark.parametrize("has_inotify", [True, False])
def test_the_right_file_is_taken_also_after_a_wrong_one(
    has_inotify: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> int:
        raise OSError(errno.ENOSYS, "no inotify")

    if not has_inotify:
        monkeypatch.setattr(kernel_inotify, "open_instance", missing)
    told: list[str] = []
    with watched(tmp_path / "cancel", told) as file:
        assert (file.descriptor >= 0) == has_inotify
        assert not file.asked()
        private(tmp_path / "cancel", b"{")
        assert not file.asked()
        write_cancel_file(tmp_path / "cancel", identify(os.getpid()))
        assert file.asked() and file.asked()
    assert len(told) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cancel"]


def test_a_flood_of_wrong_files_is_said_a_bounded_number_of_times(tmp_path: Path) -> None:
    told: list[str] = []
    with watched(tmp_path / "cancel", told) as file:
        for number in range(50):
            private(tmp_path / "cancel", b"{" * number)
            assert not file.asked()
    assert 1 < len(told) <= 8


def test_a_path_that_names_no_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for path in ("", ".", str(tmp_path) + "/", f"{tmp_path}/.."):
        with pytest.raises(InvalidRequest):
            CancelFile(path, print)
        with pytest.raises(InvalidRequest):
            write_cancel_file(path, identify(os.getpid()))
    finished = deadline("--cancel-file", f"{tmp_path}/no/such/file", "20", "5", "--", "touch", f"{tmp_path}/started")
    assert (finished.returncode, list(tmp_path.iterdir())) == (2, [])


def test_the_file_stops_the_tree_from_outside_at_once(tmp_path: Path) -> None:
    seconds, path = unique_sleep(), tmp_path / "cancel"
    private(path, members({"type": "cancel", "process": identify(os.getpid()).to_members()}))  # left over from another run
    program = [sys.executable, "-c", _NEVER_LOOKS_BY_ITSELF, "deadline", "--cancel-file", str(path)]
    argv = [*program, *shell(f"sleep {seconds} & echo ready; wait", "600")]
    with subprocess.Popen(argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        write_cancel_file(path, identify(process.pid))
        _, told = process.communicate(timeout=30)
    assert process.returncode == 143
    assert told.splitlines()[-1].startswith(b"fable-exec: stopped by the cancel file ")
    assert not is_running(seconds)


# Unless the kernel has no inotify instance left for this user, whose other tests have theirs.
_NEVER_LOOKS_BY_ITSELF = """
import sys
from fable_exec.deadline import cancelling
def watched(directory, watch=cancelling._watched):
    descriptor = watch(directory)
    if descriptor >= 0:
        cancelling.CancelFile.period_seconds = 600.0
    return descriptor
cancelling._watched = watched
from fable_exec.__main__ import main
sys.exit(main())
"""


def test_the_file_is_waited_for_and_not_looked_for_again_and_again(tmp_path: Path) -> None:
    """How often the kernel put it to sleep says how often it woke up."""
    with started("--cancel-file", str(tmp_path / "cancel"), *shell("echo ready; sleep 60")) as process:
        before = _sleeps(process.pid)
        time.sleep(1.0)  # it looks once a second
        assert _sleeps(process.pid) - before <= 10
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert until(lambda: process.poll() is not None)


def _sleeps(pid: int) -> int:
    words = [each.joinpath("status").read_text().split() for each in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(each[each.index("voluntary_ctxt_switches:") + 1]) for each in words)
