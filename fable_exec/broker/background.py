"""Commands that the broker drains by itself and remembers by a name: what a peer can start, leave, and come back to.

While one runs it has a thread that keeps its pipes empty, so that it never waits for a reader. What is not fetched stays within
the policy's cap. The number of commands is bounded, those that have ended make room for new ones, and `close` ends them all.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from fable_exec._sys.forks import ProcessLock
from fable_exec.broker.commands import input_closed
from fable_exec.broker.started import StartedCommand
from fable_exec.errors import BrokerGone, Conflict, FableExecError, InternalError, InvalidRequest
from fable_exec.outcome import whole_characters
from fable_exec.protocol import (
    CancelResult,
    CommandResult,
    CommandSummary,
    ListCommandsResult,
    ReadCommand,
    ReadCommandResult,
    StartResult,
    WriteStdin,
    WriteStdinResult,
)
from fable_exec.runner import Output

__all__ = ["BackgroundCommands"]

KNOWN_PER_RUNNING = 2
"""How many are remembered for each that may run."""
_TAKE_SECONDS = 5.0
"""How long `write_stdin` waits for a command that does not read."""

_LET_GO_SECONDS = 1.0


class _Unfetched:
    """Output of one stream that nobody has fetched; beyond the cap the oldest goes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._omitted = 0

    def __bool__(self) -> bool:
        return bool(self._data)

    def put(self, data: bytes) -> None:
        self._data += data
        excess = len(self._data) - self._max_bytes
        if excess > 0:
            del self._data[:excess]
            self._omitted += excess

    def take(self, *, running: bool) -> tuple[bytes, int]:
        """Everything, up to a character boundary while more may come, and how many bytes were lost before it."""
        size = whole_characters(bytes(self._data[-4:])) + max(0, len(self._data) - 4) if running else len(self._data)
        taken, omitted = bytes(self._data[:size]), self._omitted
        del self._data[:size]
        self._omitted = 0
        return taken, omitted


