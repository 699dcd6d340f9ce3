"""Our end of the keepers' zygote: started with the first execution, asked for one keeper after the other. Safe among threads."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attr
import attrs

from fable_exec._launcher import wire
from fable_exec._sys.forks import ProcessLock
from fable_exec.confine import Support
from fable_exec.errors import BrokerGone, ConfinementUnavailable, LaunchFailed
from fable_exec.keeper.requests import Answered, KeepRequest
from fable_exec.runner.programs import Program, answer_within, own_handle
from fable_exec.runtimes import system_secrets

__all__ = ["KeeperZygote", "Waiting"]

_PROGRAM = Path(__file__).parent.parent / "keeper" / "__main__.py"
_LIBRARIES = tuple(dict.fromkeys(str(Path(str(module.__file__)).parent.parent) for module in (attr, attrs)))
_OWN_LIBRARY = str(Path(__file__).parent.parent.parent)
_WHO = "the keepers' zygote"
_START_SECONDS = 20.0
_CLOSE_SECONDS = 2.0


@attrs.frozen
class Waiting:
    """One request under way: the socket on which its keeper answers once. Whoever has it closes it."""

    channel: socket.socket
    patience_seconds: ClassVar[float] = 60.0

    def answer(self) -> Answered:
        """The answer, once `channel` is readable. Raises BrokerGone when the keeper ended without one."""
        try:
            message, _ = wire.receive(self.channel)
        except wire.PeerGone:
            raise BrokerGone("the keeper ended before it answered") from None
        return Answered.from_wire(message)

    def wait(self) -> None:
        """Wait until there is an answer, within patience. Raises BrokerGone."""
        waiting = select.poll()
        waiting.register(self.channel.fileno(), select.POLLIN)
        if not waiting.poll(int(self.patience_seconds * 1000)):
            raise self.too_late()

    def too_late(self) -> BrokerGone:
        """The error for an answer that did not come in time."""
        return BrokerGone("the keeper did not answer in time; it may still start the job")


class KeeperZygote:
    """One running zygote. Keepers do not end with it. Its verbs raise LaunchFailed where this process lacks descriptors.

    Args:
        user, group: whom jobs run as, for the question what this host can do for them.

    Raises:
        LaunchFailed: it could not be started. BrokerGone: it ended while it did.
    """

    def __init__(self, user: int, group: int) -> None:
        self._owner = os.getpid()
        self._sending = ProcessLock()
        self._is_closed = False
        self._secrets: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._socket, theirs = _socket_pair()
        try:
            self._program = Program(["-S", str(_PROGRAM), _OWN_LIBRARY, *_LIBRARIES], theirs.fileno())
        except OSError as error:
            self._socket.close()
            raise LaunchFailed.at("keeper", error.errno or 0, str(_PROGRAM)) from error
        finally:
            theirs.close()
        try:
            self._greet(user, group)
        except BaseException:
            self.close()
            raise

    def _greet(self, user: int, group: int) -> None:
        handles = own_handle()
        try:
            wire.send(self._socket, {"user": user, "group": group}, tuple(handles))
            self.support = Support.from_probe(answer_within(self._socket, _START_SECONDS, _WHO)["support"])
        except wire.PeerGone:
            raise BrokerGone("the keepers' zygote ended while starting") from None
        finally:
            for handle in handles:
                os.close(handle)
        if self.support.shortage:
            raise LaunchFailed.at("probe", self.support.shortage, _WHO)

    def system_secrets(self, opened: Iterable[str]) -> tuple[str, ...]:
        """What of /etc jobs must not see besides what is `opened` for them, as it was when the first such one was planned: to
        look at all of it takes milliseconds."""
        of_system = tuple(path for path in opened if path.startswith("/etc/"))
        if of_system not in self._secrets:
            self._secrets[of_system] = system_secrets(of_system)
        return self._secrets[of_system]

    def ask(self, request: KeepRequest) -> Waiting:
        """Have a keeper made for `request`.

        Raises:
            BrokerGone: the zygote is gone. LaunchFailed: there is no room for what it is sent. Then nothing was asked.
        """
        return Waiting(self._send({"keep": request.to_wire()}))

    def prove(self, plan: Mapping[str, Any], command: Mapping[str, Any]) -> bytes:
        """What the canary of `command` writes under `plan`.

        Raises:
            ConfinementUnavailable: it could not be sent. BrokerGone: the zygote, or who was to send it, is gone.
            LaunchFailed: as `ask`.
        """
        with self._send({"prove": {"plan": plan, "command": command, "name": os.urandom(8).hex()}}) as channel:
            message = answer_within(channel, _START_SECONDS, _WHO)
        if "failed" in message:
            number = message["errno"]
            reason = f"{message['failed']}: {os.strerror(number) if number else message['what']}"
            raise ConfinementUnavailable(f"this host refused a supervised job at step {reason}", reason=reason, errno=number)
        written: str = message["written"]
        return written.encode()

    def _send(self, message: Mapping[str, Any]) -> socket.socket:
        """The socket on which the answer comes, the caller's."""
        ours, theirs = _socket_pair()
        try:
            with theirs, self._sending:
                if self._is_closed:
                    raise wire.PeerGone
                wire.send(self._socket, message, (theirs.fileno(),))
        except wire.PeerGone:
            ours.close()
            raise BrokerGone("the keepers' zygote is gone") from None
        except OSError as error:  # no room for descriptors, of ours or of all that this user has on their way
            ours.close()
            raise LaunchFailed.at("descriptors", error.errno or 0, _WHO) from error
        except BaseException:
            ours.close()
            raise
        return ours

    def close(self) -> None:
        """Let the zygote end, and kill it where it does not. Keepers and their jobs go on. Idempotent, safe among threads."""
        if os.getpid() != self._owner:
            self.abandon()
            return
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked copy of this process may hold it open, a thread may be sending
        except OSError:
            pass
        with self._sending:
            is_closed, self._is_closed = self._is_closed, True
            self._socket.close()
        if is_closed:
            return
        self._program.end(_CLOSE_SECONDS)

    def abandon(self) -> None:
        """In a forked child: forget the parent's zygote without touching it."""
        self._is_closed = True
        self._socket.close()
        self._program.close()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    try:
        return wire.socket_pair()
    except OSError as error:
        raise LaunchFailed.at("descriptors", error.errno or 0, _WHO) from error
