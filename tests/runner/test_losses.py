"""kill -9 of every process that takes part, at any moment: an answer at once, no invented status, nothing left."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
from pathlib import Path

import pytest

from fable_exec.runner import EndedBy, Outcome, Runner
from tests import hosts
from tests.commands import ending, shell
from tests.waiting import LONG_SECONDS, until


def _zygote(runner: Runner) -> int:
    zygote = runner._launchers._own().zygote
    assert zygote is not None
    return zygote.pid


def parts(runner: Runner, marker: str) -> dict[str, list[int]]:
    """The processes around the running command whose command line holds `marker`, by their part."""
    zygote = _zygote(runner)
    tree = hosts.tree_of(zygote)
    leader = next(pid for pid, (parent, words) in tree.items() if marker in words and marker not in tree.get(parent, (0, ""))[1])
    launcher = tree[leader][0]
    found = {"zygote": [zygote], "launcher": [launcher]}
    if tree[launcher][0] != zygote:
        stager = tree[launcher][0]
        found["stager"] = [stager]
        found["inits"] = [pid for pid, (parent, _) in tree.items() if parent == stager and pid != launcher]
    return found


@pytest.mark.parametrize("victim", ["zygote", "stager", "launcher", "inits"])
def test_the_caller_is_told_at_once_and_the_next_call_works(runner: Runner, mode: str, victim: str) -> None:
    if (mode, victim) in {("plain", "stager"), ("plain", "inits"), ("namespace", "inits")}:
        pytest.skip("there is no such process in this mode")
    marker = hosts.unique_sleep()
    with runner.start(shell(f"(setsid sleep {marker} &); echo go; sleep {marker}", timeout_seconds=60)) as running:
        running.next_event(LONG_SECONDS)
        until(lambda: len(hosts.alive_with(marker)) >= 2)
        victims = parts(runner, marker)[victim]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):  # the end of the one before may have taken it along
                os.kill(pid, signal.SIGKILL)
        outcome = running.wait(LONG_SECONDS)
        assert outcome is not None
    assert (outcome.ended_by, outcome.exit_code, outcome.stdout.raw) == (EndedBy.BROKER_LOST, None, b"go\n")
    assert any("not proved" in each.reason for each in outcome.applied)
    until(lambda: not hosts.alive_with(marker))
    until(lambda: ending(runner.run(shell("exit 4"))) == ("exited", 4, None))


def test_a_lost_launcher_takes_only_its_own_commands_along(runner: Runner, mode: str) -> None:
    marker = hosts.unique_sleep()
    if mode != "plain":
        pytest.skip("all commands of a plan share one launcher there")
    with runner.start(shell(f"echo go; sleep {marker}")) as first, runner.start(shell("sleep 1; exit 8")) as second:
        first.next_event(LONG_SECONDS)
        until(lambda: bool(hosts.alive_with(marker)))
        for pid in parts(runner, marker)["launcher"]:
            os.kill(pid, signal.SIGKILL)
        lost, kept = first.wait(), second.wait()
    assert isinstance(lost, Outcome) and isinstance(kept, Outcome)
    assert (lost.ended_by, ending(kept)) == (EndedBy.BROKER_LOST, ("exited", 8, None))
    until(lambda: not hosts.alive_with(marker))


def test_a_plain_command_that_stops_or_kills_its_own_launcher_gains_nothing(runner: Runner, mode: str) -> None:
    if mode != "plain":
        pytest.skip("the launcher is in another PID namespace there")
    for number in ("STOP", "KILL"):
        marker = hosts.unique_sleep()
        outcome = runner.run(shell(f"(setsid sleep {marker} &); kill -{number} $PPID; exec sleep {marker}", timeout_seconds=30))
        assert outcome.ended_by is EndedBy.BROKER_LOST
        until(lambda marker=marker: not hosts.alive_with(marker))
        until(lambda: ending(runner.run(shell("exit 4"))) == ("exited", 4, None))


def test_an_idle_slot_that_was_killed_is_not_used(runner: Runner, mode: str) -> None:
    if mode != "slots":
        pytest.skip("only slots are kept")
    runner.run(shell("true"))
    tree = hosts.tree_of(_zygote(runner))
    inits = [
        pid for pid, (parent, _) in tree.items() if tree.get(parent, (0, ""))[0] == _zygote(runner) and not hosts.tree_of(pid)
    ]
    for pid in inits:
        with contextlib.suppress(ProcessLookupError):  # the launcher is among them, and takes the rest along
            os.kill(pid, signal.SIGKILL)
    until(lambda: ending(runner.run(shell("exit 4"))) == ("exited", 4, None))


_HOST = """
runner = new_runner(Path(sys.argv[1]), sys.argv[2])
marker = sys.argv[3]
runner.run(shell("true"))
answer([runner._launchers._own().zygote.private, runner._launchers._own().zygote.pid])
def work(script):
    while True:
        runner.run(shell(script.replace("MARK", marker), timeout_seconds=0.5))
scripts = ["sleep MARK", "(setsid sleep MARK &); sleep MARK", "trap '' TERM; sleep MARK & wait", "true",
           "yes MARK | head -c 900000", "echo > $TMPDIR/$RANDOM; sleep 0.0MARK"]
for script in scripts:
    threading.Thread(target=work, args=(script,), daemon=True).start()
if len(sys.argv) > 4:
    if os.fork() == 0:  # a copy of the host that keeps all of its sockets, until the test is over
        os.read(0, 1)
        os._exit(0)
time.sleep(60)
"""


def kill_a_host(workspace: Path, mode: str, delay: float, *more: str) -> None:
    marker = hosts.unique_sleep()
    process, reading = hosts.start(_HOST, str(workspace), mode, marker, *more, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        private, zygote = json.loads(os.read(reading, 4096))
        select.select([], [], [], delay)
        below = hosts.tree_of(zygote)
        process.kill()
        process.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in [zygote, *below]))
        until(lambda: not hosts.alive_with(f"sleep\0{marker}"))
        assert not Path(private).exists()
    finally:
        process.kill()
        process.communicate()
        os.close(reading)


@pytest.mark.parametrize("delay", [0.0, 0.11, 0.52])
def test_nothing_outlives_a_host_that_is_killed(workspace: Path, mode: str, delay: float) -> None:
    kill_a_host(workspace, mode, delay)


def test_nothing_outlives_a_killed_host_although_its_forked_copy_keeps_the_sockets(workspace: Path, mode: str) -> None:
    kill_a_host(workspace, mode, 0.2, "fork")


@pytest.mark.deep
def test_nothing_outlives_a_host_that_is_killed_at_fifty_moments(workspace: Path, mode: str) -> None:
    for _ in range(50):
        kill_a_host(workspace, mode, random.uniform(0.0, 1.2))
