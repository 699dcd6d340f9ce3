"""`fable-exec supervise logs`, `wait` and `start --foreground`: what follows a job to its end."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.supervising import ended, shown, start, status_here, supervise
from tests.cli.typed import is_running, started, the_object
from tests.hosts import unique_sleep

pytestmark = pytest.mark.requires_ability("confinement")


def test_logs_are_the_bytes_as_they_came(root: Path, workspace: Path) -> None:
    script = r"printf 'a\0b\377\033[31m'; printf 'no newline' >&2"
    execution_id = start(root, workspace, script)["execution_id"]
    ended(root, execution_id)
    finished = supervise("logs", root, execution_id)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"a\0b\xff\x1b[31mno newline", b"")


def followed(root: Path, execution_id: str) -> subprocess.Popen[bytes]:
    return started("supervise", "logs", "-f", "--root", str(root), execution_id)


def test_a_follower_gets_what_comes_and_ends_with_the_job(root: Path, workspace: Path) -> None:
    script = "echo first; until [ -e go ]; do sleep 0.01; done; echo last"
    execution_id = start(root, workspace, script)["execution_id"]
    with followed(root, execution_id) as following:
        assert following.stdout is not None and following.stdout.readline() == b"first\n"
        (workspace / "go").touch()
        rest, complaints = following.communicate(timeout=20)
    assert (following.returncode, rest, complaints) == (0, b"last\n", b"")


def test_a_follower_that_nobody_reads_ends_while_the_job_is_silent(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "echo first; sleep 30")["execution_id"]
    with followed(root, execution_id) as following:
        assert following.stdout is not None and following.stdout.readline() == b"first\n"
        following.stdout.close()
        assert following.wait(timeout=30) == 141
        assert following.stderr is not None and following.stderr.read() == b""
    assert shown(root, execution_id)["health"] == "running"


def test_a_follower_that_is_interrupted_ends_and_the_job_goes_on(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "echo first; sleep 30")["execution_id"]
    with followed(root, execution_id) as following:
        assert following.stdout is not None and following.stdout.readline() == b"first\n"
        following.send_signal(signal.SIGINT)
        _, complaints = following.communicate(timeout=20)
    assert (following.returncode, complaints.strip()) == (130, b"")
    assert shown(root, execution_id)["health"] == "running"


@pytest.mark.parametrize(("script", "status"), [("true", 0), ("exit 4", 4), ("kill -9 $$", 137), (None, 127)])
def test_wait_exits_as_the_job_did(script: str | None, status: int, root: Path, workspace: Path) -> None:
    argv = ["no-such-program"] if script is None else ["sh", "-c", script]
    begun = the_object(supervise("start", root, "--workspace", str(workspace), "--json", "--", *argv))
    waited = supervise("wait", root, begun["execution_id"], "--json")
    assert (waited.returncode, the_object(waited)["state"], waited.stderr) == (status, "exited", b"")


def test_people_who_wait_are_told_how_it_ended(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "exit 3")["execution_id"]
    ended(root, execution_id)
    waited = supervise("wait", root, execution_id, "--timeout", "0")
    assert (waited.returncode, waited.stdout) == (3, b"")
    assert f"{execution_id} has ended, crashed: 3 after " in waited.stderr.decode()


def test_a_wait_that_ran_out_exits_124_and_the_job_goes_on(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "sleep 30")["execution_id"]
    waited = supervise("wait", root, execution_id, "--timeout", "0.1")
    assert (waited.returncode, waited.stderr.decode()) == (124, f"fable-exec: {execution_id} has not ended\n")
    waited = supervise("wait", root, execution_id, "--timeout", "0", "--json")
    assert (waited.returncode, the_object(waited)["health"]) == (124, "running")
    for number in ("-1", "nan", "inf"):
        assert status_here("wait", root, execution_id, "--timeout", number) == 2


# In the foreground


@pytest.mark.parametrize(
    ("argv", "status", "output"),
    [(["sh", "-c", "echo out; exit 7"], 7, b"out\n"), (["sh", "-c", "kill -15 $$"], 143, b""), (["no-such-program"], 127, b"")],
    ids=["exit", "signal", "missing"],
)
def test_in_the_foreground_output_and_status_are_the_jobs(
    argv: list[str], status: int, output: bytes, root: Path, workspace: Path
) -> None:
    flags = ["--foreground", "--workspace", str(workspace)]
    finished = supervise("start", root, *flags, "--", *argv)
    first, last = finished.stderr.decode().splitlines()
    execution_id = first.removeprefix("fable-exec: execution ")
    assert (finished.returncode, finished.stdout) == (status, output)
    assert last.startswith(f"fable-exec: {execution_id} has ended, ")
    as_json = supervise("start", root, *flags, "--id", execution_id, "--json", "--", *argv)
    assert (as_json.returncode, the_object(as_json)["execution_id"]) == (status, execution_id)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--id", "seven", "--", "true"], 2), (["--hard-timeout", "-1", "--", "true"], 2), (["--", "sleep", "1"], 3)],
    ids=["usage", "number", "conflict"],
)
def test_what_is_refused_in_the_foreground_has_the_same_status(
    arguments: list[str], status: int, root: Path, workspace: Path
) -> None:
    start(root, workspace, "sleep 30")
    finished = supervise("start", root, "--foreground", "--workspace", str(workspace), *arguments)
    assert finished.returncode == status


def in_the_foreground(root: Path, workspace: Path, seconds: str) -> tuple[subprocess.Popen[bytes], str]:
    """A job that runs, and its id."""
    flags = ["--root", str(root), "--workspace", str(workspace), "--foreground"]
    process = started("supervise", "start", *flags, "--", "sh", "-c", f"echo ready; sleep {seconds}")
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    assert process.stderr is not None
    return process, process.stderr.readline().decode().strip().removeprefix("fable-exec: execution ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_in_the_foreground_stops_the_job(number: signal.Signals, root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    process, execution_id = in_the_foreground(root, workspace, seconds)
    with process:
        process.send_signal(number)
        assert process.wait(timeout=20) == 143
    assert not is_running(seconds)
    assert shown(root, execution_id)["termination_reason"] == "stopped"


def test_a_foreground_that_is_killed_ends_no_job(root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    process, execution_id = in_the_foreground(root, workspace, seconds)
    with process:
        process.kill()
    assert (shown(root, execution_id)["health"], is_running(seconds)) == ("running", True)
