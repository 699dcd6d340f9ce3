"""Messages between the host library and the launcher program: JSON in SEQPACKET packets, with descriptors beside them.

Both sides use this module. It knows packets and descriptors, not what they mean.
"""

from __future__ import annotations

import array
import json
import os
import socket

from .linuxos import MSG_CMSG_CLOEXEC, memory_file
from .typed import Any

MAX_INLINE_BYTES = 65536
"""Larger messages travel in a memory file: a packet must fit the socket's send buffer."""
_MAX_DESCRIPTORS = 16
_PEEK, _TRUNCATED, _NO_SIGNAL = int(socket.MSG_PEEK), int(socket.MSG_CTRUNC), int(socket.MSG_NOSIGNAL)
DO_NOT_WAIT = int(socket.MSG_DONTWAIT)
"""Plain numbers: an enumeration's operators cost microseconds, and every command takes this way several times."""
_DESCRIPTOR_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(_MAX_DESCRIPTORS * _DESCRIPTOR_BYTES)
_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


class PeerGone(Exception):
    """The other end closed its socket or died."""


class DescriptorsLost(Exception):
    """This process has no room for all descriptors of a message (recvmsg(2), MSG_CTRUNC); `kept` arrived and are the caller's."""

    def __init__(self, kept: list[int]) -> None:
        super().__init__(kept)
        self.kept = kept


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep packet boundaries."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def adopt(descriptor: int) -> socket.socket:
    """The end of such a pair behind `descriptor`, which the socket owns from now on. Naming its kind spares asking for it."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptor)


def send(channel: socket.socket, message: Any, descriptors: tuple[int, ...] = (), flags: int = 0) -> None:
    """Send one message with copies of `descriptors`; the caller keeps its own.

    Raises PeerGone when nobody is left to read it, BlockingIOError with DO_NOT_WAIT and no room.
    """
    payload = _encode(message).encode("ascii")
    if len(payload) <= MAX_INLINE_BYTES:
        _send_packet(channel, b"i" + payload, descriptors, flags)
        return
    overflow = memory_file("message")
    try:
        _write_all(overflow, payload)
        _send_packet(channel, b"m", (*descriptors, overflow), flags)
    finally:
        os.close(overflow)


Packet = tuple[bytes, list[int]]
"""A message that nobody has read yet, and the descriptors that came with it."""


def receive(channel: socket.socket, flags: int = 0) -> tuple[Any, list[int]]:
    """The next message and the descriptors that came with it, which now belong to the caller (close-on-exec).

    Raises PeerGone at the end of the stream, BlockingIOError with DO_NOT_WAIT and nothing there, DescriptorsLost.
    """
    return read(receive_packet(channel, flags))


def receive_packet(channel: socket.socket, flags: int = 0) -> Packet:
    """The same, for another process or another moment to `read`. Raises as `receive`."""
    packet, ancillary, found = _receive_packet(channel, flags)
    descriptors = _descriptors(ancillary) if ancillary else []
    if found & _TRUNCATED:
        raise DescriptorsLost(descriptors)
    if not packet:
        raise PeerGone
    return packet, descriptors


def read(received: Packet) -> tuple[Any, list[int]]:
    """What is in a packet, and its descriptors; to be called once in a process."""
    packet, descriptors = received
    if packet[:1] == b"i":
        return _decode(packet[1:].decode("ascii")), descriptors
    with os.fdopen(descriptors.pop(), "rb") as file:
        file.seek(0)
        return json.loads(file.read()), descriptors


def _receive_packet(channel: socket.socket, flags: int) -> tuple[bytes, list[tuple[int, int, bytes]], int]:
    # A peer that closes with something of ours unread makes the kernel report that once, before what the peer had sent to us.
    for _ in range(2):
        try:
            packet, ancillary, found, _ = channel.recvmsg(MAX_INLINE_BYTES + 1, _ANCILLARY_BYTES, flags | MSG_CMSG_CLOEXEC)
            return packet, ancillary, found
        except ConnectionError:
            continue
    raise PeerGone


def peer_is_alive(channel: socket.socket) -> bool:
    """Whether the other end is still open. Nothing is taken from the channel."""
    try:
        return bool(channel.recv(1, _PEEK | DO_NOT_WAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _send_packet(channel: socket.socket, packet: bytes, descriptors: tuple[int, ...], flags: int) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        channel.sendmsg([packet], rights, flags | _NO_SIGNAL)
    except (BrokenPipeError, ConnectionError) as error:
        raise PeerGone from error


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
    return list(found)


def _write_all(descriptor: int, payload: bytes) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]
