"""Answer the calls that a launcher's filter notifies of, and note which of them confinement refuses.

Two kinds, told apart by the number alone, which no caller can change after the fact. A call that the filter itself refuses gets
its errno, whatever was asked. Every other call is let go on for the kernel to decide: what is read of the caller's memory decides
nothing, because another of its threads may have changed it by then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
from collections.abc import Callable
from typing import Any

from . import kernel_notify, observed_addresses, wire
from .kernel_notify import Call
from .linuxos import SOCK_CLOEXEC, SOCK_NONBLOCK
from .observed_files import Attempt, is_quiet, view_of
from .refusals import Ledger, Refusal

_MAX_PATH_BYTES = 4096  # PATH_MAX
_MAX_ADDRESS_BYTES = 128  # struct sockaddr_storage
_OPEN_HOW_FLAGS = struct.Struct("=Q")
_AT_FDCWD = -100
_REFUSED = [errno.EPERM]
"""What is not known is not let through."""
_AT_SYMLINK_NOFOLLOW = 0x100
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_LIBRARY_SOCKET = socket.SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK
"""How the C library makes a socket for its name services, with each look-up of a user."""
_FAMILIES: dict[int, str] = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}
_LIBRARY_SOCKETS = ("/run/nscd/", "/run/systemd/", "/dev/log", "/run/dbus/")
"""The C library asks these services, and does by itself what they would have done."""


class Observer:
    """See the module. The owner calls `hear` whenever `listener` is readable.

    Args:
        plan: the launcher's plan; "observer" is what `confine.observing` wrote.
        listener: owned from now on.
        launcher: the channel on which it is told of a place when the first refusal there is noted, before the caller goes on.
        ledger: where refusals are noted.
        pinned: whether a path is held by a pin.
        by_namespace: commands are told apart by their PID namespaces; else by the listener.
    """

    def __init__(
        self,
        plan: dict[str, Any],
        listener: int,
        launcher: socket.socket,
        ledger: Ledger,
        pinned: Callable[[str], bool],
        *,
        by_namespace: bool,
    ) -> None:
        self.listener = listener
        self._ledger = ledger
        self._launcher = launcher
        self._by_namespace = by_namespace
        rules = plan["observer"]
        self._workspace: str = plan["workspace"]["path"]
        self._refused: dict[int, list[Any]] = {int(number): refused for number, refused in rules["refused"].items()}
        self._watched: dict[int, list[Any]] = {int(number): watched for number, watched in rules["watched"].items()}
        self._files = view_of(plan, pinned)
        self._network = observed_addresses.Network(rules["network"])
        self._reads: bool = rules["reads"]
        self._events = select.poll()
        self._events.register(listener, select.POLLIN)
        kernel_notify.prepare_listener(listener)

    def hear(self) -> bool:
        """Take one call, if one waits, and answer it. Returns whether anybody still lives under the filter."""
        events = self._events.poll(0)
        if not events or not events[0][1] & select.POLLIN:
            return not events  # to ask for a call that is not there would wait for ever
        call = kernel_notify.next_call(self.listener)
        if call is None:
            return True
        with contextlib.suppress(Exception):  # whatever a command wrote there: its call waits for an answer
            self._note(call)
        self._answer(call)
        return True

    def close(self) -> None:
        """Nobody answers any more: calls that wait or come fail with ENOSYS."""
        os.close(self.listener)

    def _answer(self, call: Call) -> None:
        if call.number in self._watched:
            kernel_notify.let_go_on(self.listener, call)
        else:
            kernel_notify.refuse(self.listener, call, self._refused.get(call.number, _REFUSED)[0])

    # What is noted.

    def _note(self, call: Call) -> None:
        if not call.pid:
            return
        for refusal in self._refusals(call):
            if not kernel_notify.still_waits(self.listener, call):
                return
            place = self._place(call.pid)
            if self._ledger.note(place, refusal._replace(path=self._shown(refusal.path))):
                wire.send(self._launcher, {"refused": place}, flags=socket.MSG_DONTWAIT)

    def _shown(self, path: str) -> str:
        """Paths in the workspace are told from there, as everywhere."""
        return "." if path == self._workspace else path.removeprefix(self._workspace + "/")

    def _place(self, pid: int) -> int:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino if self._by_namespace else 0

    def _refusals(self, call: Call) -> list[Refusal]:
        refused = self._refused.get(call.number)
        if refused is not None:
            _, operation, protection, *places = refused
            if operation == "socket":
                return _about_socket(call)
            return [Refusal(operation, _path(call, *places[0][:2]) if places else "", "", protection)]
        operation, kind, *places = self._watched[call.number]
        if kind == "address":
            return self._about_address(call, operation, *places)
        return [
            Refusal(attempt.operation, path, "", protection)
            for attempt in _attempts(call, operation, kind, places)
            if not is_quiet(attempt) and (self._reads or not attempt.reads)
            for protection, path in self._judged(attempt)
        ]

    def _judged(self, attempt: Attempt) -> list[tuple[str, str]]:
        try:
            found = None if self._files is None else self._files.refuses(attempt)
        except OSError:
            return []
        return [] if found is None else [found]

    # Addresses.

    def _about_address(self, call: Call, operation: str, pointer: int, length: int) -> list[Refusal]:
        size = min(call.arguments[length] & 0xFFFFFFFF, _MAX_ADDRESS_BYTES)
        address = observed_addresses.parse(kernel_notify.memory_of(call.pid, call.arguments[pointer], size))
        if address is None:
            return []
        if address.path:
            return self._about_socket_file(call, operation, address.path)
        refusal = Refusal(operation, "", address.text, "host_sockets" if address.family == socket.AF_UNIX else "network")
        if self._network.refuses(operation, address, call.pid, _as_int(call.arguments[0])):
            return [refusal]
        self._withdraw(call, refusal)
        return []

    def _about_socket_file(self, call: Call, operation: str, path: str) -> list[Refusal]:
        path = _absolute(call.pid, _AT_FDCWD, path)
        if operation == "bind":
            return [
                Refusal(operation, where, "", protection)
                for protection, where in self._judged(Attempt(operation, path, "absent", follows=False))
            ]
        if path.removeprefix("/var").startswith(_LIBRARY_SOCKETS):
            return []
        seen = self._judged(Attempt(operation, path, "present", follows=True, reads=True))
        if not seen:
            self._withdraw(call, Refusal(operation, os.path.normpath(path), "", "host_sockets"))
        return [Refusal(operation, where, "", "host_sockets") for _, where in seen]

    def _withdraw(self, call: Call, refusal: Refusal) -> None:
        """What a server of the command's own answers now was no refusal when it was not up yet."""
        self._ledger.withdraw(self._place(call.pid), refusal._replace(path=self._shown(refusal.path)))


