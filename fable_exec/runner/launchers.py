"""The host's side of the launcher program: start the zygote when it is first needed, open launchers, close everything.

One zygote a runner, one launcher a plan. All of it may be lost at any time (killed, out of memory): the next use starts it anew.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import tempfile
import threading
from typing import Any

import attrs

from .._launcher import removal, wire
from .._launcher.linuxos import pidfd_open
from ..confine import Plan, Support
from ..confine.probing import LAUNCHER_PROGRAM
from ..errors import BrokerGone, ConfinementUnavailable, LaunchFailed

_START_SECONDS = 20.0
_CLOSE_SECONDS = 3.0
_ZYGOTE_SOCKET = 3


@attrs.frozen(kw_only=True)
class WorkspaceIdentity:
    """The directory that all commands run beneath, as the host pinned it, and who owns it."""

    path: str
    device: int
    inode: int
    user: int
    group: int

    @classmethod
    def of(cls, path: str, descriptor: int) -> WorkspaceIdentity:
        """The identity of the directory behind `descriptor`, which stays the caller's."""
        found = os.fstat(descriptor)
        return cls(path=path, device=found.st_dev, inode=found.st_ino, user=found.st_uid, group=found.st_gid)

    def command_owner(self) -> tuple[int, int]:
        """The ids that commands get: our own; started as root, those of the workspace's owner."""
        if os.geteuid() == 0:
            return self.user, self.group
        return os.geteuid(), os.getegid()


class Zygote:
    """One running zygote. `private` is the directory it keeps for all commands; it removes that when it ends."""

    def __init__(self, workspace: WorkspaceIdentity) -> None:
        self._workspace = workspace
        ours, theirs = wire.socket_pair()
        try:
            self.pid = _spawn_zygote(theirs.fileno())
        except OSError as error:
            ours.close()
            raise LaunchFailed.at("zygote", error.errno or 0, sys.executable) from error
        finally:
            theirs.close()
        self._socket = ours
        greeting = self._greet()
        self.private: str = greeting["private"]
        self.support = Support.from_probe(greeting["support"])

    def open(self, plan: Plan) -> socket.socket:
        """A new launcher for `plan`: the socket that takes requests.

        Raises:
            ConfinementUnavailable: a step of the plan failed; nothing of this launcher is left.
        """
        ours, theirs = wire.socket_pair()
        try:
            with theirs:
                wire.send(self._socket, self._plan_on_wire(plan), (theirs.fileno(),))
            answer = _receive_within(ours, _START_SECONDS)
            if not answer["ready"]:
                raise _step_failed(plan, answer["step"], answer["errno"])
        except BaseException:
            ours.close()
            raise
        return ours

    def close(self) -> None:
        """End everything below the zygote and wait for it, some seconds at most; then kill what is left of it."""
        self._socket.close()
        if not _wait_for(self.pid, _CLOSE_SECONDS):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)
            _wait_for(self.pid, _CLOSE_SECONDS)
        removal.remove_tree(self.private)

    def abandon(self) -> None:
        """In a forked child: forget the parent's zygote without touching it."""
        self._socket.close()

    def _greet(self) -> dict[str, Any]:
        user, group = self._workspace.command_owner()
        handles = _own_handle()
        try:
            hello = {"user": user, "group": group, "directory": tempfile.gettempdir()}
            wire.send(self._socket, hello, tuple(handles))
            greeting: dict[str, Any] = _receive_within(self._socket, _START_SECONDS)
            return greeting
        except BaseException:
            self.private = ""
            self.close()
            raise
        finally:
            for handle in handles:
                os.close(handle)

    def _plan_on_wire(self, plan: Plan) -> dict[str, Any]:
        user, group = self._workspace.command_owner()
        return {
            **plan.to_wire(self.private),
            "user": user,
            "group": group,
            "workspace": {"path": self._workspace.path, "device": self._workspace.device, "inode": self._workspace.inode},
        }


