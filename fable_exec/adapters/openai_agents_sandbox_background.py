"""Background commands of a sandbox session: they go on after the call that starts them, and are asked what they have said since.

With a terminal they take input. It does not load OpenAI's SDK.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shlex
from collections.abc import Mapping, Sequence

import attrs

from fable_exec.adapters.following import done_first
from fable_exec.adapters.statuses import status_of, status_of_refusal
from fable_exec.broker import AsyncExecutionBroker
from fable_exec.errors import Conflict, FableExecError, InvalidRequest
from fable_exec.protocol import ReadCommandResult

__all__ = ["BackgroundCommands", "Told"]

_PAUSE_SECONDS = 0.02
"""Between two reads of a command that talks without an end."""
_END_SECONDS = 5.0
"""How long one read waits for the end of a command that was told to end."""


@attrs.frozen(kw_only=True)
class Told:
    """What a command that goes on has said since it was last asked; `status` is None while it runs, `number` once it is over."""

    number: int | None
    output: bytes
    status: int | None


class BackgroundCommands:
    """Those of one session, each by a number that is the session's own; they end with the broker at the latest."""

    def __init__(self, broker: AsyncExecutionBroker) -> None:
        self._broker = broker
        self._commands: dict[int, _Command] = {}
        self._numbers = itertools.count(1)

    async def start(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = False, wait_seconds: float
    ) -> Told:
        """Start a command, and tell what it has said after `wait_seconds`, or at its end if that comes first.

        It ends at the longest time that the policy allows, with `end_all`, and with the session.

        Args:
            terminal: give it one, and take input for it (`feed`); otherwise its input is empty.
        """
        words = ("script", "-qec", shlex.join(command), "/dev/null") if terminal else tuple(command)
        starting = asyncio.ensure_future(self._started(words, dict(env or {}), terminal))
        try:
            running = await done_first(starting)
            return await self._tell(running, wait_seconds)
        except asyncio.CancelledError:  # nobody has been told its number
            if starting.exception() is None:
                await done_first(self._end(starting.result()))
            raise
        except FableExecError as error:
            if starting.exception() is not error:  # it began, and what failed is to be raised
                raise
            return Told(number=None, output=f"{error}\n".encode("utf-8", "replace"), status=int(status_of_refusal(error)))

    async def feed(self, number: int, data: str, *, wait_seconds: float) -> Told:
        """Give it input, if any, and tell what it has said since.

        Raises:
            KeyError: no such command goes on, or its end was told. InvalidRequest: it takes no input.
        """
        running = self._commands[number]
        if data and not running.takes_input:
            raise InvalidRequest("the command has no terminal, so it takes no input")
        await self._give(running, data.encode("utf-8", "replace"))
        return await self._tell(running, wait_seconds)

    async def end_all(self) -> None:
        """End every command that goes on; returns when all of them have ended."""
        for running in list(self._commands.values()):
            await self._end(running)

    async def _started(self, words: tuple[str, ...], env: dict[str, str], takes_input: bool) -> _Command:
        started = await self._broker.start_background(
            words,
            timeout_seconds=self._broker.policy.limits.max_timeout_seconds,
            env=env,
            on_output_limit="truncate",
            keep_stdin_open=takes_input,
        )
        running = _Command(next(self._numbers), started.handle, takes_input)
        self._commands[running.number] = running
        return running

    async def _give(self, running: _Command, data: bytes) -> None:
        with contextlib.suppress(Conflict):  # it reads no more, and its end will be told
            while data and (taken := (await self._broker.write_stdin(running.handle, data)).accepted_bytes):
                data = data[taken:]
        if data:
            running.say(f"[... {len(data)} bytes of input were not taken ...]\n")

    async def _tell(self, running: _Command, wait_seconds: float) -> Told:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        while True:
            read = await self._broker.read_command(running.handle, max(0.0, until - loop.time()))
            running.hear(read, self._broker.policy.max_output_bytes)
            if not read.running or loop.time() >= until:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        output = running.take()
        if read.running:
            return Told(number=running.number, output=output, status=None)
        self._commands.pop(running.number, None)
        return Told(number=None, output=output, status=None if read.result is None else status_of(read.result))

    async def _end(self, running: _Command) -> None:
        self._commands.pop(running.number, None)
        await self._broker.cancel_command(running.handle)
        while (await self._broker.read_command(running.handle, _END_SECONDS)).running:
            pass


@attrs.define
class _Command:
    """A command that goes on, by the broker's name for it, and what it said that nobody was told yet."""

    number: int
    handle: str
    takes_input: bool
    _unsaid: bytearray = attrs.field(factory=bytearray, init=False)
    _left_out: int = attrs.field(default=0, init=False)

    def hear(self, read: ReadCommandResult, max_bytes: int) -> None:
        """Add what was read, and keep the latest `max_bytes` of all."""
        self._left_out += read.stdout_omitted_bytes + read.stderr_omitted_bytes
        self._unsaid += read.stdout_data + read.stderr_data
        excess = max(0, len(self._unsaid) - max_bytes)
        del self._unsaid[:excess]
        self._left_out += excess

    def say(self, note: str) -> None:
        """A line of ours among what it says."""
        self._unsaid += note.encode()

    def take(self) -> bytes:
        """All of it, after a line that says how much is missing; nothing is kept."""
        said, left_out = bytes(self._unsaid), self._left_out
        self._unsaid, self._left_out = bytearray(), 0
        return f"[... {left_out} bytes left out ...]\n".encode() + said if left_out else said
