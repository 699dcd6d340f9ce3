"""The box that dangerous tests run in: it holds a fork storm, ends daemons, and keeps the user who he is."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from fable_exec.testing.processes import alive_with
from tests.boxes import Finished

Box = Callable[..., Finished]

FORK_STORM = """
import os, signal
forked = 0
while True:
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        os.setsid()
        signal.pause()
    forked += 1
print(forked)
"""


@pytest.mark.alone
def test_a_fork_storm_stops_at_the_limit_and_nothing_is_left(pid_box: Box) -> None:
    marker = f"storm-{uuid.uuid4().hex}"
    finished = pid_box([sys.executable, "-c", FORK_STORM, marker], max_pids=320)
    assert finished.returncode == 0, finished.stderr
    assert 250 < int(finished.stdout) < 320
    assert alive_with(marker) == []


def test_a_program_that_never_ends_is_killed_at_the_timeout_with_its_daemons(pid_box: Box) -> None:
    marker = f"daemon-{uuid.uuid4().hex}"
    source = "import os, signal\nif os.fork() == 0:\n    os.setsid()\nos.write(1, b'up\\n')\nsignal.pause()\n"
    finished = pid_box([sys.executable, "-c", source, marker], timeout=4)
    assert finished.returncode == 128 + signal.SIGKILL or finished.returncode == -signal.SIGKILL
    assert finished.stdout == "up\nup\n"
    assert alive_with(marker) == []


def test_the_box_has_its_own_proc_and_its_program_is_not_init(pid_box: Box) -> None:
    finished = pid_box(
        """
        import os
        seen = sorted(name for name in os.listdir("/proc") if name.isdigit())
        print(os.getpid(), os.getppid(), seen == ["1", str(os.getpid())])
        """
    )
    assert finished.stdout.split()[1:] == ["1", "True"], finished


def test_the_program_keeps_the_user_and_gains_no_capability(pid_box: Box) -> None:
    finished = pid_box("import os; print(os.geteuid(), open('/proc/self/status').read().split('CapEff:')[1].split()[0])")
    uid, effective = finished.stdout.split()
    assert int(uid) == os.geteuid()
    if os.geteuid() != 0:
        assert int(effective, 16) == 0


def test_the_limit_of_the_machine_is_untouched(pid_box: Box) -> None:
    before = Path("/proc/sys/kernel/pid_max").read_text()
    finished = pid_box("print(open('/proc/sys/kernel/pid_max').read())", max_pids=333)
    assert finished.stdout.strip() == "333"
    assert Path("/proc/sys/kernel/pid_max").read_text() == before


def test_input_and_environment_reach_the_program(pid_box: Box) -> None:
    finished = pid_box("import os, sys; print(os.environ['WORD'], sys.stdin.read())", env={"WORD": "a"}, stdin="b")
    assert finished.stdout == "a b\n"


def test_a_limit_below_the_kernels_is_refused(pid_box: Box) -> None:
    with pytest.raises(ValueError, match="below the kernel's 301"):
        pid_box("pass", max_pids=300)
