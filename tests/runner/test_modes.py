"""Which launch mode is taken where, what a mode that cannot be had says, and what a slot keeps from its commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fable_exec.runner import Runner
from tests import boxes, hosts
from tests.commands import new_runner, python, shell

RunInBox = Callable[..., boxes.Finished]

_WITHOUT_USER_NAMESPACES = """
import os, sys
for name in os.listdir("/proc/sys/user"):
    if name in ("max_user_namespaces", "max_pid_namespaces"):
        with open("/proc/sys/user/" + name, "w") as file:
            file.write("0")
os.execvp(sys.argv[1], sys.argv[1:])
"""


def without_user_namespaces(program: str, workspace: Path) -> list[object]:
    """Run `program` where nobody may make a user or PID namespace: in a user namespace whose limits are 0."""
    text = hosts.program_text(program)
    box = ["unshare", "--user", "--map-current-user", "--keep-caps", sys.executable, "-c", _WITHOUT_USER_NAMESPACES]
    drop = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all", "--bounding-set=-all"]
    environment = {**os.environ, "PYTHONPATH": str(hosts.PROJECT), "ANSWER": "1"}
    done = boxes.run_in_pid_box([*box, *drop, sys.executable, "-c", text, str(workspace)], 60, 600, workspace, env=environment)
    assert done.returncode == 0, done.stderr
    found: list[object] = json.loads(done.stdout)
    return found


@pytest.mark.requires_ability("userns", "pid_namespace", "own_pid_max", "own_proc", "pidfd")
def test_without_user_namespaces_auto_is_plain_and_says_why(workspace: Path) -> None:
    mode, code, state, reason = without_user_namespaces(
        """
        runner = new_runner(Path(sys.argv[1]), "auto")
        outcome = runner.run(shell("exit 5"))
        whole = next(each for each in runner.plan.applied if each.protection == "whole_tree_end")
        answer([runner.plan.mode, outcome.exit_code, whole.state, whole.reason])
        runner.close()
        """,
        workspace,
    )
    assert (mode, code) == ("plain", 5)
    assert state in ("degraded", "unavailable") and reason


@pytest.mark.requires_ability("userns", "pid_namespace", "own_pid_max", "own_proc", "pidfd")
def test_a_mode_that_is_named_and_cannot_be_had_is_refused(workspace: Path) -> None:
    found = without_user_namespaces(
        """
        found = []
        for mode in ("slots", "namespace"):
            runner = new_runner(Path(sys.argv[1]), mode)
            try:
                runner.run(shell("exit 5"))
                found.append("ran")
            except ConfinementUnavailable as refusal:
                found.append([refusal.protection, refusal.reason != "", mode in str(refusal)])
            runner.close()
        answer(found)
        """,
        workspace,
    )
    assert found == [["whole_tree_end", True, True]] * 2


@pytest.mark.requires_ability("pid_namespace", "own_proc")
def test_auto_is_slots_where_all_is_there(workspace: Path) -> None:
    runner = new_runner(workspace, "auto")
    try:
        assert runner.plan.mode == "slots"
    finally:
        runner.close()


def test_the_plan_can_be_read(runner: Runner, mode: str) -> None:
    text = runner.plan.explain().splitlines()
    assert text[0] == f"launch mode: {mode}"
    assert any(line.startswith("launcher: no_new_privileges") for line in text)
    assert len(runner.plan.digest) == 64


def test_a_slot_shows_its_own_processes_and_no_others(runner: Runner, mode: str) -> None:
    if mode != "slots":
        pytest.skip("only a slot has a /proc of its own for each command")
    with runner.start(shell("sleep 20")):
        outcome = runner.run(shell("cd /proc; echo [0-9]*; echo $PPID; exec cat 1/comm"))
    numbers, parent, first = outcome.stdout.text().splitlines()
    assert numbers.split()[0] == "1" and len(numbers.split()) == 2
    assert (parent, first.startswith("python")) == ("0", True)


def test_a_command_cannot_trace_or_write_into_its_init(runner: Runner, mode: str) -> None:
    if mode != "slots":
        pytest.skip("only a slot has an init beside the command")
    program = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(0x4206, 1, 0, 0), ctypes.get_errno())
for name in ("mem", "environ"):
    try:
        os.open("/proc/1/" + name, os.O_RDWR if name == "mem" else os.O_RDONLY)
        print("opened")
    except OSError as error:
        print(error.errno)
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
    os.kill(1, number)
"""
    outcome = runner.run(python(program))
    assert outcome.stdout.raw == b"-1 1\n13\n13\n", outcome.stderr.raw
    assert runner.run(shell("exit 3")).exit_code == 3


def test_slots_are_used_again_and_numbers_start_low(runner: Runner, mode: str) -> None:
    if mode != "slots":
        pytest.skip("only slots are used again")
    numbers = [int(runner.run(shell("echo $$")).stdout.raw) for _ in range(10)]
    assert numbers == sorted(set(numbers)) or max(numbers) < 60
