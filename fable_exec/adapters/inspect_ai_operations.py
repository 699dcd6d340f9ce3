"""What inspect-ai asks of a sandbox environment: a directory of its own for each sample, and its rules for errors.

It does not load inspect-ai; `fable_exec.adapters.inspect_ai` adds its classes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import sys
from collections.abc import Mapping, Sequence

import attrs

from fable_exec.adapters import inspect_ai_scripts as scripts
from fable_exec.adapters.inspect_ai_directories import SampleDirectory
from fable_exec.adapters.inspect_ai_policy import sample_document
from fable_exec.adapters.modes import check_readable, check_writable
from fable_exec.adapters.owned import owned_document, unlocked_broker
from fable_exec.adapters.shelltext import shell_command
from fable_exec.adapters.statuses import Completed, completed, refused, status_of
from fable_exec.adapters.values import CommandOutput, RunRequest, WorkspaceEvent
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.broker import AsyncExecutionBroker
from fable_exec.calls.building import as_bytes
from fable_exec.errors import (
    ConfinementUnavailable,
    Denied,
    ExecutableDenied,
    LaunchFailed,
    PathDenied,
    ShellDenied,
)

if sys.platform != "win32":
    import pwd

__all__ = ["InspectOperations", "Kept", "TooMuchOutput", "is_own_user"]

_STAYS_REFUSED = frozenset({"empty", "nul", "encoding", "not-regular", "hard-link", "writable-by-others", "protected-name"})
"""Refusals of a path that are the policy's, or mean that it is none. With the others a command may well use the name."""

_LOOK_SECONDS = 1.0


