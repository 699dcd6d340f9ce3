"""What is told of connections, and in which form an address is."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from fable_exec import Confinement
from fable_exec._launcher.observed_addresses import parse
from tests.confinement.places import confined, in_modes
from tests.denials.told import PROGRAMS, python, told
from tests.ports import free_port

pytestmark = pytest.mark.requires_ability("linux")


CONNECT = """
import socket, sys
port, path, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for family, address in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port)),
                        (socket.AF_INET, ("192.0.2.1", 80)), (socket.AF_UNIX, path), (socket.AF_UNIX, chr(0) + name)):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as ours:
            ours.settimeout(5)
            ours.connect(address)
        print("connected")
    except OSError:
        pass
"""


@in_modes()
def test_connections_that_are_refused_are_told(mode: str, workspace: Path, servers: tuple[int, str, str]) -> None:
    port, path, name = servers
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, CONNECT + "sys.exit(3)\n", *servers)
    assert (result.exit_code, result.stdout) == (3, "")
    if mode == "plain":  # there the socket is refused, before anybody can know whom it is for
        assert told(result) == {
            ("socket", "inet", "network"),
            ("socket", "inet6", "network"),
            ("socket", "unix", "host_sockets"),
        }
        return
    assert told(result) == {
        ("connect", f"127.0.0.1:{port}", "network"),
        ("connect", f"[::1]:{port}", "network"),
        ("connect", "192.0.2.1:80", "network"),
        ("connect", path, "host_sockets"),
        ("connect", f"@{name}", "host_sockets"),
    }


@in_modes()
def test_ports_that_are_not_listed_are_told(mode: str, workspace: Path, servers: tuple[int, str, str]) -> None:
    port, _, _ = servers
    text = (
        "import socket, contextlib, sys\n"
        "with contextlib.suppress(OSError): socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "with contextlib.suppress(OSError): socket.create_connection(('127.0.0.1', 9))\n"
        "with contextlib.suppress(OSError): socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    )
    ports = Confinement(network="ports", connect_ports=(9,))
    with confined(workspace, mode, confinement=ports, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text, port)
    assert told(result) == {(word, f"127.0.0.1:{port}", "network") for word in ("connect", "bind")}


OWN_SERVER = """
import socket, threading, time
probe = socket.create_server(("127.0.0.1", 0)); port = probe.getsockname()[1]; probe.close()
try:
    socket.create_connection(("127.0.0.1", port))  # not up yet
except ConnectionRefusedError:
    pass
server = socket.create_server(("127.0.0.1", port))
socket.create_connection(("127.0.0.1", port)).close()
named = socket.socket(socket.AF_UNIX); named.bind(chr(0) + "own"); named.listen()
socket.socket(socket.AF_UNIX).connect(chr(0) + "own")
late = "/tmp/late"
try:
    socket.socket(socket.AF_UNIX).connect(late)
except FileNotFoundError:
    pass