def _about_socket(call: Call) -> list[Refusal]:
    """A socket that the filter refuses. Nobody knows yet whom it would have been for."""
    family, kind = call.arguments[0] & 0xFFFFFFFF, call.arguments[1]
    if family != socket.AF_UNIX:
        return [Refusal("socket", "", _FAMILIES.get(family, f"family {family}"), "network")]
    if kind & _LIBRARY_SOCKET == _LIBRARY_SOCKET:
        return []
    return [Refusal("socket", "", "unix", "host_sockets")]


def _attempts(call: Call, operation: str, kind: str, places: list[list[int]]) -> list[Attempt]:
    """What the call is about to do, path by path."""
    if kind == "open":
        return [_opening(call, *places[0])]
    found = []
    for needs, (directory, pointer, links) in zip(kind.split("+"), places, strict=True):
        follows = links == -1 or (links >= 0 and not call.arguments[links] & _AT_SYMLINK_NOFOLLOW)
        found.append(Attempt(operation, _path(call, directory, pointer), needs, follows))
    return found


def _opening(call: Call, directory: int, pointer: int, flags_at: int) -> Attempt:
    """An open: `flags_at` is the argument with its flags, -1 for creat(2), -2 where argument 2 points to them (openat2(2))."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    if flags_at == -2:
        flags = _OPEN_HOW_FLAGS.unpack(kernel_notify.memory_of(call.pid, call.arguments[2], _OPEN_HOW_FLAGS.size))[0]
    elif flags_at >= 0:
        flags = call.arguments[flags_at]
    exclusive = flags & os.O_CREAT and flags & os.O_EXCL
    follows = not exclusive and not flags & os.O_NOFOLLOW
    path = _path(call, directory, pointer)
    if not flags & _CHANGES:
        return Attempt("open for reading", path, "present", follows, reads=True)
    if not flags & os.O_CREAT:
        return Attempt("open for writing", path, "present", follows)
    return Attempt("create" if exclusive else "open for writing", path, "absent" if exclusive else "either", follows)


def _path(call: Call, directory: int, pointer: int) -> str:
    """The path that the call names, absolute; without a pointer (or a null one) that of the descriptor itself."""
    descriptor = _AT_FDCWD if directory < 0 else _as_int(call.arguments[directory])
    address = call.arguments[pointer] if pointer >= 0 else 0
    raw = kernel_notify.memory_of(call.pid, address, _MAX_PATH_BYTES).split(b"\0", 1)[0] if address else b""
    return _absolute(call.pid, descriptor, os.fsdecode(raw))


def _absolute(pid: int, descriptor: int, path: str) -> str:
    if path.startswith("/"):
        return path
    base = os.readlink(f"/proc/{pid}/cwd" if descriptor == _AT_FDCWD else f"/proc/{pid}/fd/{descriptor}")
    if not base.startswith("/"):
        raise ValueError("a descriptor without a path: a pipe, a socket, memory")
    return os.path.join(base, path) if path else base


def _as_int(argument: int) -> int:
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low & 0x80000000 else low
