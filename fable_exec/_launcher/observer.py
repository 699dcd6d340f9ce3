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
from collections.abc import Callable

from . import kernel_notify, observed_addresses, observed_calls, wire
from .kernel_fs import AT_FDCWD
from .kernel_notify import Call
from .linuxos import SOCK_CLOEXEC, SOCK_NONBLOCK
from .observed_addresses import Address
from .observed_budget import Budget, OverBudget
from .observed_faults import fails_anyway
from .observed_files import Refused, is_quiet, refusal_of, refusal_out_of_sight, view_of
from .observed_paths import Attempt
from .refusals import Ledger, Refusal
from .typed import Any

_REFUSED = [errno.EPERM]
"""What is not known is not let through."""
_KIND = 0xF
"""Of the second argument of socket(2): the rest is flags."""
_LIBRARY_SOCKET = socket.SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK
"""How the C library makes a socket for its name services, with each look-up of a user."""
_FAMILIES: dict[int, str] = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}
_KINDS: dict[int, str] = {socket.SOCK_DGRAM: " datagram", socket.SOCK_RAW: " raw"}
_MOST_UNSEEN = 1024
_LIBRARY_SOCKETS = ("/run/nscd/", "/run/systemd/", "/dev/log", "/run/dbus/", "/run/uuidd/")
"""The C library and libuuid ask these services, and do by themselves what they would have done."""


