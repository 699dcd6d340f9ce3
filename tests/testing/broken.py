"""Brokers that are broken on purpose, each in one way that real executors have been. The suite has to find every one of them.

They are the real broker but for that one thing. What they start ends by itself within some seconds, and the checks end it sooner.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import attrs

from fable_exec import BrokerPolicy, Denied, EndedBy, ExecutionBroker
from fable_exec.broker import StartedCommand
from fable_exec.calls import OnEvent
from fable_exec.errors import PathDenied, PathNotFound
from fable_exec.outcome import Captured, Outcome
from fable_exec.protocol import (
    Append,
    CommandResult,
    EditFile,
    ExecuteCommand,
    InspectFiles,
    InspectResult,
    MovePath,
    Request,
    Result,
    StartCommand,
    StatPath,
    StatResult,
    WriteFile,
)

__all__ = ["BROKEN", "Broken"]


class Broken(ExecutionBroker):
    """What all of them share: they remember themselves, so that a test can close for real what `close` did not."""

    made: ClassVar[list[ExecutionBroker]] = []

    def __init__(self, policy: BrokerPolicy) -> None:
        super().__init__(policy)
        Broken.made.append(self)

    @property
    def root(self) -> Path:
        return Path(self.policy.workspace)


class _Changing(Broken):
    """Changes what the real broker answers about commands."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        result = super().perform(request, on_event)
        return self.changed(result) if isinstance(result, CommandResult) else result

    def changed(self, result: CommandResult) -> CommandResult:
        raise NotImplementedError


class LosesTheEndOfLongOutput(_Changing):
    """One read, of as much as a pipe holds."""

    def changed(self, result: CommandResult) -> CommandResult:
        return attrs.evolve(result, captured_stdout=Captured(head=result.captured_stdout.head[:65_536]))


class TellsASignalAsAStatus(_Changing):
    """As a shell does: 128 and the number."""

    def changed(self, result: CommandResult) -> CommandResult:
        if result.signal is None or result.outcome is not EndedBy.SIGNALED:
            return result
        return attrs.evolve(result, outcome=EndedBy.EXITED, exit_code=128 + result.signal, signal=None)


class TellsADeadlineAsAnEnd(_Changing):
    """A command that had to be killed looks as if it had ended well."""

    def changed(self, result: CommandResult) -> CommandResult:
        return attrs.evolve(result, outcome=EndedBy.EXITED, exit_code=0, signal=None) if result.timed_out else result


class IsOffByOneAtTheCap(_Changing):
    """Output of exactly the cap counts as too much."""

    def changed(self, result: CommandResult) -> CommandResult:
        full = len(result.stdout_raw) == self.policy.max_output_bytes
        return attrs.evolve(result, outcome=EndedBy.OUTPUT_LIMITED) if full else result


class _WithPopen(Broken):
    """Runs commands with subprocess, as executors do."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if not isinstance(request, ExecuteCommand):
            return super().perform(request, on_event)
        argv = [*self.arguments(request)]
        process = subprocess.Popen(
            argv, cwd=self.root, env={"PATH": os.environ["PATH"], **request.env}, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = self.ended(process, request)
        code = process.wait()
        outcome = Outcome(
            ended_by=EndedBy.EXITED if code >= 0 else EndedBy.SIGNALED,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stdout=Captured(head=out),
            stderr=Captured(head=err),
        )
        return CommandResult.of(outcome, command=tuple(argv), cwd=".", policy_digest=self.policy.digest)

    def arguments(self, request: ExecuteCommand) -> Iterator[str]:
        yield from request.command

    def ended(self, process: subprocess.Popen[bytes], request: ExecuteCommand) -> tuple[bytes, bytes]:
        return process.communicate(request.stdin)


class LeavesWhatLeftTheSession(_WithPopen):
    """Waits for the leader, reads what is there, and kills its process group."""

    def ended(self, process: subprocess.Popen[bytes], request: ExecuteCommand) -> tuple[bytes, bytes]:
        process.wait()
        assert process.stdout is not None and process.stderr is not None and process.stdin is not None
        pipes = process.stdout, process.stderr
        for pipe in pipes:
            os.set_blocking(pipe.fileno(), False)
        out, err = (pipe.read() or b"" for pipe in pipes)
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass  # nobody is left in it
        for pipe in (*pipes, process.stdin):
            pipe.close()
        time.sleep(0.05)  # what was killed takes a moment to die
        return out, err


class WaitsForThePipe(_WithPopen):
    """Returns when the last holder of the output has closed it, whoever that is."""


class DropsEmptyArguments(_WithPopen):
    """As splitting and joining does."""

    def arguments(self, request: ExecuteCommand) -> Iterator[str]:
        yield from (argument for argument in request.command if argument)


class AsksAShell(_WithPopen):
    """Joins what was apart, with quotes that look right."""

    def arguments(self, request: ExecuteCommand) -> Iterator[str]:
        yield from ("/bin/sh", "-c", " ".join(f'"{argument}"' for argument in request.command))


class SwapsAnswers(Broken):
    """Keeps the last answer where all threads can get at it."""

    last: Result

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        result = super().perform(request, on_event)
        if not isinstance(result, CommandResult):
            return result
        self.last = result
        time.sleep(0.005)
        return self.last


class ChecksTheBeginning(Broken):
    """A path is inside if its text begins like the workspace's."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, InspectFiles):
            path = os.path.normpath(self.root / request.path.replace("\0", ""))
            if not path.startswith(str(self.root)):
                raise PathDenied("it leads out", reason="dotdot", path=request.path)
            if os.path.isfile(path) and not os.path.islink(path):
                data = Path(path).read_bytes()
                return InspectResult(path=request.path, data=data, content_hash="", truncated=False, total_bytes=len(data))
        return super().perform(request, on_event)


