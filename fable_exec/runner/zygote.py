"""Our end of the zygote: start it, greet it, let it open launchers, end it. One host thread at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import tempfile
import time
from typing import Any

from fable_exec._launcher import removal, wire
from fable_exec.confine import Plan, Support
from fable_exec.confine.probing import LAUNCHER_PROGRAM
from fable_exec.errors import TOO_MANY_PROCESSES, BrokerGone, ConfinementUnavailable, LaunchFailed
from fable_exec.runner.control import Control
from fable_exec.runner.identity import WorkspaceIdentity
from fable_exec.runner.programs import Program, answer_within, own_handle

_START_SECONDS = 20.0
_CLOSE_SECONDS = 4.0
_DYING_SECONDS = 0.2
_REMOVE_SECONDS = 1.0
_REMOVE_PAUSE_SECONDS = 0.01
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Zygote:
    """One running zygote. It keeps a directory for all commands in `temporary_directory`, and removes that when it ends.

    Raises:
        LaunchFailed: it could not be started, or not do its first work. BrokerGone: it ended or was silent while starting.
    """

    def __init__(self, workspace: WorkspaceIdentity, temporary_directory: str) -> None:
        self._workspace, self._temporary_directory = workspace, temporary_directory
        self._greeting: dict[str, Any] | None = None
        try:
            self._socket, theirs = wire.socket_pair()
        except OSError as error:
            raise _cannot_start(error) from error
        try:
            self._process = Program(["-S", str(LAUNCHER_PROGRAM)], theirs.fileno())
        except OSError as error:
            self._socket.close()
            raise _cannot_start(error) from error
        finally:
            theirs.close()
        self._say_hello()

    @property
    def support(self) -> Support:
        """What it found out about this host."""
        return Support.from_probe(self.greeting()["support"])

    @property
    def private(self) -> str:
        """The directory it keeps for all commands, absolute."""
        path: str = self.greeting()["private"]
        return path

    def greeting(self) -> dict[str, Any]:
        """What it says of itself; waits for it the first time.

        Raises LaunchFailed or BrokerGone when it could not start; it is closed then.
        """
        if self._greeting is None:
            self._greeting = self._greeted()
        return self._greeting

    @property
    def pid(self) -> int:
        """Its process id, for display: it may be gone."""
        return self._process.pid

    def open(self, plan: Plan) -> Control:
        """A new launcher for `plan`: the socket that takes requests.

        Raises:
            ConfinementUnavailable: a step of the plan failed; nothing of this launcher is left.
            LaunchFailed: this process lacks descriptors. BrokerGone: the zygote or the launcher ended.
        """
        try:
            ours, theirs = wire.socket_pair()
        except OSError as error:
            raise _cannot_start(error) from error
        try:
            with theirs:
                _send(self._socket, self._plan_on_wire(plan), (theirs.fileno(),))
            answer = answer_within(ours, _START_SECONDS, "the launcher program")
            if not answer["ready"]:
                raise self._step_failed(plan, answer["step"], answer["errno"])
        except BaseException:
            Control(ours).close()
            raise
        return Control(ours)

    def has_ended(self) -> bool:
        """Whether it is gone, or about to be: a killed process closes its socket a moment before it is dead."""
        return self._process.wait(_DYING_SECONDS)

    def close(self) -> None:
        """End everything below the zygote and wait for it, some seconds at most; then kill what is left of it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked copy of this process may hold it open
        self._socket.close()
        self._process.end(_CLOSE_SECONDS)
        self._remove_private()

    def abandon(self) -> None:
        """In a forked child: forget the parent's zygote without touching it."""
        self._socket.close()
        self._process.close()

    def _remove_private(self) -> None:
        """Only after a kill is there anything to do. What the zygote ran may need a moment to die and write until then."""
        give_up_at = time.monotonic() + _REMOVE_SECONDS
        private = "" if self._greeting is None else self._greeting["private"]
        while private and os.path.lexists(private) and time.monotonic() < give_up_at:
            removal.remove_tree(private)
            if os.path.lexists(private):
                time.sleep(_REMOVE_PAUSE_SECONDS)

    def _say_hello(self) -> None:
        user, group = self._workspace.command_owner()
        handles = own_handle()
        try:
            hello = {"user": user, "group": group, "directory": self._temporary_directory}
            _send(self._socket, hello, tuple(handles))
        except BaseException:
            self.close()
            raise
        finally:
            for handle in handles:
                os.close(handle)

    def _greeted(self) -> dict[str, Any]:
        try:
            greeting: dict[str, Any] = answer_within(self._socket, _START_SECONDS, "the launcher program")
            if "failed" in greeting:
                raise LaunchFailed.at(greeting["failed"], greeting["errno"], greeting["what"])
            if shortage := Support.from_probe(greeting["support"]).shortage:  # or a weaker mode would pass for the best there is
                raise LaunchFailed.at("probe", shortage, "the launcher program")
            return greeting
        except BaseException:
            self.close()
            raise

    def _step_failed(self, plan: Plan, step: str, number: int) -> ConfinementUnavailable:
        reason = f"{step}: {os.strerror(number) if number else 'not known to this launcher'}"
        text = f'launch mode "{plan.mode}" was refused by this host at step {reason}{self._what_to_do(number)}'
        error = ConfinementUnavailable(text, protection=step, reason=reason, errno=number)
        return self._workspace.told_with_who_is_kept_out(error)

    def _what_to_do(self, number: int) -> str:
        if number in _NO_ROOM:
            return f"; make room in {self._temporary_directory}, or name another directory by TMPDIR"
        return f"; {TOO_MANY_PROCESSES}" if number == errno.EAGAIN else ""

    def _plan_on_wire(self, plan: Plan) -> dict[str, Any]:
        user, group = self._workspace.command_owner()
        return {**plan.to_wire(self.private), "user": user, "group": group, "workspace": self._workspace.to_wire()}


def temporary_directory() -> str:
    """Where the private directory goes, absolute. tempfile.gettempdir() writes there, which a full disk refuses."""
    try:
        if tempfile.tempdir:
            return os.path.abspath(os.fsdecode(tempfile.tempdir))  # tempfile leaves TMPDIR=. as it is
        named = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
        return next((os.path.abspath(path) for path in named if os.path.isdir(path)), "/tmp")
    except FileNotFoundError:
        return "/tmp"  # a relative one, and the current directory is gone


def _send(channel: socket.socket, message: Any, descriptors: tuple[int, ...]) -> None:
    try:
        wire.send(channel, message, descriptors)
    except wire.PeerGone as error:
        raise BrokerGone("the launcher program ended") from error
    except OSError as error:
        raise _cannot_start(error) from error


def _cannot_start(error: OSError) -> LaunchFailed:
    if isinstance(error, LaunchFailed):
        return error
    return LaunchFailed.at("launcher", error.errno or 0, sys.executable or "no Python interpreter")
