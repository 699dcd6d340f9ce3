"""What a started command can be asked, whichever door started it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Protocol, TypeAlias

from fable_exec.protocol import CommandResult, Event

__all__ = ["AsyncCommandHandle", "CommandHandle", "OnEvent"]

OnEvent: TypeAlias = Callable[[Event], object]
"""Called with each event of a command as it comes. If it raises, the command's whole tree is ended and the error goes on.

The asyncio brokers await what it returns, if that can be awaited, before they take the next event; the blocking ones refuse it.
"""


class CommandHandle(Protocol):
    """A command that was started. Close it, or use it in `with`; closing ends whatever still runs of it.

    A handle that is dropped instead, before its end was seen, ends its command as well, with a ResourceWarning.
    """

    @property
    def command(self) -> tuple[str, ...]:
        """What was executed: the resolved executable and the arguments."""

    def events(self) -> Iterator[Event]:
        """`Started`, every piece of output as it comes, and `Exited`. One thread at a time; events that were taken are gone."""

    def write_stdin(self, data: str | bytes) -> int:
        """Send input, waiting for the command to read it; returns the number of bytes it took.

        Raises:
            Conflict: the command reads no more, or was started without `keep_stdin_open`.
            WritesLocked: writes were locked meanwhile and the command is one that may not run then.
        """

    def close_stdin(self) -> None:
        """Let the command see the end of its input."""

    def cancel(self) -> None:
        """End the whole tree; the outcome is `cancelled` unless the command had ended by itself. From any thread."""

    def wait(self, timeout_seconds: float | None = None) -> CommandResult | None:
        """The result, with all of the output; None when the command did not end in that time. Drops events not taken."""

    def close(self) -> None:
        """End the command if it still runs and release everything. Idempotent."""

    def __enter__(self) -> CommandHandle: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class AsyncCommandHandle(Protocol):
    """The asyncio twin of CommandHandle, for one task at a time (`cancel` from any). Dropping it ends its command too."""

    @property
    def command(self) -> tuple[str, ...]:
        """What was executed: the resolved executable and the arguments."""

    def events(self) -> AsyncIterator[Event]:
        """`Started`, every piece of output as it comes, and `Exited`. Events that were taken are gone."""

    async def write_stdin(self, data: str | bytes) -> int:
        """Send input, waiting for the command to read it; see CommandHandle."""

    async def close_stdin(self) -> None:
        """Let the command see the end of its input."""

    async def cancel(self) -> None:
        """End the whole tree; the outcome is `cancelled` unless the command had ended by itself."""

    async def wait(self, timeout_seconds: float | None = None) -> CommandResult | None:
        """The result, with all of the output; None when the command did not end in that time. Drops events not taken.

        Cancelling the waiting task ends the command first; running out of `timeout_seconds` does not.
        """

    async def close(self) -> None:
        """End the command if it still runs and release everything. Idempotent."""

    async def __aenter__(self) -> AsyncCommandHandle: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
