"""Which handler to call when which descriptor is ready: poll(2), for one thread at a time.

A handler may close its descriptor, and the next one to be opened gets the same number. A round therefore calls only handlers that
stood there when the kernel answered: otherwise the new owner of the number would be woken for the old one's event, and block.
"""

from __future__ import annotations

import select
from collections.abc import Callable

_LONGEST_MILLISECONDS = 1 << 30


class Readiness:
    """Descriptors and their handlers. Every event counts as ready, hang-ups too: the handler's read tells them apart."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[], object]] = {}

    def watch(self, descriptor: int, handler: Callable[[], object], *, writable: bool = False, urgent: bool = False) -> None:
        """Call `handler` whenever `descriptor` can be read (or written; or has what poll(2) calls urgent)."""
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.POLLPRI if urgent else select.POLLOUT if writable else select.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Stop; to be called before `descriptor` is closed. Nothing happens when it is not watched."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def round(self, milliseconds: int | None) -> None:
        """Wait for something to be ready, `milliseconds` at most, and call its handlers."""
        longest = None if milliseconds is None else min(max(0, milliseconds), _LONGEST_MILLISECONDS)
        ready = [(descriptor, self._handlers.get(descriptor)) for descriptor, _ in self._poll.poll(longest)]
        for descriptor, handler in ready:
            if handler is not None and self._handlers.get(descriptor) is handler:
                handler()