later = socket.socket(socket.AF_UNIX); later.bind(late); later.listen()
socket.socket(socket.AF_UNIX).connect(late)
file = socket.socket(socket.AF_UNIX); file.bind("own"); file.listen()
socket.socket(socket.AF_UNIX).connect("own")
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.connect(("127.0.0.1", 9))
"""


@in_modes("slots", "namespace")
def test_a_commands_own_servers_are_no_refusals(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        assert told(python(broker, OWN_SERVER)) == set()


@in_modes("slots", "namespace")
def test_abstract_names_of_the_hosts_network_are_told_and_not_a_commands_own(
    mode: str, workspace: Path, servers: tuple[int, str, str]
) -> None:
    own = "named = socket.socket(socket.AF_UNIX); named.bind(chr(0) + 'own'); named.listen()"
    text = (
        f"import socket, sys, contextlib\n{own}\nsocket.socket(socket.AF_UNIX).connect(chr(0) + 'own')\n"
        "with contextlib.suppress(OSError): socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1]); print('connected')\n"
        "with contextlib.suppress(OSError): socket.socket(socket.AF_UNIX).connect(chr(0) + 'nobody')\n"
    )
    with confined(workspace, mode, confinement=Confinement(network="full"), allowed_executables=PROGRAMS) as broker:
        result = python(broker, text, servers[2])
    assert result.success, result.stderr
    assert told(result) == (set() if result.stdout else {("connect", f"@{servers[2]}", "host_sockets")})


ADDRESSES = {
    "192.0.2.1:80": (socket.AF_INET, ("192.0.2.1", 80)),
    "[2001:db8::1]:80": (socket.AF_INET6, ("2001:db8::1", 80)),
    "[::ffff:192.0.2.1]:80": (socket.AF_INET6, ("::ffff:192.0.2.1", 80)),
    "@the host's": (socket.AF_UNIX, "\0the host's"),
    "/run/the host's": (socket.AF_UNIX, "/run/the host's"),
}
"""How an address is told, and how a socket takes it."""

WAYS = """
import contextlib, ctypes, socket, struct, sys
way, (family, address) = sys.argv[1], eval(sys.argv[2])
libc = ctypes.CDLL(None)
def sendmmsg(ours, address):
    if family == socket.AF_UNIX:
        raw = struct.pack("=H", family) + address.encode()
    else:
        host = socket.inet_pton(family, address[0])
        host = host if family == socket.AF_INET else bytes(4) + host + bytes(4)
        raw = struct.pack("=H", family) + struct.pack("!H", address[1]) + host
    name = ctypes.create_string_buffer(raw, len(raw))
    header = struct.pack("=QI44xI4x", ctypes.addressof(name), len(raw), 0)
    messages = ctypes.create_string_buffer(bytes(64) + header, 128)  # the first names nobody
    libc.sendmmsg(ours.fileno(), messages, 2, 0)
with socket.socket(family, socket.SOCK_STREAM if way == "connect" else socket.SOCK_DGRAM) as ours, contextlib.suppress(OSError):
    if way == "connect":
        ours.settimeout(5)
        ours.connect(address)
    elif way == "sendto":
        ours.sendto(b"x", address)
    elif way == "sendmsg":
        ours.sendmsg([b"x"], (), 0, address)
    else:
        sendmmsg(ours, address)
"""


@pytest.mark.parametrize("way", ["connect", "sendto", "sendmsg", "sendmmsg"])
@in_modes("slots", "namespace")
def test_addresses_of_every_family_are_told_whatever_the_call(mode: str, way: str, workspace: Path) -> None:
    operation = "connect" if way == "connect" else "send"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        for shown, (family, address) in ADDRESSES.items():
            result = python(broker, WAYS, way, repr((int(family), address)))
            assert result.success, result.stderr
            protection = "host_sockets" if family == socket.AF_UNIX else "network"
            assert told(result) == {(operation, shown, protection)}
            assert [bool(each.path) for each in result.denials] == [shown.startswith("/")]


FAULTS = """
import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
raw = struct.pack("=H", socket.AF_INET) + bytes((0, 80)) + socket.inet_aton("192.0.2.1") + bytes(8)
host6 = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
raw6 = struct.pack("=H", socket.AF_INET6) + bytes((0, 80)) + bytes(4) + host6 + bytes(4)
name = struct.pack("=H", socket.AF_UNIX) + b"\\0nobody's"
def failed(result, number):
    assert result == -1 and ctypes.get_errno() == number, (result, ctypes.get_errno())
import errno
file = os.open("/etc/passwd", os.O_RDONLY)
inet, unix = socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)
for each in (raw, raw6, name):
    failed(libc.connect(file, each, len(each)), errno.ENOTSOCK)
    failed(libc.connect(999, each, len(each)), errno.EBADF)
failed(libc.connect(inet.fileno(), raw6, len(raw6)), errno.EAFNOSUPPORT)
failed(libc.connect(inet.fileno(), name, len(name)), errno.EINVAL)
failed(libc.connect(unix.fileno(), raw, len(raw)), errno.EINVAL)
failed(libc.connect(inet.fileno(), raw, 3), errno.EINVAL)
failed(libc.connect(inet.fileno(), None, 16), errno.EFAULT)
failed(libc.sendto(inet.fileno(), b"x", 1, 0x4000, raw, len(raw)), errno.EPIPE)  # a stream goes where it is connected to
"""


@in_modes("slots", "namespace")
def test_an_address_for_what_cannot_take_it_is_no_refusal(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, FAULTS)
    assert result.success, result.stderr
    assert told(result) == set()


BOTH = """
import ctypes, socket, struct
raw = struct.pack("=H", socket.AF_INET) + bytes((0, 80)) + socket.inet_aton("192.0.2.1") + bytes(8)
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as ours:
    ctypes.CDLL(None).sendto(ours.fileno(), b"x", 1, 0, raw, len(raw))
