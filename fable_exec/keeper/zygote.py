"""The root of all keepers of one host: single-threaded, with everything loaded that they need, it forks one for each request.

A keeper is its child only while both live: it does not end with the zygote, nor the zygote with its host's last job.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
from collections.abc import Mapping
from typing import Any, NoReturn

from fable_exec._launcher import kernel, steps, wire
from fable_exec._launcher.descriptor_limit import raise_descriptor_limit
from fable_exec._launcher.probe import probe
from fable_exec._launcher.resource_limits import IGNORED_BY_PYTHON
from fable_exec.keeper.keeper import keep
from fable_exec.keeper.leaf import remove_forgotten
from fable_exec.keeper.proving import prove
from fable_exec.keeper.requests import Answer, Answered
from fable_exec.keeper.wishes import ENDING_SIGNALS

__all__ = ["serve"]


def serve(its_socket: int) -> None:
    """Fork keepers as the host asks, until the host is gone."""
    steps.default_signals()
    kernel.close_all_but(its_socket)
    raise_descriptor_limit()
    os.umask(0o077)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps: no keeper stays a zombie
    for number in IGNORED_BY_PYTHON:  # a leader that dies at its gate, or a caller's limit of files, must not take a keeper along
        signal.signal(number, signal.SIG_IGN)
    host = wire.adopt(its_socket)
    hello, handles = wire.receive(host)
    wire.send(host, {"support": _support(hello["user"], hello["group"])})
    remove_forgotten()
    gc.collect()
    gc.freeze()
    try:
        _serve_requests(host, handles)
    except wire.PeerGone:
        pass


def _support(user: int, group: int) -> Mapping[str, object]:
    """What this host can do for that user: asked by a child that becomes that user."""
    ours, theirs = wire.socket_pair()
    if os.fork() == 0:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            steps.become(user, group)
            wire.send(theirs, probe(user, group))
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        found: Mapping[str, object] = wire.receive(ours)[0]
    return found


def _serve_requests(host: socket.socket, handles: list[int]) -> None:
    waiting = select.poll()
    for descriptor in (host.fileno(), *handles):
        waiting.register(descriptor, select.POLLIN)
    while not any(descriptor in handles for descriptor, _ in waiting.poll()):
        try:
            message, descriptors = wire.receive(host)
        except wire.DescriptorsLost:
            continue  # the host sees that its end is closed
        _fork(message, descriptors[0])


def _fork(message: dict[str, Any], reply: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        pid = kernel.clone(0)  # no hooks of modules: there are no threads, and what they touch would be a copy in each keeper
    except OSError as error:
        with wire.adopt(reply) as channel, contextlib.suppress(wire.PeerGone):
            wire.send(channel, _not_forked(message, error))
    else:
        if pid == 0:
            _serve_one(message, reply)
        os.close(reply)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def _not_forked(message: dict[str, Any], error: OSError) -> dict[str, Any]:
    """The answer to a request that nobody can be had for, as its asker expects it."""
    number = error.errno or 0
    if "prove" in message:
        return {"failed": "fork", "errno": number, "what": ""}
    return Answered(answer=Answer.FAILED, reason="fork", text=str(error), errno=number).to_wire()


def _serve_one(message: dict[str, Any], reply: int) -> NoReturn:
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kernel.close_all_but(reply)
        if "prove" in message:
            prove(message["prove"], wire.adopt(reply))
        else:
            keep(message["keep"], wire.adopt(reply))
        status = 0
    finally:
        os._exit(status)
