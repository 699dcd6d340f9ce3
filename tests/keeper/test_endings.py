"""How a job ended, exactly: each status, each signal, each failure to start, each limit."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec.errors import InvalidRequest
from fable_exec.lifecycle import Health
from fable_exec.policy import Limits
from fable_exec.supervisor import ExecutionSpec, Supervisor
from fable_exec.supervisor.zygote import KeeperZygote
from tests.commands import ENVIRONMENT
from tests.keeper.scenes import (
    NEEDS,
    PROOFS,
    WITHOUT_GROUPS,
    Scene,
    descendants,
    ending,
    events,
    log,
    make_executable,
    supervising,
)

NOBODY_ELSE = {
    "checked": True, "detected": False, "quiescent": True, "term_sent": False, "kill_sent": False, "found": 0, "remaining": 0
}  # fmt: skip

STATUSES = {0: "completed", 1: "crashed", 3: "crashed", 20: "verification_failed", 125: "crashed", 127: "crashed", 255: "crashed"}
SIGNALS = ("HUP", "INT", "QUIT", "ILL", "ABRT", "BUS", "FPE", "KILL", "SEGV", "PIPE", "ALRM", "TERM", "USR1", "XCPU", "XFSZ")


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_is_told_as_it_is(scene: Scene, status: int) -> None:
    """127 and 125 too: they are the job's own, no failure to start."""
    execution = scene.run("sh", "-c", f"exit {status}")
    assert ending(execution) == (STATUSES[status], status, None)
    document = execution.document
    assert (document["containment"], document["quiescence_proof"]) == (scene.rung, PROOFS[scene.rung])
    assert (document["launch_error"], document["deadline"], document["kill_sent"]) == (None, None, False)
    assert descendants(execution) == NOBODY_ELSE
    assert execution.health is Health.EXITED


@pytest.mark.parametrize("name", [*SIGNALS, "RTMIN+3"])
def test_a_signal_is_told_as_it_is(scene: Scene, name: str) -> None:
    number = signal.SIGRTMIN + 3 if name == "RTMIN+3" else signal.Signals[f"SIG{name}"]
    execution = scene.run("sh", "-c", f"kill -{number} $$; sleep 30")
    assert ending(execution) == ("crashed", None, number)
    assert (execution.document["kill_sent"], execution.document["stop_signal_sent_at"]) == (False, None)


def test_fifty_jobs_that_end_at_once_are_never_taken_for_failures_to_start(scene: Scene) -> None:
    found = [scene.run("sh", "-c", f"exit {number}") for number in range(50)]
    assert [each.exit_code for each in found] == list(range(50))
    assert {each.document["launch_error"] for each in found} == {None}


_A_DEAF_INIT = """
from fable_exec._launcher import job_init
from fable_exec.keeper import reconciling
reconciling._ANSWER_SECONDS = 0.1
job_init._Init._keeper_spoke = lambda init: job_init.wire.receive(init._ends.channel)
"""


@pytest.mark.requires_ability(*NEEDS["pidns"])
def test_where_nobody_tells_who_was_left_that_is_the_reason(tmp_path: Path, workspace: Path) -> None:
    with supervising(tmp_path, WITHOUT_GROUPS + _A_DEAF_INIT) as supervisor:
        execution = Scene(supervisor=supervisor, workspace=workspace, rung="pidns").shell("sleep 60 & exit 0")
        execution = supervisor.wait(execution.execution_id, 20)
    assert ending(execution) == ("descendant_check_failed", 0, None)
    told = execution.document["descendants"]
    assert (told["checked"], told["detected"], told["quiescent"], told["remaining_pids"]) == (False, False, False, [])
    assert told["error"] == "the init did not tell within 0.1 s who was left"
    assert execution.document["quiescence_proof"] == "pidns_dead", "it was ended all the same"


# --- jobs that never ran ---


def _absent(directory: Path) -> Path:
    return directory / "absent"


