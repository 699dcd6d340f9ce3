"""The conversation with a command that is scripted: nobody is at the other end, and its first step says all that there is."""

from __future__ import annotations

import time

import attrs

from fable_exec.errors import FableExecError
from fable_exec.outcome import Applied, Denial, EndedBy, Outcome, OutputBuffer, Survivor
from fable_exec.runner import Command
from fable_exec.runner.exchange import Exchange
from fable_exec.runner.feeding import CommandInput
from fable_exec.runner.streams import Sink, Watcher

__all__ = ["Ran", "Reply", "ScriptedExchange"]

_STEP_SECONDS = 0.01
"""How often one that hangs looks whether it was cancelled."""


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


@attrs.frozen(kw_only=True)
class Reply:
    """What a command is told to have done.

    Args:
        stdout, stderr: what it wrote. The policy's cap holds for it: what is too much ends it, or is cut.
        exit_code, signal: how it ended; a signal instead of a status.
        lasts_seconds: how long it is told to have been silent then. Nobody waits; beyond its deadline it was ended by that.
        hangs: it is silent until it is cancelled, or until its deadline has really come.
        survivors: who is told to have outlived it.
        denials: what is told to have been refused to it.
        error: it was never started, and this is raised, such as a LaunchFailed.
    """

    stdout: bytes = attrs.field(default=b"", converter=_as_bytes)
    stderr: bytes = attrs.field(default=b"", converter=_as_bytes)
    exit_code: int = 0
    signal: int | None = None
    lasts_seconds: float = 0.0
    hangs: bool = False
    survivors: tuple[Survivor, ...] = ()
    denials: tuple[Denial, ...] = ()
    error: FableExecError | None = None


@attrs.define
class Ran:
    """One command that came to be run.

    Args:
        argv: its arguments, the program's bare name first.
        command: all of it, as a launcher would have got it.
        read_only: it was let through as one that may not write.
        stdin: what it was given so far.
    """

    argv: tuple[str, ...]
    command: Command
    read_only: bool
    stdin: bytes = b""


class ScriptedExchange(Exchange):
    """What an Exchange is to whoever drives it; see the module."""

    def __init__(
        self, command: Command, applied: tuple[Applied, ...], watcher: Watcher, sink: Sink | None, ran: Ran, reply: Reply
    ) -> None:
        super().__init__(command, applied, watcher)
        self.leader = 0  # nobody's number
        self.input = _ScriptedInput(ran, stays_open=command.open_stdin)
        self._told, self._sink, self._reply = applied, sink, reply
        self._said = False
        self._ended_by: EndedBy | None = None
        self._kept = {name: OutputBuffer(command.max_output_bytes, command.on_output_limit) for name in ("stdout", "stderr")}
        self._began = time.monotonic()

    def due_at(self) -> float:
        self.refuse_inherited()
        return time.monotonic() + _STEP_SECONDS if self._said and not self.done else 0.0

    def tick(self) -> None:
        if self.done:
            return
        if not self._said:
            self._say()
        if not self._reply.hangs:
            self._end(self._virtual_end())
        elif time.monotonic() >= self._began + self._command.timeout_seconds:
            self._end(EndedBy.TIMED_OUT)

    def request_end(self, reason: EndedBy | None) -> None:
        if not self.done:
            self._end(reason)

    def abandon(self) -> None:
        self.done = True

    def outcome(self) -> Outcome:
        reply, ended_by = self._reply, self._ended_by
        if ended_by is None:
            ended_by = EndedBy.EXITED if reply.signal is None else EndedBy.SIGNALED
        by_itself = ended_by in (EndedBy.EXITED, EndedBy.SIGNALED)
        return Outcome(
            ended_by=ended_by,
            exit_code=reply.exit_code if ended_by is EndedBy.EXITED else None,
            signal=reply.signal if by_itself else 9,
            stdout=self._kept["stdout"].captured(),
            stderr=self._kept["stderr"].captured(),
            duration_seconds=self._duration(ended_by),
            survivors=reply.survivors,
            applied=self._told,
            denials=reply.denials,
        )

    def _say(self) -> None:
        self._said = True
        for name, data in (("stdout", self._reply.stdout), ("stderr", self._reply.stderr)):
            buffer = self._kept[name]
            buffer.append(data)
            shown = data if self._command.on_output_limit == "truncate" else data[: buffer.max_bytes]
            if self._sink is not None and shown:
                self._sink(name, shown)

    def _virtual_end(self) -> EndedBy | None:
        """What ended it, by the time that is told; None for itself."""
        command, lasts = self._command, self._reply.lasts_seconds
        if command.on_output_limit == "kill" and any(buffer.limited for buffer in self._kept.values()):
            return EndedBy.OUTPUT_LIMITED
        if command.idle_timeout_seconds is not None and command.idle_timeout_seconds < min(lasts, command.timeout_seconds):
            return EndedBy.IDLE_TIMED_OUT
        return EndedBy.TIMED_OUT if lasts > command.timeout_seconds else None

    def _end(self, reason: EndedBy | None) -> None:
        self._ended_by = reason
        self._really = time.monotonic() - self._began
        self.done = True

    def _duration(self, ended_by: EndedBy) -> float:
        if self._reply.hangs:
            return self._really
        if ended_by is EndedBy.IDLE_TIMED_OUT:
            return self._command.idle_timeout_seconds or 0.0
        return min(self._reply.lasts_seconds, self._command.timeout_seconds)


class _ScriptedInput(CommandInput):
    """Notes what a command is fed."""

    def __init__(self, ran: Ran, *, stays_open: bool) -> None:
        super().__init__(b"", stays_open=stays_open)
        self._ran = ran
        self._takes = stays_open

    def feed(self, data: bytes) -> int:
        if not self._takes:
            raise BrokenPipeError("standard input is closed")
        self._ran.stdin += data
        return len(data)

    def finish(self) -> None:
        self._takes = False

    def close(self) -> None:
        self._takes = False