class Launchers:
    """The launchers of one runner, by plan. Safe among threads; in a forked child it starts its own."""

    def __init__(self, workspace: WorkspaceIdentity) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._zygote: Zygote | None = None
        self._owner = os.getpid()
        self._open: dict[str, socket.socket] = {}
        self._closed = False

    def support(self) -> Support:
        """What the running zygote found; starts it when need be."""
        with self._lock:
            return self._running_zygote().support

    def get(self, plan: Plan) -> socket.socket:
        """The launcher for `plan`, opened when need be."""
        with self._lock:
            self._forget_after_fork()
            control = self._open.get(plan.digest)
            if control is None:
                control = self._open[plan.digest] = self._open_launcher(plan)
            return control

    def lost(self, plan: Plan, control: socket.socket) -> None:
        """`control` turned out to be dead: the next `get` opens another."""
        with self._lock:
            if self._open.get(plan.digest) is control:
                del self._open[plan.digest]
                control.close()

    def close(self) -> None:
        """End every launcher and the zygote, and with them all that still runs. Idempotent; `get` refuses afterwards."""
        with self._lock:
            self._forget_after_fork()
            self._closed = True
            for control in self._open.values():
                control.close()
            self._open.clear()
            if self._zygote is not None:
                self._zygote.close()
                self._zygote = None

    def _open_launcher(self, plan: Plan) -> socket.socket:
        try:
            return self._running_zygote().open(plan)
        except (wire.PeerGone, BrokerGone):
            # It was killed since its last use; all that it had is gone with it.
            self._discard_zygote()
            return self._running_zygote().open(plan)

    def _running_zygote(self) -> Zygote:
        self._forget_after_fork()
        if self._closed:
            raise BrokerGone("this runner is closed")
        if self._zygote is None:
            self._zygote = Zygote(self._workspace)
        return self._zygote

    def _discard_zygote(self) -> None:
        for control in self._open.values():
            control.close()
        self._open.clear()
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def _forget_after_fork(self) -> None:
        if self._owner == os.getpid():
            return
        self._owner = os.getpid()
        for control in self._open.values():
            control.close()
        self._open.clear()
        if self._zygote is not None:
            self._zygote.abandon()
            self._zygote = None


def _spawn_zygote(its_socket: int) -> int:
    """Start the launcher program with nothing of ours but one socket; returns its process id."""
    argv = [sys.executable, "-I", "-S", "-X", "utf8", str(LAUNCHER_PROGRAM), str(_ZYGOTE_SOCKET)]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        (os.POSIX_SPAWN_DUP2, its_socket, _ZYGOTE_SOCKET),
    ]
    return os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True)


def _own_handle() -> list[int]:
    """A descriptor of this process, by which the zygote sees its death; nothing where the kernel has none."""
    try:
        return [pidfd_open(os.getpid())]
    except OSError:
        return []


def _receive_within(channel: socket.socket, seconds: float) -> Any:
    waiting = select.poll()
    waiting.register(channel.fileno(), select.POLLIN)
    if not waiting.poll(int(seconds * 1000)):
        raise BrokerGone(f"the launcher program did not answer within {seconds:g} s")
    try:
        return wire.receive(channel)[0]
    except wire.PeerGone as error:
        raise BrokerGone("the launcher program ended while starting") from error


def _step_failed(plan: Plan, step: str, number: int) -> ConfinementUnavailable:
    reason = f"{step}: {os.strerror(number) if number else 'not known to this launcher'}"
    return ConfinementUnavailable(
        f'launch mode "{plan.mode}" was refused by this host at step {reason}', protection=step, reason=reason, errno=number
    )


def _wait_for(pid: int, seconds: float) -> bool:
    """Reap our child `pid` within `seconds`; True when it is gone, also when somebody else reaped it."""
    try:
        handle = pidfd_open(pid)
    except OSError:
        return _reaped(pid)
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        if not waiting.poll(int(seconds * 1000)):
            return False
        return _reaped(pid)
    finally:
        os.close(handle)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
