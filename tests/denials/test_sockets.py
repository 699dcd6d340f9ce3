"""A socket that is refused when it is made names nobody. It is told, or counted where the program that asked did without."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fable_exec import CommandResult, Confinement
from fable_exec.outcome import EndedBy
from tests.confinement.places import confined, in_modes
from tests.denials.told import PROGRAMS, python, told

pytestmark = pytest.mark.requires_ability("linux")

TRY = """
import contextlib, os, signal, socket, sys, time
with contextlib.suppress(OSError):
    socket.socket({arguments})
{end}
"""
PROBES = {
    "whether IPv6 is there": ("socket.AF_INET6, socket.SOCK_STREAM", ("socket", "inet6", "network")),
    "whether a service is there": ("socket.AF_UNIX, socket.SOCK_STREAM", ("socket", "unix", "host_sockets")),
    "a service that takes datagrams": ("socket.AF_UNIX, socket.SOCK_DGRAM", ("socket", "unix", "host_sockets")),
}
"""What programs look at and do without."""

USES = {
    "TCP": ("socket.AF_INET, socket.SOCK_STREAM", ("socket", "inet", "network")),
    "UDP": ("socket.AF_INET, socket.SOCK_DGRAM", ("socket", "inet datagram", "network")),
    "UDP over IPv6": ("socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK", ("socket", "inet6 datagram", "network")),
    "raw packets": ("socket.AF_INET, socket.SOCK_RAW, 1", ("socket", "inet raw", "network")),
}
"""What has no other use than to reach somebody."""


def attempt(arguments: str, end: str) -> str:
    return TRY.format(arguments=arguments, end=end)


def counted(result: CommandResult) -> int:
    """How many calls nothing is told of."""
    assert told(result) == set()
    return result.denials_omitted


@pytest.mark.parametrize("name", PROBES)
@in_modes("plain")
def test_what_a_program_did_without_is_counted(mode: str, name: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        assert counted(python(broker, attempt(PROBES[name][0], "sys.exit(0)"))) == 1
        assert counted(broker.execute_command(("sh", "-c", "exit 3"))) == 0


@pytest.mark.parametrize("end", ["sys.exit(3)", "raise SystemError", "os._exit(255)", "os.kill(os.getpid(), signal.SIGTERM)"])
@pytest.mark.parametrize("name", PROBES)
@in_modes("plain")
def test_what_a_program_failed_with_is_told(mode: str, name: str, end: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, attempt(PROBES[name][0], end))
    assert not result.success
    assert (told(result), result.denials_omitted) == ({PROBES[name][1]}, 0)


@in_modes("plain")
def test_what_a_program_could_not_end_with_is_told(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, attempt("socket.AF_UNIX", "time.sleep(60)"), timeout_seconds=2.5)
    assert result.outcome is EndedBy.TIMED_OUT
    assert told(result) == {("socket", "unix", "host_sockets")}


@pytest.mark.parametrize("name", USES)
@in_modes("plain")
def test_what_has_no_other_use_is_told_however_the_program_ends(mode: str, name: str, workspace: Path) -> None:
    arguments, denial = USES[name]
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        for status in (0, 3):
            result = python(broker, attempt(arguments, f"sys.exit({status})"))
            assert (told(result), result.denials_omitted) == ({denial}, 0)


@in_modes("plain")
def test_each_process_of_a_command_speaks_for_itself(mode: str, workspace: Path) -> None:
    (workspace / "well.py").write_text(attempt("socket.AF_UNIX", "sys.exit(0)"))
    (workspace / "badly.py").write_text(attempt("socket.AF_INET6", "sys.exit(3)"))
    child = (
        "import os, runpy\n"
        "if os.fork() == 0: runpy.run_path('badly.py', run_name='__main__')\n"
        "runpy.run_path('well.py', run_name='__main__')"
    )
    (workspace / "both.py").write_text(child)
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        for text in ("python3 badly.py | cat; python3 well.py", "python3 badly.py; python3 well.py; true", "python3 both.py"):
            result = broker.execute_command(("sh", "-c", text))
            assert (result.exit_code, told(result), result.denials_omitted) == (0, {("socket", "inet6", "network")}, 1), text
        assert counted(broker.execute_command(("sh", "-c", "python3 well.py; false || sh -c 'exit 7' || true"))) == 1


@in_modes("plain")
def test_threads_speak_for_their_process(mode: str, workspace: Path) -> None:
    text = (
        "import contextlib, os, socket, threading\n"
        "def attempt():\n"
        "    with contextlib.suppress(OSError): socket.socket(socket.AF_UNIX)\n"
        "thread = threading.Thread(target=attempt); thread.start(); thread.join()\n"
        "thread = threading.Thread(target=os._exit, args=(3,)); thread.start(); thread.join()\n"
    )
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text)
    assert (result.exit_code, told(result)) == (3, {("socket", "unix", "host_sockets")})


@in_modes("plain")
def test_the_c_librarys_look_for_its_name_service_is_counted_and_no_more(mode: str, workspace: Path) -> None:
    """With each look-up of a user; a program that fails for something else would be told of it again and again."""
    flags = "socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        for status in (0, 3):
            assert counted(python(broker, attempt(flags, f"sys.exit({status})"))) == 1


HARMLESS = {
    "uuid1": "import uuid; uuid.uuid1()",
    "a user's name": "import os; os.path.expanduser('~nobody')",
    "a handle for ioctl": (
        "import contextlib, ctypes, socket\nassert ctypes.CDLL(None).socket(socket.AF_INET, socket.SOCK_DGRAM, 0) == {answer}"
    ),
    "whether IPv6 is there": (
        "import contextlib, socket\n"
        "with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as ours: ours.bind(('::1', 0))"
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
@in_modes()
def test_harmless_programs_are_told_nothing_of(mode: str, name: str, workspace: Path) -> None:
    text = HARMLESS[name].format(answer=-1 if mode == "plain" else 3)
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text)
    assert result.success, result.stderr
    assert told(result) == set()


@in_modes()
def test_pip_is_told_nothing_of_while_it_needs_no_network(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=(sys.executable,)) as broker:
        result = broker.execute_command((sys.executable, "-m", "pip", "--version"))
    assert result.success, result.stderr
    assert told(result) == set()


@in_modes()
def test_any_port_is_a_look_as_well(mode: str, workspace: Path) -> None:
    """With listed ports: what is bound to port 0 may be a server's, or a look whether IPv6 is there."""
    ports = Confinement(network="ports", connect_ports=(443,))
    text = "import contextlib, socket, sys\nwith contextlib.suppress(OSError): socket.socket(socket.AF_INET6).bind(('::1', 0))\n"
    with confined(workspace, mode, confinement=ports, allowed_executables=PROGRAMS) as broker:
        assert counted(python(broker, text)) == 1
        assert told(python(broker, text + "sys.exit(3)")) == {("bind", "[::1]:0", "network")}


@pytest.mark.parametrize("network", ["off", "ports", "full"])
@in_modes()
def test_raw_packets_are_refused_and_told_whatever_the_network(mode: str, network: str, workspace: Path) -> None:
    with confined(workspace, mode, confinement=Confinement(network=network), allowed_executables=PROGRAMS) as broker:  # type: ignore[arg-type]  # a word of the policy
        assert told(python(broker, attempt("socket.AF_INET, socket.SOCK_RAW, 1", ""))) == {("socket", "inet raw", "network")}