def _not_executable(directory: Path) -> Path:
    path = directory / "plain"
    path.write_bytes(b"#!/bin/sh\n")
    return path


def _directory(directory: Path) -> Path:
    (directory / "directory").mkdir()
    return directory / "directory"


def _without_interpreter(directory: Path) -> Path:
    return make_executable(directory / "script", b"#!/absent/interpreter\n")


def _without_first_line(directory: Path) -> Path:
    return make_executable(directory / "script", b"echo no interpreter is named\n")


def _windows_line_ends(directory: Path) -> Path:
    return make_executable(directory / "script", b"#!/bin/sh\r\necho\r\n")


def _no_program(directory: Path) -> Path:
    return make_executable(directory / "garbage", b"\x7fELF and no more")


def _interpreter_that_cannot_be_executed(directory: Path) -> Path:
    _not_executable(directory)
    return make_executable(directory / "script", f"#!{directory}/plain\n".encode())


NOT_STARTED: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "missing": (_absent, "executable: ENOENT", "/absent"),
    "not executable": (_not_executable, "executable: EACCES", "/plain"),
    "a directory": (_directory, "executable: EACCES", "/directory"),
    "an interpreter that is missing": (
        _without_interpreter, "exec: ENOENT", "/script: its #! line names the interpreter '/absent/interpreter'",
    ),
    "an interpreter that is not executable": (_interpreter_that_cannot_be_executed, "exec: EACCES", "which is no program"),
    "line ends as on Windows": (_windows_line_ends, "exec: ENOENT", "/script: its first line ends as on Windows"),
    "a script that names none": (_without_first_line, "exec: ENOEXEC", "/script: it is no program, and no script either"),
    "no program of this machine": (_no_program, "exec: ENOEXEC", "/garbage"),
}  # fmt: skip


def assert_never_ran(execution: Any, error: str) -> None:
    assert ending(execution) == ("launch_failed", None, None)
    assert execution.document["launch_error"].startswith(error), execution.document["launch_error"]
    assert execution.document["finished_at"] is not None
    assert not execution.runner_log.exists() or log(execution) == b""


@pytest.mark.parametrize("name", NOT_STARTED)
def test_what_cannot_be_executed_is_told_by_stage_and_errno(scene: Scene, name: str) -> None:
    make, error, lacks = NOT_STARTED[name]
    program = str(make(scene.workspace))
    execution = scene.run(program, more_programs=("sh",))
    assert_never_ran(execution, error)
    assert lacks in execution.document["launch_error"] and "/proc/self/fd" not in execution.document["launch_error"]


def test_a_program_that_is_being_written_is_told_as_busy(scene: Scene) -> None:
    program = make_executable(scene.workspace / "program", Path("/bin/true").read_bytes())
    with program.open("r+b"):
        assert_never_ran(scene.run(str(program)), "exec: ETXTBSY")
    assert ending(scene.run(str(program))) == ("completed", 0, None)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """`between(act)`: do it after the host has decided, before the keeper hears of it."""

    def arrange(act: Callable[[], object]) -> None:
        ask = KeeperZygote.ask

        def later(self: KeeperZygote, request: Any) -> Any:
            act()
            return ask(self, request)

        monkeypatch.setattr(KeeperZygote, "ask", later)

    return arrange


@pytest.mark.parametrize("confined", [False, pytest.param(True, marks=pytest.mark.requires_ability("confinement"))])
def test_a_workspace_that_was_exchanged_since_is_not_entered(
    scene: Scene, between: Callable[[Callable[[], object]], None], confined: bool
) -> None:
    def exchange() -> None:
        scene.workspace.rename(scene.workspace.with_name("away"))
        scene.workspace.mkdir(mode=0o700)

    if confined and scene.rung == "subreaper":
        pytest.skip("a plain launch cannot be strict")
    between(exchange)
    execution = scene.run("sh", "-c", "echo here >made", confined=confined)
    assert ending(execution) == ("launch_failed", None, None)
    assert re.match(r"(workspace|anchor|bind): ESTALE", execution.document["launch_error"])
    assert list(scene.workspace.iterdir()) == list(scene.workspace.with_name("away").iterdir()) == []


