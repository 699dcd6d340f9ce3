"""What one broker holds, and how it is given back: when the broker is closed, or when nobody has it any more."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from fable_exec.broker.background import BackgroundCommands
from fable_exec.broker.confined import ConfinedCommands
from fable_exec.broker.dropped import Dropped, Started
from fable_exec.broker.recording import Recorder
from fable_exec.errors import BrokerGone
from fable_exec.executables import AllowedExecutables
from fable_exec.pathguard import Workspace

__all__ = ["Holdings"]

_H = TypeVar("_H")
_LAST_SECONDS = 0.1
"""For commands whose launchers are gone already: all that is left is to read so."""


class Holdings:
    """It knows nothing of the broker: whatever leads back to that would keep it for ever."""

    def __init__(
        self,
        workspace: Workspace,
        executables: AllowedExecutables,
        recorder: Recorder,
        confined: ConfinedCommands,
        background: BackgroundCommands,
    ) -> None:
        self.dropped = Dropped(self.forget)
        self._running: dict[Started[Any], weakref.finalize[Any, Any]] = {}
        """The commands behind handles that have not ended. Only the caller keeps the handle."""
        self._owner = os.getpid()
        self._workspace = workspace
        self._executables = executables
        self._recorder = recorder
        self._confined = confined
        self._background = background

    def hold(self, handle: object, started: Started[Any]) -> None:
        """Answer for the command behind `handle` until `forget`; whoever drops the handle ends it."""
        finalizer = weakref.finalize(handle, self.dropped.drop, started)
        finalizer.atexit = False  # the launcher ends with the process
        self._running[started] = finalizer

    def forget(self, started: Started[Any]) -> None:
        """It is over and everything is released. Idempotent."""
        finalizer = self._running.pop(started, None)
        if finalizer is not None:
            finalizer.detach()

    def handles(self, kind: type[_H]) -> list[_H]:
        """The handles of that kind that somebody has and whose commands have not ended."""
        found = [finalizer.peek() for finalizer in list(self._running.values())]
        return [each[0] for each in found if each is not None and isinstance(each[0], kind)]

    def give_back(self, end_background: Callable[[], None], end_running: Callable[[], None]) -> None:
        """Everything, in order, whatever goes wrong on the way. The ends are called while the audit log still takes lines."""
        with ExitStack() as all_of_it:
            all_of_it.callback(self._recorder.close)
            all_of_it.callback(self._workspace.close)
            all_of_it.callback(self._executables.close)
            all_of_it.callback(end_running)
            all_of_it.callback(self.dropped.finish, _LAST_SECONDS)
            all_of_it.callback(self._confined.close)
            all_of_it.callback(end_background)

    def left_open(self) -> None:
        """Nobody has the broker any more, and nobody closed it: warn as Python does of an open file, and give everything back.

        The garbage collector may call it in any thread, in the midst of anything: therefore the locks on this way may be taken
        twice by one thread, and no thread is waited for without end. In a forked child only the child's copies are released.
        """
        try:
            if os.getpid() == self._owner:
                warnings.warn(f"unclosed broker over {self._workspace.path}", ResourceWarning, stacklevel=3, source=self)
        finally:
            self.give_back(self._background.let_go, self._abandon_running)

    def _abandon_running(self) -> None:
        for started in list(self._running):
            started.running.abandon()
            if not started.running.inherited:
                started.prepared.operation.failed(BrokerGone("the broker was dropped without being closed"))
            self.forget(started)
