"""Wait for the end of a keeper: by a handle on it where its identity can be proved, else by the lock that it holds for life."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from fable_exec.errors import IdentityLost
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.holding import is_held
from fable_exec.procident import ProcessHandle, ProcessIdentity

__all__ = ["KeeperWatch", "pauses"]

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.2
_LONGEST_WAIT_SECONDS = 86400.0  # poll(2) takes no more than 24 days at once


class KeeperWatch:
    """Tells when nobody keeps an execution any more. Holds a process descriptor until it is closed; use it from one thread.

    A keeper that has ended holds no lock any more: its workspace is free by then. Where it died and `recover` is at it, this
    waits for that too. In another PID namespace, or where the boot's name is hidden, the lock is looked at every 20 to 200 ms.
    """

    def __init__(self, directory: ExecutionDirectory, document: Mapping[str, Any]) -> None:
        self._lock = directory.run_lock
        self._keeper = _handle_of(document)

    @property
    def descriptor(self) -> int | None:
        """What is readable once it has ended; None where its lock alone tells."""
        return self._keeper.fileno() if self._keeper is not None and self._keeper.has_descriptor else None

    def wait(self, seconds: float) -> bool:
        """Wait until it has ended, for so long at most; whether it has."""
        give_up_at = time.monotonic() + seconds
        if not self._process_ends_until(give_up_at):
            return False
        for pause in pauses():
            if not is_held(self._lock):
                return True
            left = give_up_at - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
        return True

    def _process_ends_until(self, moment: float) -> bool:
        while self._keeper is not None:
            left = moment - time.monotonic()
            try:
                if self._keeper.wait(min(max(left, 0.0), _LONGEST_WAIT_SECONDS)):
                    return True
            except IdentityLost:
                self.close()  # it cannot be told without a descriptor: the lock will tell
            if left <= 0:
                return False
        return True

    def close(self) -> None:
        """Let go of the keeper. May be called again."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _handle_of(document: Mapping[str, Any]) -> ProcessHandle | None:
    """On the recorded keeper; None when it is gone, and where nothing proves who it is."""
    try:
        return ProcessHandle.reopen(ProcessIdentity.from_members(document["supervisor_identity"]))
    except IdentityLost:
        return None


def pauses() -> Iterator[float]:
    """Between looks at the lock, in seconds, without end."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)
