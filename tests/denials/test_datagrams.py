"""What is told of datagrams, and of names that cannot be looked up because nobody answers datagrams."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fable_exec import Confinement
from tests.confinement.places import confined, in_modes
from tests.denials.told import PROGRAMS, python, told

pytestmark = pytest.mark.requires_ability("linux")

DATAGRAMS = """
import socket, sys
def spare():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.bind(("127.0.0.1", 0))
        return ours.getsockname()[1]
port = int(sys.argv[1])
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    with socket.socket(family, socket.SOCK_DGRAM) as ours:
        ours.sendto(b"x", (host, port))  # nobody in this network
    later = spare()
    with socket.socket(family, socket.SOCK_DGRAM) as ours, socket.socket(family, socket.SOCK_DGRAM) as server:
        ours.sendto(b"x", (host, later))  # not up yet
        server.bind((host, later))
        ours.sendto(b"x", (host, later))
        assert server.recv(1) == b"x"
        connected = socket.socket(family, socket.SOCK_DGRAM)
        connected.connect((host, later))
        connected.send(b"x")
        connected.sendmsg([b"x"])
"""


@in_modes("slots", "namespace")
def test_datagrams_to_a_port_of_this_machine_are_told_where_nothing_of_the_commands_takes_them(
    mode: str, workspace: Path
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hosts:
        hosts.bind(("127.0.0.1", 0))
        hosts.settimeout(0)
        port = hosts.getsockname()[1]
        with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
            result = python(broker, DATAGRAMS, port)
        with pytest.raises(BlockingIOError):
            hosts.recv(1)
    assert result.success, result.stderr
    assert told(result) == {("send", f"127.0.0.1:{port}", "network"), ("send", f"[::1]:{port}", "network")}


UNANSWERED = """
import contextlib, socket
with contextlib.suppress(OSError): socket.create_connection(("127.0.0.1", 5432))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours: ours.connect(("127.0.0.1", 5432))
"""


@in_modes("slots", "namespace")
def test_a_datagram_socket_that_is_connected_takes_no_refusal_back(mode: str, workspace: Path) -> None:
    """Only who is reached after all was not refused; the C library connects datagram sockets to everything that it looks up."""
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, UNANSWERED)
    assert result.success, result.stderr
    assert told(result) == {("connect", "127.0.0.1:5432", "network")}


LOOK_UP = "import socket, sys\ntry: print(socket.{call})\nexcept OSError as error: print('failed')"
LOOK_UPS = ("getaddrinfo('example.org', 80)", "gethostbyname('example.org')")


@pytest.mark.parametrize("call", LOOK_UPS)
@in_modes()
def test_a_name_that_cannot_be_looked_up_is_told(mode: str, call: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, LOOK_UP.format(call=call))
    assert result.stdout == "failed\n"
    assert told(result) != set()
    for denial in result.denials:
        assert denial.protection == "network"
        assert "name" in denial.suggestion
        if mode == "plain":
            assert (denial.operation, denial.address) in {("socket", "inet datagram"), ("socket", "inet6 datagram")}
        else:
            assert denial.operation == "connect" and denial.address.endswith(":53")


@in_modes()
def test_nor_can_it_where_ports_are_listed(mode: str, workspace: Path) -> None:
    ports = Confinement(network="ports", connect_ports=(443,))
    with confined(workspace, mode, confinement=ports, allowed_executables=PROGRAMS) as broker:
        result = python(broker, LOOK_UP.format(call=LOOK_UPS[0]))
    assert result.stdout == "failed\n"
    assert told(result) and {each.address.partition(" ")[2] for each in result.denials} == {"datagram"}


@in_modes("slots", "namespace")
def test_a_name_that_needs_nobody_is_told_nothing_of(mode: str, workspace: Path) -> None:
    """The C library connects datagram sockets to what it found, to put it in order."""
    text = "import socket; print(len(socket.getaddrinfo('localhost', 8080)))"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text)
    assert result.success and told(result) == set()
