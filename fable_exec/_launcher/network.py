"""The network of a launcher's own network namespace: loopback and nothing else. Source: netdevice(7)."""

from __future__ import annotations

import fcntl
import socket
import struct

_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 1
_IFREQ = "16sh14x"


def loopback_up() -> None:
    """Bring up "lo", so that programs can talk to themselves on 127.0.0.1 and ::1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack(_IFREQ, b"lo", 0)
        flags = struct.unpack(_IFREQ, fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", flags | _IFF_UP))


def host_name(name: str) -> None:
    """In a UTS namespace of its own: hide the host's name."""
    socket.sethostname(name)
