"""The reading ends of a command's two output streams: what comes is kept within its cap and handed on."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Protocol

from fable_exec.outcome import Captured, OnOutputLimit, OutputBuffer
from fable_exec.runner.pipes import unread_bytes

_READ_BYTES = 1 << 16
_NAMES = ("stdout", "stderr")

Sink = Callable[[str, bytes], None]


class Watcher(Protocol):
    """What a driver offers: call `handler` when `descriptor` is readable (or writable)."""

    def watch(self, descriptor: int, handler: Callable[[], object], *, writable: bool = False) -> None:
        """Start; the descriptor is not yet watched."""

    def unwatch(self, descriptor: int) -> None:
        """Stop; the descriptor is still open."""


class Streams:
    """Closed until `open`.

    Args:
        sink: gets each piece as it comes; under "kill" nothing beyond the cap.
        heard: called for each piece, before it is handed on.
    """

    def __init__(
        self,
        max_bytes: int,
        on_limit: OnOutputLimit,
        watcher: Watcher,
        sink: Sink | None,
        heard: Callable[[], None],
    ) -> None:
        self._kills = on_limit == "kill"
        self._watcher = watcher
        self._sink = sink
        self._heard = heard
        self._buffers = {name: OutputBuffer(max_bytes, on_limit) for name in _NAMES}
        self._open: dict[int, str] = {}

    def __bool__(self) -> bool:
        """Whether one is open still."""
        return bool(self._open)

    @property
    def overflowed(self) -> bool:
        """Whether more came than may be kept, and that ends a command."""
        return self._kills and (self._buffers["stdout"].limited or self._buffers["stderr"].limited)

    def open(self, descriptors: list[int], changed: Callable[[], None]) -> None:
        """Take over the two pipes and watch them; `changed` is called after each piece, and after each stream's end."""
        for name, descriptor in zip(_NAMES, descriptors, strict=True):
            self._open[descriptor] = name
            self._watcher.watch(descriptor, partial(self._read, descriptor, changed))

    def captured(self, name: str) -> Captured:
        """What is kept of one stream."""
        return self._buffers[name].captured()

    def drain(self, changed: Callable[[], None]) -> None:
        """Take what is in the pipes now: all of it when their writers are dead, and a bounded amount when they are not."""
        for descriptor in list(self._open):
            rest = unread_bytes(descriptor)
            while rest > 0 and (taken := self._read(descriptor, changed)):
                rest -= taken

    def close(self) -> None:
        """Close what is open. Idempotent."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _read(self, descriptor: int, changed: Callable[[], None]) -> int:
        """Take what is there; returns how much that was."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self._heard()
            self._take(self._open[descriptor], data)
        else:
            self._close(descriptor)
        changed()
        return len(data)

    def _take(self, name: str, data: bytes) -> None:
        buffer = self._buffers[name]
        room = max(0, buffer.max_bytes - buffer.total_bytes)
        buffer.append(data)
        if self._sink is not None and (room or not self._kills):
            self._sink(name, data[:room] if self._kills else data)

    def _close(self, descriptor: int) -> None:
        self._watcher.unwatch(descriptor)
        del self._open[descriptor]
        os.close(descriptor)