"""


@in_modes("slots", "namespace")
def test_datagrams_over_ipv6_sockets_may_have_ipv4_addresses(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        assert told(python(broker, BOTH)) == {("send", "192.0.2.1:80", "network")}


INET = struct.pack("=H", socket.AF_INET) + bytes((0, 80)) + socket.inet_aton("127.0.0.1") + bytes(8)
INET6 = struct.pack("=H", socket.AF_INET6) + bytes((0, 80)) + bytes(4) + bytes(15) + b"\1" + bytes(4)
UNIX = struct.pack("=H", socket.AF_UNIX)


@pytest.mark.parametrize(
    ("raw", "path", "text"),
    [
        (INET, "", "127.0.0.1:80"),
        (INET[:8], "", "127.0.0.1:80"),
        (INET6, "", "[::1]:80"),
        (INET6[:24], "", "[::1]:80"),
        (UNIX + b"/a/socket\0rest", "/a/socket", ""),
        (UNIX + b"relative", "relative", ""),
        (UNIX + b"x" * 108, "x" * 108, ""),
        (UNIX + b"\0name", "", "@name"),
        (UNIX + b"\0two\0parts\0", "", "@two\0parts\0"),
        (UNIX + b"\xff", "\udcff", ""),
    ],
)
def test_an_address_is_read_as_the_kernel_reads_it(raw: bytes, path: str, text: str) -> None:
    found = parse(raw)
    assert found is not None
    assert (found.path, found.text) == (path, text)


@pytest.mark.parametrize(
    "raw", [b"", b"\2", INET[:7], INET6[:23], UNIX, UNIX + b"\0", bytes(16), struct.pack("=H", 16) + bytes(10)]
)
def test_what_is_no_address_of_these_families_is_none(raw: bytes) -> None:
    assert parse(raw) is None


MANY = """
import contextlib, os, socket
servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(60)]
named = [socket.socket(socket.AF_UNIX) for _ in range(60)]
for number, server in enumerate(named):
    server.bind(chr(0) + "own" * 30 + str(number)); server.listen()
for server in (*servers, *named):
    with socket.socket(server.family) as ours: ours.connect(server.getsockname())
for port in (9, 65535):
    with contextlib.suppress(OSError): socket.create_connection(("127.0.0.1", port))
with contextlib.suppress(OSError): socket.socket(socket.AF_UNIX).connect(chr(0) + "own" * 30)
"""


@in_modes("slots", "namespace")
def test_each_of_many_servers_is_found(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, MANY)
    assert result.success, result.stderr
    assert told(result) == {
        ("connect", "127.0.0.1:9", "network"),
        ("connect", "127.0.0.1:65535", "network"),
        ("connect", "@" + "own" * 30, "host_sockets"),
    }


RESERVED = """
import contextlib, socket, sys
port, free = int(sys.argv[1]), int(sys.argv[2])
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for attempt in ("connect", "bind"):
        with contextlib.suppress(OSError), socket.socket(family) as tcp:
            getattr(tcp, attempt)((host, port))
            print(attempt, host)
for kind, number in ((socket.SOCK_STREAM, free), (socket.SOCK_DGRAM, port)):  # another port, and another protocol
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind(("127.0.0.1", number))
"""


@pytest.mark.requires_ability("landlock")
@pytest.mark.parametrize("network", ["full", "off"])
@in_modes()
def test_reserved_ports_that_are_refused_are_told(mode: str, network: str, workspace: Path) -> None:
    if (mode, network) == ("plain", "off"):
        pytest.skip("there is no socket to refuse a port to")
    port, free = free_port(), free_port()
    confinement = Confinement(network=network, reserved_ports=(port,))  # type: ignore[arg-type]  # a word from the table
    with confined(workspace, mode, confinement=confinement, allowed_executables=PROGRAMS) as broker:
        result = python(broker, RESERVED, port, free)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    hosts = ("127.0.0.1", "[::1]")
    assert told(result) == {(word, f"{host}:{port}", "network") for word in ("connect", "bind") for host in hosts}