class TooMuchOutput(Exception):
    """A command wrote more to one stream than it may, and was ended. Here is what came before, of each stream `limit` at most."""

    def __init__(self, limit: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(f"more than {limit} bytes of output")
        self.limit = limit
        self.stdout = stdout
        self.stderr = stderr


@attrs.frozen
class Kept:
    """How a command ended whose daemons go on, and the broker's name for what they run in."""

    status: int
    stdout: bytes
    stderr: bytes
    handle: str


class InspectOperations:
    """One sample's environment: an empty directory, a broker over it with writes unlocked, and both gone after `close`.

    Opened by `open`. The directory is made for the sample and removed with it, so whoever opens it is its administrator.
    Dropped without `close` the commands end, and the directory stays.
    """

    def __init__(self, directory: SampleDirectory, broker: AsyncExecutionBroker) -> None:
        self._directory: SampleDirectory | None = directory
        self._broker = broker
        self._kept: dict[tuple[str, ...], asyncio.Future[Kept]] = {}
        self._keeping = asyncio.Lock()
        self.workspace = AgentWorkspace(broker)

    @classmethod
    async def open(cls, document_path: str | None = None) -> InspectOperations:
        """Make the environment.

        Args:
            document_path: a policy in TOML or JSON without `workspace` and `write_token_digest`, which are the sample's own.

        Raises:
            PolicyError: it is none, or names one of the two.
        """
        document = sample_document(owned_document(document_path))
        directory = SampleDirectory.make()
        try:
            return cls(directory, await unlocked_broker(document, directory.path))
        except BaseException:
            directory.remove()
            raise

    @classmethod
    async def check(cls, document_path: str | None = None) -> None:
        """Raise what every sample of this document would meet, with nothing made: PolicyError, ConfinementUnavailable."""
        sample = await cls.open(document_path)
        try:
            programs = sample.workspace.policy.allowed_executables
            foreseen = await sample._broker.explain(programs[:1]) if programs else None
            if foreseen is not None and foreseen.rule == "confinement":
                raise ConfinementUnavailable(foreseen.message)
        finally:
            await sample.close()

    async def close(self) -> None:
        """End what runs, then remove the directory. Idempotent."""
        try:
            await self._broker.close()
        finally:
            directory, self._directory = self._directory, None
            if directory is not None:
                directory.remove()

    # Commands

    async def execute(
        self,
        command: Sequence[str],
        *,
        stdin: str | bytes | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_output_bytes: int | None = None,
    ) -> Completed:
        """Run a command to its end. A missing program is a result, of status 127.

        A program that is not on the list, and a directory outside of the sample's, are for a shell that is: it runs the same
        command within the same confinement.

        Args:
            timeout: the policy's longest at most.
            max_output_bytes: of each stream, beside the policy's own limit; more ends the command.

        Raises:
            Denied: the policy refuses it, and lists no shell that could be let run it.
            PermissionError: it is not executable. FileNotFoundError, NotADirectoryError: `cwd` is not there, or no directory.
            TooMuchOutput: by this limit or the policy's.
        """
        request = RunRequest(
            tuple(command),
            cwd=cwd,
            env=env or {},
            stdin=None if stdin is None else as_bytes(stdin, "input"),
            timeout_seconds=self._bounded(timeout),
        )
        try:
            return await self._run(request, max_output_bytes)
        except LaunchFailed as error:
            if error.stage != "exec":
                raise
            if error.errno != errno.ENOENT:
                raise PermissionError(error.errno or errno.EACCES, str(error), command[0]) from error
            return await self._elsewhere(request, max_output_bytes) or refused(error)
        except (ExecutableDenied, PathDenied) as refusal:
            by_shell = await self._elsewhere(request, max_output_bytes) if self._is_for_a_shell(refusal, command[0]) else None
            if by_shell is None:
                raise
            return by_shell

    async def keep(self, command: Sequence[str]) -> Kept:
        """Run a command whose daemons go on: until the sample is closed, or for as long as the policy lets a command run.

        While they do, the same command is not run again, and the answer is that of the first time. One that fails leaves nothing.
        Whoever waits may be cancelled; the daemons are the sample's, and start all the same.

        Raises:
            Denied: the policy lists no shell that could be let run it.
        """
        words = tuple(command)
        async with self._keeping:
            starting = self._kept.get(words)
            if starting is None or (starting.done() and not await self._goes_on(starting)):
                starting = self._kept[words] = asyncio.ensure_future(self._start(words))
                starting.add_done_callback(_told)
            return await asyncio.shield(starting)

    # Files

    async def read(self, path: str, max_bytes: int | None = None) -> bytes:
        """All of a file, by a path relative to the sample's directory, or an absolute one as commands see it.

        Raises:
            OSError: builtin ones; EFBIG for a file larger than `max_bytes`, or than the policy's limit of output.
        """
        most = min(max_bytes or sys.maxsize, self.workspace.policy.max_output_bytes)
        try:
            await check_readable(self.workspace, path)
            found = await self.workspace.inspect(path, most)
        except PathDenied as refusal:
            if self._stays_refused(refusal):
                raise
            return await self._file(refusal, scripts.READ, path, str(most))
        if found.truncated:
            raise OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)} ({found.total_bytes} bytes)", path)
        return found.data

    async def write(self, path: str, contents: str | bytes) -> None:
        """Give a file exactly `contents`; missing parents are made. PermissionError for one that this user may not write to."""
        data = as_bytes(contents, "contents")
        try:
            await check_writable(self.workspace, path)
            await self.workspace.write_bytes(path, data)
        except PathDenied as refusal:
            if self._stays_refused(refusal):
                raise
            await self._file(refusal, scripts.WRITE, path, data=data)

    # Within

    async def _run(self, request: RunRequest, max_output_bytes: int | None) -> Completed:
        most = self.workspace.policy.max_output_bytes
        bound = None if max_output_bytes is None or max_output_bytes >= most else _Bound(max_output_bytes)
        result = await self.workspace.run(request, None if bound is None else bound.hear)
        if result.output_limited:
            raise TooMuchOutput(most, result.stdout_raw, result.stderr_raw)
        return completed(result)

    async def _elsewhere(self, request: RunRequest, max_output_bytes: int | None) -> Completed | None:
        """The same command by a listed shell, which may be anywhere that commands may; None if there is none."""
        mark = _mark()
        try:
            words = await self._shell(scripts.RUN, mark, request.cwd or ".", *request.command)
        except (ExecutableDenied, ShellDenied):
            return None
        done = await self._run(attrs.evolve(request, command=words, cwd=None), max_output_bytes)
        refusal = scripts.said(mark, done.stderr)
        if refusal is None:
            return done
        what, number = refusal
        raise OSError(number, os.strerror(number), request.cwd if what == "cwd" else request.command[0])

    async def _file(self, refusal: PathDenied, script: str, path: str, *more: str, data: bytes | None = None) -> bytes:
        """Let a shell read or write a file where the broker does not go. Raises `refusal` if there is none."""
        mark = _mark()
        try:
            words = await self._shell(script, mark, path, *more)
        except (ExecutableDenied, ShellDenied):
            raise refusal from None
        done = completed(await self.workspace.run(RunRequest(words, stdin=data)))
        said = scripts.said(mark, done.stderr)
        if said is None and done.status == 0 and not done.truncated:
            return done.stdout
        number = said[1] if said is not None else errno.EFBIG if done.truncated else errno.EIO
        told = "" if said is not None else f" ({done.reason}) {done.stderr.decode('utf-8', 'replace')!a:.200}"
        raise OSError(number, f"{os.strerror(number)}{told}", path)

    async def _shell(self, script: str, *arguments: str) -> tuple[str, ...]:
        """Raises ExecutableDenied, ShellDenied."""
        words = shell_command(script, await self.workspace.probe())
        return (*words, words[0], *arguments)

    async def _start(self, command: tuple[str, ...]) -> Kept:
        mark = _mark()
        started = await self._broker.start_background(
            await self._shell(scripts.KEEP, mark, *command),
            timeout_seconds=self.workspace.policy.limits.max_timeout_seconds,
            keep_stdin_open=True,
        )
        kept = await self._said_of(started.handle, mark)
        if kept.status != 0:
            await self._broker.cancel_command(started.handle)
        return kept

    async def _said_of(self, handle: str, mark: str) -> Kept:
        out = err = b""
        while True:
            read = await self._broker.read_command(handle, _LOOK_SECONDS)
            out, err = out + read.stdout_data, err + read.stderr_data
            found = scripts.kept_status(mark, out)
            if found is not None:
                return Kept(*found, err, handle)
            if read.result is not None:
                return Kept(status_of(read.result), out, err, handle)

    async def _goes_on(self, started: asyncio.Future[Kept]) -> bool:
        if started.cancelled() or started.exception() is not None or started.result().status != 0:
            return False
        return (await self._broker.read_command(started.result().handle)).running

    def _is_for_a_shell(self, refusal: Denied, program: str) -> bool:
        if isinstance(refusal, PathDenied):
            return not self._stays_refused(refusal)
        return program not in self.workspace.policy.allowed_executables

    def _stays_refused(self, refusal: PathDenied) -> bool:
        """With names that the policy protects, all paths are for the broker to judge."""
        return refusal.reason in _STAYS_REFUSED or bool(self.workspace.policy.paths.protected)

    def _bounded(self, timeout: float | None) -> float | None:
        return None if timeout is None else min(timeout, self.workspace.policy.limits.max_timeout_seconds)


class _Bound:
    """Hears what a command says, and ends it by raising TooMuchOutput where a stream becomes too long."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._heard = {"stdout": bytearray(), "stderr": bytearray()}

    def hear(self, event: WorkspaceEvent) -> None:
        if isinstance(event, CommandOutput):
            heard = self._heard[event.stream]
            heard += event.data
            if len(heard) > self._max_bytes:
                del heard[self._max_bytes :]
                raise TooMuchOutput(self._max_bytes, *map(bytes, self._heard.values()))


def _told(started: asyncio.Future[Kept]) -> None:
    """A failure is raised to those who wait; where nobody does any more, it is of nobody's interest."""
    if not started.cancelled():
        started.exception()


def is_own_user(user: str) -> bool:
    """Whether that name or number is the user that this process, and so each of its commands, runs as."""
    if sys.platform == "win32":
        return False
    try:
        uid = int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):  # a name that no user has, or none could
        return False
    return uid == os.geteuid()


def _mark() -> str:
    return secrets.token_hex(16)
