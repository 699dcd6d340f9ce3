"""What a running command says, as progress notifications: few, short, and never ahead of the reader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fable_exec.adapters.values import CommandOutput, WorkspaceEvent
from fable_exec.outcome import decode_text, display_text

__all__ = ["MAX_MESSAGE_CHARACTERS", "SECONDS_BETWEEN", "Progress"]

SECONDS_BETWEEN = 0.1
MAX_MESSAGE_CHARACTERS = 1000
_KEPT_BYTES = 4 * MAX_MESSAGE_CHARACTERS

Report = Callable[[float, float | None, str | None], Awaitable[None]]


class Progress:
    """Notifications of one command: how many bytes it has said, and the end of what it said since the last one.

    Use it in `async with` around the command; `hear` gets its events and waits for nothing.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._said_bytes = 0
        self._unsaid = b""
        self._news = asyncio.Event()

    def hear(self, event: WorkspaceEvent) -> None:
        """Take note of an event."""
        if isinstance(event, CommandOutput):
            self._said_bytes += len(event.data)
            self._unsaid = (self._unsaid + event.data)[-_KEPT_BYTES:]
            self._news.set()

    async def __aenter__(self) -> Progress:
        self._telling = asyncio.ensure_future(self._tell())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._telling.cancel()

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            text, self._unsaid = self._unsaid, b""
            await self._report(float(self._said_bytes), None, display_text(decode_text(text))[-MAX_MESSAGE_CHARACTERS:])
            await asyncio.sleep(SECONDS_BETWEEN)
