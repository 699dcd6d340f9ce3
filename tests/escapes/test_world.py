"""The world that attempts are made in: what it holds, and that nothing done in it reaches the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.escapes import world
from benchmarks.escapes.__main__ import performed
from benchmarks.escapes.world import World, run_inside

pytestmark = pytest.mark.requires_ability("userns", "own_proc")

USERS = ("root", "user")


def told_by(program: str, user: str = "root", **more: Any) -> str:
    """What a Python program prints in a world."""
    done = run_inside(World(user=user, **more), ["-c", program], seconds=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_attempts_are_made_nowhere_else() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.escapes.worker", "control"], cwd=world.PROJECT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "in a world of their own only" in done.stderr
    assert not world.is_inside()


def test_no_control_runs_as_root_of_the_machine() -> None:
    with pytest.raises(ValueError, match="no control"):
        performed(World(user="machine root"), "control")


def test_only_its_own_root_is_there() -> None:
    names = told_by("import os; print(*sorted(os.listdir('/')))").split()
    assert set(names) <= {
        *("bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "library", "peers", "proc", "project"),
        *("root", "run", "sbin", "sys", "tmp", "usr", "var", ".world", Path(sys.base_prefix).parts[1]),
    }


@pytest.mark.parametrize("user", USERS)
def test_its_ids_and_processes_are_its_own(user: str) -> None:
    text = told_by(
        "import os; print(open('/proc/self/uid_map').read().split()[1], *[p for p in os.listdir('/proc') if p.isdigit()])", user
    )
    first, *processes = text.split()
    # An ordinary user has one id, which the namespace above calls 0.
    assert int(first) == (world._FIRST_ID if os.geteuid() == 0 else 0)
    assert set(processes) == {"1", "2"}


@pytest.mark.parametrize("user", USERS)
def test_what_is_shown_of_the_machine_cannot_be_written_and_not_be_made_writable(user: str) -> None:
    program = (
        "import os, subprocess\n"
        "for p in ('/usr', '/project', '/library', '/sys'):\n"
        "    subprocess.run(['mount', '-o', 'remount,rw,bind', p], capture_output=True)\n"
        "    subprocess.run(['umount', '-l', p], capture_output=True)\n"
        "    try: open(p + '/planted-by-a-world', 'w'); print('wrote', p)\n"
        "    except OSError as error: print(error.errno)\n"
    )
    assert set(told_by(program, user).split()) <= {"1", "13", "30"}
    for place in ("/usr", str(world.PROJECT), "/sys"):
        assert not os.path.exists(f"{place}/planted-by-a-world")


def test_a_bind_of_a_system_directory_and_its_removal_stay_inside() -> None:
    """What once emptied a machine."""
    before = sorted(os.listdir("/etc")), sorted(os.listdir("/usr"))
    program = (
        "import os, shutil, subprocess\n"
        "for p in ('/etc', '/usr', '/tmp'):\n"
        "    os.mkdir('/var/tmp/m'); print(subprocess.run(['mount', '--bind', p, '/var/tmp/m']).returncode)\n"
        "    shutil.rmtree('/var/tmp/m', ignore_errors=True); subprocess.run(['umount', '/var/tmp/m']); os.rmdir('/var/tmp/m')\n"
        "print(len(os.listdir('/etc')))\n"
    )
    assert told_by(program).split() == ["0", "0", "0", "0"]
    assert (sorted(os.listdir("/etc")), sorted(os.listdir("/usr"))) == before


def test_the_network_is_a_loopback_of_its_own() -> None:
    program = (
        "import socket; print(*[name for _, name in socket.if_nameindex()])\n"
        "s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('heard')"
    )
    names = told_by(program).split()
    assert "lo" in names and names[-1] == "heard"
    assert not {"eth0", "ens3", "enp0s1"} & set(names)


def test_user_namespaces_can_be_taken_away() -> None:
    program = "import subprocess; print(subprocess.run(['unshare', '-U', 'true'], capture_output=True).returncode)"
    assert told_by(program, "user").strip() == "0"
    assert told_by(program, "user", user_namespaces=False).strip() != "0"


def test_nothing_of_it_is_left(tmp_path: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    told_by("import subprocess; subprocess.Popen(['sleep', '77.5'], start_new_session=True)")
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert not any(b"77.5" in _command_line(pid) for pid in os.listdir("/proc") if pid.isdigit())


def test_one_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_inside(World(user="root"), ["-c", "import subprocess; subprocess.run(['sleep', '78.5'])"], seconds=2)
    for _ in range(200):
        if not any(b"78.5" in _command_line(pid) for pid in os.listdir("/proc") if pid.isdigit()):
            return
        subprocess.run(["sleep", "0.01"])
    raise AssertionError("a process of the world is left")


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
