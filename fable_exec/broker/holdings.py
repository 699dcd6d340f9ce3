"""What one broker holds, and how it is given back: when the broker is closed, or when nobody has it any more."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack

from fable_exec.broker.background import BackgroundCommands
from fable_exec.broker.confined import ConfinedCommands
from fable_exec.broker.recording import Operation, Recorder
from fable_exec.errors import BrokerGone
from fable_exec.executables import AllowedExecutables
from fable_exec.pathguard import Workspace
from fable_exec.runner import AsyncRunningCommand, RunningCommand

__all__ = ["Holdings"]


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
        self.running: dict[RunningCommand | AsyncRunningCommand, Operation] = {}
        """The commands behind handles that have not ended."""
        self._owner = os.getpid()
        self._workspace = workspace
        self._executables = executables
        self._recorder = recorder
        self._confined = confined
        self._background = background

    def give_back(self, end_background: Callable[[], None], end_running: Callable[[], None]) -> None:
        """Everything, in order, whatever goes wrong on the way. The ends are called while the audit log still takes lines."""
        with ExitStack() as all_of_it:
            all_of_it.callback(self._recorder.close)
            all_of_it.callback(self._workspace.close)
            all_of_it.callback(self._executables.close)
            all_of_it.callback(end_running)
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
        for running, operation in list(self.running.items()):
            running.abandon()
            if not running.inherited:
                operation.failed(BrokerGone("the broker was dropped without being closed"))