class FollowsLinks(Broken):
    """Refuses `..`, and opens what is left by its name."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, Append) and ".." not in request.path and "\0" not in request.path and self.writes_enabled:
            path = self.root / request.path.lstrip("/")
            if path.is_file():
                with open(path, "ab") as file:
                    file.write(request.content)
        return super().perform(request, on_event)


class RefusesWithoutAType(Broken):
    """The builtin alone, of which nobody can tell what was refused."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        try:
            return super().perform(request, on_event)
        except Denied as denied:
            raise PermissionError(str(denied)) from denied


class AppendsWhileLocked(Broken):
    """One of the writes was forgotten when the lock was made."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, Append) and not self.writes_enabled and (self.root / request.path).is_file():
            with open(self.root / request.path, "ab") as file:
                file.write(request.content)
        return super().perform(request, on_event)


class TakesTheDigestForTheToken(Broken):
    """Whoever can read the policy can unlock."""

    def unlock_writes(self, token: str, **more: Any) -> None:
        from fable_exec.testing.conformance.setting import TOKEN

        super().unlock_writes(TOKEN if token == self.policy.write_token_digest else token, **more)


class RemembersOldContents(Broken):
    """A cache that only its own writes refresh."""

    def __init__(self, policy: BrokerPolicy) -> None:
        super().__init__(policy)
        self._seen: dict[str, Result] = {}

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, InspectFiles):
            self.refuse_closed()
            if request.path not in self._seen:
                self._seen[request.path] = super().perform(request, on_event)
            elif not (self.root / request.path).exists():
                raise PathNotFound("it is gone", reason="not-found", path=request.path)
            return self._seen[request.path]
        if isinstance(request, WriteFile):
            self._seen.pop(request.path, None)
        return super().perform(request, on_event)


class TranslatesLineEnds(Broken):
    """Takes bytes for text on their way to the disk."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, WriteFile):
            request = attrs.evolve(request, content=request.content.replace(b"\r\n", b"\n"))
        return super().perform(request, on_event)


class MovesOverWhatIsThere(Broken):
    """As rename(2) does."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        return super().perform(attrs.evolve(request, replace=True) if isinstance(request, MovePath) else request, on_event)


class DescribesAnything(Broken):
    """Only what reads and writes was guarded."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, StatPath):
            found = os.stat(self.root / request.path.replace("\0", "").removesuffix("/x"))
            return StatResult(path=request.path, kind="file", size_bytes=found.st_size, mode=0, links=1, modified_seconds=0)
        return super().perform(request, on_event)


class EditsEveryPlace(Broken):
    """As str.replace does."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, EditFile) and request.old in (content := (self.root / request.path).read_bytes()):
            request = WriteFile(path=request.path, content=content.replace(request.old, request.new))
        return super().perform(request, on_event)


class ForgetsTheIdleDeadline(Broken):
    """One option of many got lost."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, ExecuteCommand):
            request = attrs.evolve(request, idle_timeout_seconds=None)
        return super().perform(request, on_event)


class RunsEverythingAtTheTop(Broken):
    """So did another."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        return super().perform(attrs.evolve(request, cwd=None) if isinstance(request, ExecuteCommand) else request, on_event)


class UnlocksForEver(Broken):
    """And another."""

    def unlock_writes(self, token: str, **more: Any) -> None:
        super().unlock_writes(token, **{**more, "expires_in_seconds": None})


class StartsWhileLocked(Broken):
    """Commands in the background go another way, on which nobody asks for the lock."""

    def perform(self, request: Request, on_event: OnEvent | None = None) -> Result:
        if isinstance(request, StartCommand) and not self.writes_enabled:
            subprocess.run(request.command, cwd=self.root, check=True)
        return super().perform(request, on_event)


class TellsACancelAsAnEnd(Broken):
    """The handle of a started command forgets why it ended."""

    def _start(self, request: Any) -> StartedCommand:
        started = super()._start(request)
        wait = started.wait

        def forgetful(timeout_seconds: float | None = None) -> CommandResult | None:
            result = wait(timeout_seconds)
            return result and attrs.evolve(result, outcome=EndedBy.EXITED, exit_code=0)

        started.wait = forgetful  # type: ignore[method-assign]  # broken on purpose
        return started


class LeavesWhatRuns(Broken):
    """Closing only closes the door."""

    def close(self) -> None:
        self._closed = True


BROKEN: dict[str, type[Broken]] = {
    each.__name__: each
    for each in (
        LosesTheEndOfLongOutput, TellsASignalAsAStatus, TellsADeadlineAsAnEnd, IsOffByOneAtTheCap, LeavesWhatLeftTheSession,
        WaitsForThePipe, DropsEmptyArguments, AsksAShell, SwapsAnswers, ChecksTheBeginning, FollowsLinks, RefusesWithoutAType,
        AppendsWhileLocked, TakesTheDigestForTheToken, RemembersOldContents, TranslatesLineEnds, MovesOverWhatIsThere,
        DescribesAnything, EditsEveryPlace, ForgetsTheIdleDeadline, RunsEverythingAtTheTop, UnlocksForEver, StartsWhileLocked,
        TellsACancelAsAnEnd, LeavesWhatRuns,
    )
}  # fmt: skip
