"""What a running command tells, in its order: pieces of output, and its end. Filled by an exchange, emptied by a handle."""

from __future__ import annotations

import itertools
from collections import deque

import attrs

from fable_exec.errors import InternalError
from fable_exec.outcome import EndedBy, Outcome
from fable_exec.runner.exchange import Exchange


@attrs.frozen
class Output:
    """A piece of one stream. `sequence` counts the command's events from 1 over both streams, `offset` the bytes of this one."""

    stream: str
    data: bytes
    sequence: int
    offset: int


@attrs.frozen
class Exited:
    """The last event: the command and everything it started are gone."""

    outcome: Outcome
    sequence: int


Event = Output | Exited


class EventQueue:
    """Events in their order; the last one is Exited."""

    def __init__(self) -> None:
        self._pending: deque[Event] = deque()
        self._numbers = itertools.count(1)
        self._offsets = {"stdout": 0, "stderr": 0}
        self._exchange: Exchange | None = None
        self._finished = False

    def attach(self, exchange: Exchange) -> None:
        """Take over `exchange`, whose sink is `put`."""
        self._exchange = exchange

    def put(self, stream: str, data: bytes) -> None:
        """Queue a piece of output."""
        self._pending.append(Output(stream, data, next(self._numbers), self._offsets[stream]))
        self._offsets[stream] += len(data)

    @property
    def exchange(self) -> Exchange:
        """The conversation behind this command. Raises Conflict in a forked child."""
        self._attached.refuse_inherited()
        return self._attached

    @property
    def inherited(self) -> bool:
        """Whether this process is a forked child of the one that started the command."""
        return self._attached.inherited

    @property
    def _attached(self) -> Exchange:
        if self._exchange is None:
            raise InternalError("a running command without an exchange")
        return self._exchange

    def abandon(self) -> None:
        """Release everything here and now. The launcher ends the command by itself; in a forked child it is left alone."""
        self._attached.abandon()

    @property
    def leader_pid(self) -> int | None:
        """The leader's process id as its launcher sees it, once it was announced. Never signal it: it is for display."""
        return self.exchange.leader

    def pop(self) -> Event | None:
        """The next event that is here already."""
        exchange = self.exchange
        if self._pending:
            return self._pending.popleft()
        if exchange.done and not self._finished:
            self._finished = True
            return Exited(exchange.outcome(), next(self._numbers))
        return None

    def cancel(self) -> None:
        """End the whole tree; the outcome is `cancelled` unless the leader had ended by itself. Safe from any thread."""
        self.exchange.request_end(EndedBy.CANCELLED)