@pytest.mark.parametrize("act", [Path.rmdir, lambda path: (path.rmdir(), path.touch())], ids=["removed", "a file now"])
def test_a_workspace_that_is_gone_since_is_told(scene: Scene, between: Any, act: Callable[[Path], object]) -> None:
    between(lambda: act(scene.workspace))
    execution = scene.run("sh", "-c", "exit 0")
    assert ending(execution) == ("launch_failed", None, None)
    assert re.match(r"(workspace|pins): (ENOENT|ENOTDIR)", execution.document["launch_error"])


def test_a_program_that_was_exchanged_since_is_not_executed(scene: Scene, between: Any) -> None:
    program = make_executable(scene.workspace / "program", b"#!/bin/sh\necho right\n")
    other = make_executable(scene.workspace / "other", b"#!/bin/sh\necho wrong\n")
    between(lambda: other.rename(program))
    assert_never_ran(scene.run(str(program)), "executable: ESTALE")


@pytest.mark.requires_ability("linux")
def test_without_a_workspace_nothing_is_accepted(supervisor: Supervisor, tmp_path: Path) -> None:
    before = supervisor.list()
    with pytest.raises(InvalidRequest, match="cannot be used: No such file"):
        supervisor.start(ExecutionSpec(argv=("sh",), workspace=tmp_path / "absent"))
    assert supervisor.list() == before


# --- output ---


def test_both_streams_lie_in_the_log_in_the_order_of_writing(scene: Scene) -> None:
    execution = scene.run("bash", "-c", "for n in {1..200}; do echo out $n; echo err $n >&2; done")
    assert log(execution) == b"".join(b"out %d\nerr %d\n" % (n, n) for n in range(1, 201))


def test_ten_megabytes_arrive_whole(scene: Scene) -> None:
    execution = scene.run("python3", "-I", "-S", "-c", "import os\nfor n in range(160): os.write(1, bytes([n]) * 65536)")
    assert log(execution) == b"".join(bytes([n]) * 65536 for n in range(160))
    assert (execution.document["output_bytes"], execution.document["output_dropped_bytes"]) == (160 * 65536, 0)
    assert ending(execution) == ("completed", 0, None)


@pytest.mark.parametrize("kept", [0, 1, 65536, 1_000_000, 1_000_001])
def test_more_than_the_log_may_hold_is_counted_and_dropped(scene: Scene, kept: int) -> None:
    execution = scene.run("bash", "-c", "head -c 1000000 /dev/zero; exit 3", log_bytes=kept)
    assert log(execution) == bytes(min(kept, 1_000_000))
    assert execution.document["output_bytes"] == 1_000_000
    assert execution.document["output_dropped_bytes"] == max(0, 1_000_000 - kept)
    assert ending(execution) == ("crashed", 3, None)


@pytest.mark.parametrize("after", ["sleep 30", "exit 0", "exit 3"])
@pytest.mark.parametrize("written", [1001, 60_000, 300_000])
def test_more_output_than_is_allowed_is_what_ended_it(scene: Scene, after: str, written: int) -> None:
    """However fast it was: what it wrote is known before it is judged."""
    execution = scene.run("bash", "-c", f"head -c {written} /dev/zero; {after}", max_output_bytes=1000)
    assert execution.document["termination_reason"] == "output_limited"
    assert execution.document["output_bytes"] > 1000


def test_as_much_output_as_is_allowed_is_no_reason(scene: Scene) -> None:
    execution = scene.run("head", "-c", "1000", "/dev/zero", max_output_bytes=1000)
    assert ending(execution) == ("completed", 0, None)


# --- memory; other limits are in test_limits.py ---


