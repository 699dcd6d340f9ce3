"""The leader of one supervised job until it waits at its gate: it makes the namespaces ready, confines itself, and says so.

What a process does it has memory for, and what it puts on itself it lives under. So this process, which becomes the job's
program, does all that, and its init none of it.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from . import kernel, steps, wire
from .canary import be_canary
from .linuxos import pidfd_open
from .pins import Pins
from .spawn import SpawnFailed, Streams, Workspace, path_and_copies, prepare
from .typed import Any, NoReturn

Copies = Sequence[tuple[int, int]]

OF_A_KEEPER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that a keeper handles, and an init has blocked; all others are what they were made when the zygote began."""
_NOT_PREPARED = 126
_LONGEST_TOLD = 500
_STDOUT = 1


class Leader:
    """What it is to do.

    Args:
        plan, request: as `be_init` takes them. channel: to the keeper. streams: of the job.
        word: the keeper's word to begin, with what is to be pinned.
        prepared: closed when it is ready; -1 for none.
    """

    def __init__(
        self,
        plan: Mapping[str, Any],
        request: Mapping[str, Any],
        channel: socket.socket,
        streams: Streams,
        word: wire.Packet,
        prepared: int,
    ) -> None:
        self._plan, self._request = plan, request
        self._channel, self._streams, self._word, self._prepared = channel, streams, word, prepared

    def prepare(self) -> tuple[Copies, Callable[[], NoReturn]]:
        """Be ready, tell the keeper, and give what `fork_at_gate` wants; else tell it why not, and end."""
        try:
            for number in OF_A_KEEPER:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            handle = steps.run("fork", lambda: pidfd_open(os.getpid()))
            unpinned = self._confine()
            program = self._canary() if self._request["canary"] else self._program()
            wire.send(self._channel, {"leader": os.getpid(), "unpinned": unpinned, "used": _used()}, (handle,))
        except steps.StepFailed as failure:
            self._give_up({"failed": failure.step, "errno": failure.number, "what": ""})
        except SpawnFailed as failure:
            self._give_up({"failed": failure.stage, "errno": failure.number, "what": failure.what})
        except wire.PeerGone:
            os._exit(_NOT_PREPARED)
        except Exception as error:  # nobody else could tell of it
            self._give_up(fault(error))
        if self._prepared >= 0:
            os.close(self._prepared)
        return program

    def _give_up(self, message: dict[str, Any]) -> NoReturn:
        report(self._channel, message)
        os._exit(_NOT_PREPARED)

    def _confine(self) -> bool:
        """Do what the plan says; whether the kernel refused a pin that is not required."""
        pins, _ = wire.read(self._word)
        unpinned = None
        if self._plan["namespaces"]:
            if "user" in self._plan["namespaces"]:
                steps.run("map_ids", lambda: steps.map_own_ids(self._plan["user"], self._plan["group"]))
            steps.perform(self._plan["stage"])
            unpinned = steps.run("pins", lambda: Pins(self._plan["workspace"]["path"]).hold(pins["pins"]))
            if unpinned is not None and pins["pins_required"]:
                raise SpawnFailed("pins", unpinned.number, unpinned.path)
        steps.perform(self._plan["launcher"])
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        return unpinned is not None

    def _program(self) -> tuple[Copies, Callable[[], NoReturn]]:
        executable = prepare(self._request, Workspace(**self._plan["workspace"]))
        path, copies = path_and_copies(self._request["executable"], executable, self._streams)
        environment = {**self._plan["environment"], **self._request["environment"]}
        return copies, partial(os.execve, path, self._request["argv"], environment)

    def _canary(self) -> tuple[Copies, Callable[[], NoReturn]]:
        """Who goes for the bait instead of a job, through the same gate."""
        copies = [(source, target) for target, source in enumerate(self._streams)]
        return copies, partial(be_canary, self._request["canary"], self._plan["workspace"]["path"], _STDOUT)


def _used() -> tuple[float, float]:
    """User and system seconds that are not the job's."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime


def report(channel: socket.socket, message: dict[str, Any]) -> None:
    """Tell the keeper, if it is there."""
    try:
        wire.send(channel, message)
    except wire.PeerGone:
        pass  # the keeper is gone, and with it whoever wanted to know


def fault(error: Exception) -> dict[str, Any]:
    """What is told of a fault of ours."""
    return {"failed": "init", "errno": getattr(error, "errno", None) or 0, "what": repr(error)[:_LONGEST_TOLD]}