class _BackgroundCommand:
    """One command with its thread."""

    def __init__(self, name: str, started: StartedCommand, max_bytes: int, takes_input: bool) -> None:
        self.name = name
        self.started = started
        self.failure: FableExecError | None = None
        self.result: CommandResult | None = None
        self.owner = os.getpid()
        self._began = time.monotonic()
        self._changed = threading.Condition()
        self._unfetched = {"stdout": _Unfetched(max_bytes), "stderr": _Unfetched(max_bytes)}
        self._kept_open = self._takes_input = takes_input
        self._over = False
        self._thread = threading.Thread(target=self._drain, name=f"fable_exec {name}", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return not self._over

    @property
    def duration_seconds(self) -> float:
        return time.monotonic() - self._began if self.result is None else self.result.duration_seconds

    def read(self, wait_seconds: float) -> ReadCommandResult:
        with self._changed:
            self._changed.wait_for(lambda: self._over or any(self._unfetched.values()), wait_seconds)
            if self.failure is not None:
                raise self.failure
            out, out_omitted = self._unfetched["stdout"].take(running=self.running)
            err, err_omitted = self._unfetched["stderr"].take(running=self.running)
            return ReadCommandResult(
                handle=self.name,
                running=self.running,
                stdout_data=out,
                stderr_data=err,
                stdout_omitted_bytes=out_omitted,
                stderr_omitted_bytes=err_omitted,
                result=self.result,
            )

    def feed(self, data: bytes, close: bool) -> WriteStdinResult:
        if not self._takes_input or self._over:
            raise input_closed(kept_open=self._kept_open, ended=self._over)
        taken = self.started.write_stdin(data, _TAKE_SECONDS) if data else 0
        if close and taken == len(data):
            self._takes_input = False
            self.started.close_stdin()
        return WriteStdinResult(handle=self.name, accepted_bytes=taken, open=self._takes_input)

    def close(self, timeout_seconds: float | None = None) -> None:
        self.started.cancel()
        if self._thread is not threading.current_thread():  # garbage may be collected in any
            self._thread.join(timeout_seconds)

    def _drain(self) -> None:
        try:
            self._drain_to_the_end()
        except FableExecError as error:
            self.failure = error
        except Exception as error:  # the top of a thread: whoever reads must hear of it
            self.failure = InternalError(f"following the command failed with {type(error).__name__}: {error!s:.200}")
            self.started.cancel()
        finally:
            with self._changed:
                self.result = self.started.result
                self._over = True
                self._changed.notify_all()

    def _drain_to_the_end(self) -> None:
        while self.started.result is None:
            event = self.started.next_event()
            if isinstance(event, Output):
                with self._changed:
                    self._unfetched[event.stream].put(event.data)
                    self._changed.notify_all()


class BackgroundCommands:
    """The commands of one broker by name, at most `most` running at once. Thread-safe."""

    def __init__(self, max_bytes: int, most: int) -> None:
        self._max_bytes = max_bytes
        self._most = most
        self._lock = ProcessLock()
        self._by_name: dict[str, _BackgroundCommand] = {}
        self._number = 0
        self._closed = False

    def start(self, start: Callable[[], StartedCommand], takes_input: bool) -> StartResult:
        """Call `start` if there is room, and drain what it returns from now on.

        Raises:
            Conflict: too many are running.
        """
        with self._lock:
            self._make_room()
            started = start()
            self._number += 1
            name = f"command-{self._number}"
            try:
                self._by_name[name] = _BackgroundCommand(name, started, self._max_bytes, takes_input)
            except BaseException:  # such as no thread to be had: nobody would drain or end it
                started.close()
                raise
        return StartResult(handle=name, command=started.command, cwd=started.cwd)

    def read(self, request: ReadCommand) -> ReadCommandResult:
        """What it wrote since the last read. Raises InvalidRequest for an unknown name, and what following the command met."""
        return self._find(request.handle).read(request.wait_seconds)

    def feed(self, request: WriteStdin) -> WriteStdinResult:
        """Give it input, as much as it takes within _TAKE_SECONDS. Raises Conflict where it takes no more."""
        return self._find(request.handle).feed(request.data, request.close)

    def cancel(self, name: str) -> CancelResult:
        """Have its whole tree ended; returns before that is done. Raises InvalidRequest for an unknown name."""
        command = self._find(name)
        was_running = command.running
        command.started.cancel()
        return CancelResult(cancelled=was_running)

    def summaries(self) -> ListCommandsResult:
        """Those that are remembered, the oldest first."""
        with self._lock:
            self._refuse_closed()
            known = self._ours()
        return ListCommandsResult(
            commands=tuple(
                CommandSummary(
                    handle=each.name,
                    command=each.started.command,
                    cwd=each.started.cwd,
                    running=each.running,
                    duration_seconds=each.duration_seconds,
                )
                for each in known
            )
        )

    def let_go(self) -> None:
        """`close` for the garbage collector, which may have stopped the thread that another one waits for."""
        self.close(_LET_GO_SECONDS)

    def close(self, timeout_seconds: float | None = None) -> None:
        """End all that this process started. Idempotent; `start` refuses afterwards.

        Args:
            timeout_seconds: how long to wait for the thread of each; None is to its end, which comes within a second.
        """
        with self._lock:
            self._closed = True
            known = self._ours()
            self._by_name.clear()
        for each in known:
            each.started.cancel()
        for each in known:
            each.close(timeout_seconds)

    def _refuse_closed(self) -> None:
        """The broker's own look may have come before `close`, which forgets all names."""
        if self._closed:
            raise BrokerGone("the broker is closed")

    def _make_room(self) -> None:
        self._refuse_closed()
        if sum(each.running for each in self._ours()) >= self._most:
            raise Conflict(f"{self._most} background commands are running; cancel one first")
        ended = [name for name, each in self._by_name.items() if not each.running]
        for name in ended[: max(0, len(self._by_name) - KNOWN_PER_RUNNING * self._most + 1)]:
            del self._by_name[name]

    def _ours(self) -> list[_BackgroundCommand]:
        """Without those of a process that this one was forked from: their threads are there."""
        return [each for each in self._by_name.values() if each.owner == os.getpid()]

    def _find(self, name: str) -> _BackgroundCommand:
        with self._lock:
            self._refuse_closed()
            found = self._by_name.get(name)
        if found is None:
            raise InvalidRequest("there is no background command of that name; list_commands tells which there are")
        if found.owner != os.getpid():
            raise Conflict.inherited("this background command", found.owner)
        return found
