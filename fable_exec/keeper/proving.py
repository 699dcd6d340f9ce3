"""Send a canary through a plan before jobs are trusted to it: the same init, the same steps, the same gate."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Mapping
from typing import Any

from fable_exec._launcher import wire
from fable_exec.keeper.inits import Init
from fable_exec.keeper.job import Job, NotMade, unmake

__all__ = ["prove"]

_SECONDS = 10.0
_PIECE_BYTES = 65536


def prove(message: Mapping[str, Any], reply: socket.socket) -> None:
    """Answer with what the canary wrote, or with the step that failed. For a process of its own.

    Args:
        message: `plan` as for a job, `command` with the bait as its `canary`, and a `name` as for `Init`.
            Called with the signals blocked that a keeper handles; it takes some seconds at most.
    """
    try:
        job = Init(message["plan"], message["command"], message["name"]).begin()
    except NotMade as failure:
        _answer(reply, {"failed": failure.stage, "errno": failure.number, "what": failure.what})
        return
    try:
        job.open_gate()
        _answer(reply, {"written": _written(job).decode("ascii", "replace")})
    finally:
        unmake(job)


def _written(job: Job) -> bytes:
    give_up_at = time.monotonic() + _SECONDS
    waiting = select.poll()
    waiting.register(job.output, select.POLLIN)
    pieces = []
    while waiting.poll(max(0, int((give_up_at - time.monotonic()) * 1000))):
        piece = os.read(job.output, _PIECE_BYTES)
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces)


def _answer(reply: socket.socket, message: dict[str, Any]) -> None:
    try:
        wire.send(reply, message)
    except wire.PeerGone:
        pass  # nobody waits for the proof any more