class Observer:
    """See the module. The owner calls `hear` whenever `listener` is readable.

    Args:
        plan: the launcher's plan; "observer" is what `confine.observing` wrote.
        listener: owned from now on.
        launcher: the channel on which it is told of a place when the first refusal there is noted, before the caller goes on.
        ledger: where refusals are noted.
        pinned: whether a path is held by a pin.
        serve: takes one message out of `launcher`; at its end closes it or raises.
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
        serve: Callable[[], None],
        by_namespace: bool,
    ) -> None:
        self.listener = listener
        self._ledger = ledger
        self._launcher = launcher
        self._serve = serve
        self._asked = select.poll()
        self._asked.register(launcher, select.POLLIN)
        self._by_namespace = by_namespace
        rules = plan["observer"]
        self._workspace: str = plan["workspace"]["path"]
        self._refused: dict[int, list[Any]] = {int(number): refused for number, refused in rules["refused"].items()}
        self._watched: dict[int, list[Any]] = {int(number): watched for number, watched in rules["watched"].items()}
        self._budget = Budget()
        self._files = view_of(plan, pinned, self._budget)
        self._network = observed_addresses.Network(rules["network"], self._budget)
        self._reads: bool = rules["reads"]
        self._unseen: set[Refusal] = set()
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
        self._serve_what_was_asked_before()
        with contextlib.suppress(Exception):  # whatever a command wrote there: its call waits for an answer
            self._note_within_budget(call)
        self._answer(call)
        return True

    def _serve_what_was_asked_before(self) -> None:
        """What is asked of a place is handed over before a call is noted there: it is that of the command before.

        A launcher that waited too long starts the next command in the same place; then what it asked is here before that
        command's first call.
        """
        while self._launcher.fileno() >= 0 and any(event & select.POLLIN for _, event in self._asked.poll(0)):
            self._serve()

    def close(self) -> None:
        """Nobody answers any more: calls that wait or come fail with ENOSYS."""
        os.close(self.listener)

    def _answer(self, call: Call) -> None:
        if call.number in self._watched:
            kernel_notify.let_go_on(self.listener, call)
        else:
            kernel_notify.refuse(self.listener, call, self._refused.get(call.number, _REFUSED)[0])

    # What is noted.

    def _note_within_budget(self, call: Call) -> None:
        self._budget.begin()
        try:
            self._note(call)
        except OverBudget:
            self._count(call)

    def _note(self, call: Call) -> None:
        if not call.pid:
            return
        operation, kind, *places = self._watched.get(call.number) or ("", "refused")
        if kind == "exit":
            self._ledger.failed(self._place(call.pid), kernel_notify.process_of(call.pid))
        elif kind == "refused":
            self._note_refused(call)
        elif kind in ("address", "message", "messages"):
            for address in observed_calls.addresses_of(call, kind, places):
                self._note_address(call, operation, address)
        else:
            self._note_files(call, observed_calls.attempts_of(call, operation, kind, places))

    def _tell(self, call: Call, refusal: Refusal, *, unless_it_did_without: bool = False) -> None:
        """Write it down, unless the caller was gone before it could be looked into: its number may be another's by now."""
        asker = kernel_notify.process_of(call.pid) if unless_it_did_without else 0
        place = self._place(call.pid)
        if kernel_notify.still_waits(self.listener, call):
            self._announce(place, self._ledger.note(place, self._as_shown(refusal), asker))

    def _count(self, call: Call) -> None:
        """One of which nothing is told."""
        place = self._place(call.pid)
        if kernel_notify.still_waits(self.listener, call):
            self._announce(place, self._ledger.count(place))

    def _announce(self, place: int, first: bool) -> None:
        if first:
            wire.send(self._launcher, {"refused": place}, flags=socket.MSG_DONTWAIT)

    def _as_shown(self, refusal: Refusal) -> Refusal:
        """Paths in the workspace are told from there, as everywhere."""
        path = refusal.path
        return refusal._replace(path="." if path == self._workspace else path.removeprefix(self._workspace + "/"))

    def _place(self, pid: int) -> int:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino if self._by_namespace else 0

    # Calls that the filter refuses.

    def _note_refused(self, call: Call) -> None:
        _, operation, protection, *places = self._refused[call.number]
        if operation == "socket":
            self._note_socket(call)
        elif not places:
            self._tell(call, Refusal(operation, "", "", protection))
        else:
            path, follows = observed_calls.path_of(call, places[0])
            attempt = Attempt(operation, path, "present", follows)
            if not is_quiet(attempt) and not fails_anyway([attempt], [True], self._budget):
                self._tell(call, Refusal(operation, _name_of(path, call.pid), "", protection))

    def _note_socket(self, call: Call) -> None:
        """Nobody knows yet whom it would have been for."""
        family, flags = call.arguments[0] & 0xFFFFFFFF, call.arguments[1] & 0xFFFFFFFF
        if family == socket.AF_UNIX and flags & _LIBRARY_SOCKET == _LIBRARY_SOCKET:
            self._count(call)
            return
        address = _FAMILIES.get(family, f"family {family}") + ("" if family == socket.AF_UNIX else _KINDS.get(flags & _KIND, ""))
        protection = "host_sockets" if family == socket.AF_UNIX else "network"
        self._tell(call, Refusal("socket", "", address, protection), unless_it_did_without=not _has_one_use(family, flags))

    # Files.

    def _note_files(self, call: Call, attempts: list[Attempt]) -> None:
        judged = [self._judged(attempt) for attempt in attempts]
        told = [
            refusal_of(attempt, found)
            for attempt, found in zip(attempts, judged, strict=True)
            if found is not None and attempt.told
        ]
        if told and not fails_anyway(attempts, [found is None or found.in_sight for found in judged], self._budget):
            for refusal in told:
                self._tell(call, refusal)
            self._remember_unseen(attempts, judged)
        elif self._unseen and not told:
            for attempt in attempts:
                self._withdraw_unseen(call, attempt)

    def _remember_unseen(self, attempts: list[Attempt], judged: list[Refused | None]) -> None:
        if len(self._unseen) > _MOST_UNSEEN:
            self._unseen.clear()
        self._unseen.update(
            refusal_of(attempt, found)
            for attempt, found in zip(attempts, judged, strict=True)
            if found is not None and not found.in_sight
        )

    def _withdraw_unseen(self, call: Call, attempt: Attempt) -> None:
        """What goes now was missing before because the command had not made what leads there, as directories from the last on."""
        refusal = refusal_out_of_sight(attempt)
        if refusal in self._unseen:
            self._withdraw(call, refusal)

    def _judged(self, attempt: Attempt) -> Refused | None:
        if self._files is None or is_quiet(attempt) or (attempt.reads and not self._reads):
            return None
        try:
            return self._files.refuses(attempt)
        except OSError:
            return None

    # Addresses.

    def _note_address(self, call: Call, operation: str, address: Address) -> None:
        if address.path:
            self._note_socket_file(call, operation, address.path)
            return
        refusal = Refusal(operation, "", address.text, "host_sockets" if address.family == socket.AF_UNIX else "network")
        refused = self._network.refuses(operation, address, call.pid, observed_calls.as_int(call.arguments[0]))
        if refused:
            any_port = operation == "bind" and not address.port
            self._tell(call, refusal, unless_it_did_without=any_port)
        elif refused is not None:
            self._withdraw(call, refusal)

    def _note_socket_file(self, call: Call, operation: str, path: str) -> None:
        path = observed_calls.absolute(call.pid, AT_FDCWD, path)
        if operation == "bind":
            self._note_files(call, [Attempt(operation, path, "absent file", follows=False)])
            return
        if path.removeprefix("/var").startswith(_LIBRARY_SOCKETS):
            return
        attempt = Attempt(operation, path, "present", follows=True, reads=True)
        found = None if self._files is None else self._files.refuses(attempt)
        refusal = Refusal(operation, os.path.normpath(path) if found is None else found.path, "", "host_sockets")
        if found is None:
            self._withdraw(call, refusal)
        else:
            self._tell(call, refusal)

    def _withdraw(self, call: Call, refusal: Refusal) -> None:
        """What is possible now, by what the command made itself, was no refusal: its own server, a directory."""
        self._ledger.withdraw(self._place(call.pid), self._as_shown(refusal))


def _has_one_use(family: int, flags: int) -> bool:
    """Whether a program makes such a socket for nothing but to reach somebody.

    With others it may look whether IPv6 or a service is there; a bare datagram socket is a handle for ioctl(2).
    """
    if flags & _KIND == socket.SOCK_STREAM:
        return family == socket.AF_INET
    return family != socket.AF_UNIX and flags != socket.SOCK_DGRAM


def _name_of(path: str, pid: int) -> str:
    """The path as it is told; of what a descriptor of the caller's holds the name that it had."""
    return os.readlink(path) if path.startswith(f"/proc/{pid}/") else path