def test_memory_over_the_policys_limit_is_what_ended_it(scene: Scene) -> None:
    hog = "kept = []\nwhile True: kept.append(b'x' * 4194304)"
    execution = scene.ended(scene.python(hog, limits=Limits(memory_bytes=96 * 1024 * 1024)))
    assert execution.document["termination_reason"] == "memory_limited"
    assert execution.document["exit_code"] is None
    assert execution.document["quiescence_proof"] == PROOFS[scene.rung]


# --- deadlines ---


@pytest.mark.parametrize(
    ("program", "limits", "deadline"),
    [
        ("echo go; sleep 30", {"hard_timeout_seconds": 0.3}, "hard"),
        ("echo go; sleep 30", {"idle_timeout_seconds": 0.3}, "idle"),
        ("while echo go; do sleep 0.05; done", {"hard_timeout_seconds": 2.0, "idle_timeout_seconds": 1.5}, "hard"),
        ("while echo go >&2; do sleep 0.05; done", {"hard_timeout_seconds": 2.0, "idle_timeout_seconds": 1.5}, "hard"),
        ("sleep 60", {"hard_timeout_seconds": 30.0, "idle_timeout_seconds": 0.2}, "idle"),
    ],
)
def test_a_deadline_that_passed_is_named(scene: Scene, program: str, limits: dict[str, float], deadline: str) -> None:
    execution = scene.run("bash", "-c", program, **limits)
    assert ending(execution) == ("timed_out", None, signal.SIGTERM)
    assert (execution.document["deadline"], execution.document["kill_sent"]) == (deadline, False)
    assert execution.document["stop_requested_at"] is None


def test_what_ignores_the_end_of_its_time_is_killed_after_the_grace(scene: Scene) -> None:
    execution = scene.run(
        "bash", "-c", "trap '' TERM; while :; do sleep 0.01; done", hard_timeout_seconds=1.0, stop_grace_seconds=0.3
    )
    assert ending(execution) == ("timed_out", None, signal.SIGKILL)
    assert (execution.document["deadline"], execution.document["kill_sent"]) == ("hard", True)


def test_a_status_that_a_job_chooses_after_its_deadline_is_kept(scene: Scene) -> None:
    program = (
        "import os, signal; signal.signal(15, lambda *_: (os.write(1, b'bye'), os._exit(7))); os.write(1, b'go'); signal.pause()"
    )
    execution = scene.ended(scene.python(program, hard_timeout_seconds=1.5))
    assert ending(execution) == ("timed_out", 7, None)
    assert log(execution) == b"gobye"


def test_a_job_that_ends_before_its_time_did_not_time_out(scene: Scene) -> None:
    execution = scene.run("sh", "-c", "exit 3", hard_timeout_seconds=60.0, idle_timeout_seconds=60.0)
    assert ending(execution) == ("crashed", 3, None)
    assert execution.document["deadline"] is None
    assert [each["event"] for each in events(execution)] == [
        "Accepted", "Started", "LeaderExited", "DescendantsReconciled", "Judged"
    ]  # fmt: skip


def test_an_execution_is_told_with_all_its_members(scene: Scene) -> None:
    execution = scene.run("sh", "-c", "exit 0", labels={"provider": "none"}, spec_text="do nothing")
    document = execution.document
    assert document["executable"] == os.path.realpath(shutil.which("sh", path=ENVIRONMENT["PATH"]) or "")
    times = [document[name] for name in ("accepted_at", "started_at", "exited_at", "finished_at")]
    assert times == sorted(times) and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", each) for each in times)
    assert document["runner_pid"] == document["runner_pgid"] == document["runner_sid"]
    assert document["usage"]["peak_kibibytes"] > 0 and document["usage"]["user_seconds"] >= 0
    assert document["usage"]["peak_processes"] is None, "nobody looked"
    assert oct(os.stat(execution.directory).st_mode & 0o777) == "0o700"
    modes = {each.name: oct(each.stat().st_mode & 0o777) for each in execution.directory.iterdir() if each.is_file()}
    assert set(modes.values()) == {"0o600"}
    assert {"state.json", "terminal.rec", "run.lock", ".lock", "runner.log", "supervisor.log", "spec.md"} <= modes.keys()
