"""A started command as callers of this process hold it: the runner's handle with the broker's rules and words around it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from fable_exec.broker.commands import input_closed
from fable_exec.broker.dropped import Started as StartedWork
from fable_exec.calls.building import as_bytes
from fable_exec.errors import FableExecError
from fable_exec.outcome import Outcome
from fable_exec.protocol import CommandResult, Event, Exited, Output, Started
from fable_exec.runner import Exited as RunnerExited
from fable_exec.runner import Output as RunnerOutput
from fable_exec.runner import RunningCommand

__all__ = ["StartedCommand", "exited_event", "output_event"]

_STARTING_STEP_SECONDS = 0.005
"""How often to look whether the launcher has announced a command that says nothing."""


def exited_event(result: CommandResult, sequence: int) -> Exited:
    """The event that tells of the end which `result` is about."""
    return Exited(sequence=sequence, outcome=result.outcome, exit_code=result.exit_code, signal=result.signal)


def output_event(output: RunnerOutput, sequence: int) -> Output:
    """The event that hands out a piece of output."""
    return Output(sequence=sequence, stream="stdout" if output.stream == "stdout" else "stderr", data=output.data)


class StartedCommand:
    """See fable_exec.calls.CommandHandle. `on_end` is called when the command is over and everything is released.

    Args:
        keeper: what must stay as long as somebody has this handle: a broker that nobody has any more ends its commands.
    """

    def __init__(self, started: StartedWork[RunningCommand], on_end: Callable[[], None], keeper: object = None) -> None:
        self._keeper = keeper
        self._running = started.running
        self._prepared = started.prepared
        self._work = started.work
        self._on_end = on_end
        self._lock = threading.Lock()
        self._ended = False
        self._result: CommandResult | None = None
        self._outcome: Outcome | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """What was executed: the resolved executable and the arguments."""
        return self._prepared.executed

    @property
    def cwd(self) -> str:
        """Where, as components joined by "/", or "."."""
        return self._prepared.cwd

    @property
    def result(self) -> CommandResult | None:
        """The result once it is known."""
        return self._result

    @property
    def outcome(self) -> Outcome | None:
        """The outcome behind the result, once it is known."""
        return self._outcome

    @property
    def inherited(self) -> bool:
        """Whether this process is a forked child of the one that started it."""
        return self._running.inherited

    def events(self) -> Iterator[Event]:
        """`Started`, every piece of output as it comes, and `Exited`. One thread at a time; events that were taken are gone."""
        event = self._until_started()
        yield Started(sequence=0)
        sequence = 0
        while (event := event or self.next_event()) is not None:
            sequence += 1
            if isinstance(event, RunnerExited):
                yield exited_event(self._finish(event.outcome), sequence)
                return
            yield output_event(event, sequence)
            event = None

    def next_event(self, timeout_seconds: float | None = None) -> RunnerOutput | RunnerExited | None:
        """The runner's next event; None after the last one, or when none came in time."""
        with self._launching():
            event = self._running.next_event(timeout_seconds)
        if isinstance(event, RunnerExited):
            self._finish(event.outcome)
        return event

    def write_stdin(self, data: str | bytes, timeout_seconds: float | None = None) -> int:
        """Send input, waiting for the command to read it; returns how many bytes it took in that time.

        Raises:
            Conflict: the command reads no more, or was started without `keep_stdin_open`.
            WritesLocked: writes were locked meanwhile and the command is one that may not run then.
        """
        given = as_bytes(data, "data")
        self._work.admit_input(self._prepared)
        try:
            return self._running.write_stdin(given, timeout_seconds)
        except BrokenPipeError:
            raise input_closed(kept_open=self._prepared.command.open_stdin) from None

    def close_stdin(self) -> None:
        """Let the command see the end of its input."""
        self._running.close_stdin()

    def cancel(self) -> None:
        """End the whole tree; the outcome is `cancelled` unless the command had ended by itself. From any thread."""
        self._running.cancel()

    def wait(self, timeout_seconds: float | None = None) -> CommandResult | None:
        """The result, with all of the output; None when the command did not end in that time. Drops events not taken."""
        with self._launching():
            outcome = self._running.wait(timeout_seconds)
        return None if outcome is None else self._finish(outcome)

    def close(self) -> None:
        """End the command if it still runs and release everything; in a forked child the copies here. Idempotent."""
        if self._ended:
            return
        if self.inherited:
            self._running.abandon()
            self._end()
            return
        self._running.cancel()
        try:
            self.wait()
        except FableExecError:
            pass  # it never ran, so there is nothing to end

    def __enter__(self) -> StartedCommand:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _until_started(self) -> RunnerOutput | RunnerExited | None:
        """The first event, or None as soon as the launcher has announced the command."""
        while self._running.leader_pid is None:
            event = self.next_event(_STARTING_STEP_SECONDS)
            if event is not None:
                return event
        return None

    def _finish(self, outcome: Outcome) -> CommandResult:
        with self._lock:
            if self._result is None:
                self._outcome = outcome
                self._result = self._work.report(self._prepared, outcome)
                self._end()
            return self._result

    @contextmanager
    def _launching(self) -> Iterator[None]:
        try:
            with self._work.launching(self._prepared):
                yield
        except FableExecError:
            self._end()
            raise

    def _end(self) -> None:
        self._ended = True
        self._on_end()
