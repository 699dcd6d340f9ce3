"""`python -m fable_exec.server` as a program: how it ends, and what it says of settings that it cannot start with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bounds import BUSY_SECONDS, bounds
from tests.server.peers import PROBE, Peer, command

in_time = pytest.mark.parametrize("bound_seconds", bounds(2.5))
"""docs/reference/server.md says 2 s."""


@pytest.mark.requires_ability("confinement")
def test_the_end_of_the_input_lets_what_runs_finish_and_is_status_zero(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.send(command("ls"), command("sleep", "0.3", id=1), PROBE)
    server.end_input()
    answers = [server.answer() for _ in range(3)]
    assert sorted(answer["ok"] for answer in answers) == [False, True, True]
    assert server.line() == b""
    assert server.process.wait(30) == 0


@in_time
@pytest.mark.requires_ability("confinement")
def test_what_does_not_finish_in_time_is_ended_and_answered(peer: Callable[..., Peer], bound_seconds: float) -> None:
    server = peer()
    server.send(command("sleep", "600", id=1), command("sleep", "600"), PROBE)
    assert server.process.stdin is not None
    time.sleep(0.5)
    began = time.monotonic()
    server.end_input()
    answers = [server.answer() for _ in range(3)]
    assert server.process.wait(BUSY_SECONDS) == 0
    assert time.monotonic() - began < bound_seconds
    outcomes = sorted(answer.get("result", {}).get("outcome", answer.get("code", "")) for answer in answers)
    assert outcomes == ["broker-gone", "cancelled", "cancelled"]


@in_time
@pytest.mark.requires_ability("confinement")
def test_it_ends_when_nobody_reads_its_answers(peer: Callable[..., Peer], bound_seconds: float) -> None:
    server = peer()
    server.send(command("sleep", "600", id=1), PROBE)
    assert server.answer()["ok"]
    assert server.process.stdout is not None
    began = time.monotonic()
    server.process.stdout.close()
    assert server.process.wait(BUSY_SECONDS) == 0
    assert time.monotonic() - began < bound_seconds


def test_the_end_of_the_input_counts_though_the_admins_descriptor_is_open(peer: Callable[..., Peer]) -> None:
    read, write = os.pipe()
    try:
        server = peer("--admin-fd", str(read), pass_fds=(read,))
        assert server.ask(PROBE)["ok"]
        assert server.finish() == (0, "")
    finally:
        os.close(read)
        os.close(write)


@in_time
def test_it_ends_with_the_process_that_it_is_told_of_though_its_input_is_open(
    peer: Callable[..., Peer], bound_seconds: float
) -> None:
    host = subprocess.Popen(["sleep", "600"])
    handle = os.pidfd_open(host.pid)
    try:
        server = peer("--host-fd", str(handle), pass_fds=(handle,))
        assert server.ask(PROBE)["ok"]
        began = time.monotonic()
        host.kill()
        assert server.process.wait(BUSY_SECONDS) == 0
        assert time.monotonic() - began < bound_seconds
    finally:
        os.close(handle)
        host.kill()
        host.wait()


@pytest.mark.requires_ability("confinement")
def test_an_interrupt_ends_it_without_a_traceback(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.send(command("sleep", "600", id=1), PROBE)
    assert server.answer()["ok"]
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(30) == 130
    assert server.process.stderr is not None
    assert server.process.stderr.read() == b""


@pytest.mark.parametrize(
    "flags",
    [
        ["--workspace", "/no/such/directory"],
        ["--allow-executable", "bin/tool"],
        ["--max-output-bytes", "0"],
        ["--write-token-digest", "short"],
        ["--admin-fd", "250"],
        ["--admin-fd", "0"],
        ["--host-fd", "250"],
        ["--admin-socket", "0.0.0.0:1"],
        ["--audit-log", "relative"],
        ["--policy", "/no/such.toml"],
    ],
)
def test_a_bad_policy_is_one_line_and_status_two(peer: Callable[..., Peer], flags: list[str]) -> None:
    status, text = peer(*flags).finish()
    assert status == 2
    assert text.count("\n") == 1
    assert "Traceback" not in text


def test_an_allow_list_that_means_nothing_here_is_status_two(workspace: Path) -> None:
    argv = [sys.executable, "-m", "fable_exec.server", "--workspace", str(workspace), "--allow-executable", "no-such-program"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("invalid policy: --allow: none of no-such-program could be found in ")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "invalid policy: --workspace, or a --policy that names one: is required\n"),
        (
            ["--workspace", ".", "--allow", "true", "--admin-fd", "99"],
            "invalid setting: --admin-fd: descriptor 99 is not open\n",
        ),
        (
            ["--workspace", ".", "--allow", "true", "--admin-fd", "0"],
            "invalid setting: --admin-fd: descriptor 0 is one of the standard descriptors; give another\n",
        ),
        (["--workspace", ".", "--allow", "true", "--host-fd", "99"], "invalid setting: --host-fd: descriptor 99 is not open\n"),
        (["--workspace", ".", "--policy-fd", "99"], "invalid setting: --policy-fd: descriptor 99 is not open\n"),
        (
            ["--workspace", ".", "--policy-fd", "2"],
            "invalid setting: --policy-fd: descriptor 2 is one of the standard descriptors",
        ),
    ],
)
def test_what_is_wrong_with_a_setting_is_told_as_that(flags: list[str], told: str, workspace: Path) -> None:
    argv = [sys.executable, "-P", "-m", "fable_exec.server", *flags]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=workspace)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(told) and done.stderr.count("\n") == 1


def test_closed_standard_descriptors_are_not_given_to_files(workspace: Path) -> None:
    argv = f"exec {sys.executable} -m fable_exec.server --workspace {workspace} --allow-executable true 2>&- <&-"
    done = subprocess.run(["bash", "-c", argv], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_bad_policy_is_status_two_also_where_nobody_can_be_told(closed: str) -> None:
    argv = f"exec {sys.executable} -m fable_exec.server --workspace /no/such/place {closed}"
    done = subprocess.run(["bash", "-c", argv], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("number", range(3, 12))
def test_a_number_that_is_not_open_is_never_one_of_our_own(workspace: Path, number: int) -> None:
    """What the server opens gets the lowest numbers: as the admin's it would be read by two, and closed by two."""
    argv = [
        sys.executable,
        "-m",
        "fable_exec.server",
        "--workspace",
        str(workspace),
        "--allow",
        "true",
        "--admin-fd",
        str(number),
    ]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"invalid setting: --admin-fd: descriptor {number} is not open\n")
