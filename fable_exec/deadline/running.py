"""Run a command under a deadline: by a process of its own, or here in a program that is one.

What ends a whole tree must be its subreaper, wait for every child and take signals; nothing of that may happen to an embedding
process.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from fable_exec._launcher import wire
from fable_exec._launcher.passing import write_within
from fable_exec.confine.probing import LAUNCHER_PROGRAM
from fable_exec.deadline.result import DeadlineEnd, DeadlineResult
from fable_exec.deadline.terms import Terms
from fable_exec.errors import InternalError, InvalidRequest, LaunchFailed
from fable_exec.outcome import Survivor
from fable_exec.runner.programs import Program, own_handle

if TYPE_CHECKING:
    from fable_exec._launcher.deadline import Stop

__all__ = ["run_here", "run_with_deadline", "tell"]

_PATIENCE_SECONDS = 30.0
"""Beyond hard and grace: for the start, the killing, the proof and the delivery."""
_WORDS_SECONDS = 0.5
_END_SECONDS = 1.0


def run_with_deadline(
    argv: Sequence[str | os.PathLike[str]],
    hard: float,
    idle: float | None = None,
    grace: float = 5.0,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> DeadlineResult:
    """Run `argv`, pass its output on, and return when it is over and nothing that it started is alive.

    A process of its own does the work; this one only waits, and gets no signal handler, no thread and no foreign child. When it
    ends, or the wait is interrupted by an exception such as KeyboardInterrupt, the command and its tree are ended.

    Args:
        argv: the program, looked up in the PATH of `env`, and its arguments; no shell.
        hard: seconds from the start to the end of the command and of the delivery of its output.
        idle: seconds that may pass without output; None for any.
        grace: seconds from SIGTERM to SIGKILL.
        cwd: where to run; None for here.
        env: its whole environment; None for ours.
        stdin, stdout, stderr: descriptors; None for ours (0, 1 and 2; /dev/null where one is closed). They stay the caller's.

    Returns:
        How it ended. A timeout is a result, and no exception.

    Raises:
        InvalidRequest: bad seconds (see Terms), no program, a NUL in an argument; nothing was started.
        LaunchFailed: it could not be started; `stage` is "exec", "cwd" or "deadline", the last also where there is no Linux.
        InternalError: the process that did the work was killed, or does not answer: what it ran may still run.
    """
    terms = Terms(hard, grace, idle)
    request = {
        "terms": [terms.hard, terms.grace, terms.idle],
        "argv": _checked([os.fspath(word) for word in argv]),
        "environment": _checked_environment(os.environ if env is None else env),
        "directory": None if cwd is None else os.fspath(cwd),
    }
    _require_linux()
    with ExitStack() as ours:
        # First: what is opened later may get the number of a closed one.
        streams = [_stream(given, number, ours) for number, given in enumerate((stdin, stdout, stderr))]
        program, channel = _started(ours)
        handles = own_handle()
        if not handles:
            raise LaunchFailed.at("deadline", errno.ENOSYS, "pidfd_open")
        ours.callback(os.close, handles[0])
        answer = _answer(channel, program, request, (*streams, *handles), terms)
    if "failed" in answer:
        raise LaunchFailed.at(answer["failed"], answer["errno"], answer["what"])
    return _result(answer)


def run_here(terms: Terms, argv: Sequence[str], stops: Sequence[Stop] = ()) -> tuple[DeadlineResult, bool]:
    """The same in this process, with its own streams and environment, once.

    It becomes a subreaper for good, handles SIGTERM, SIGINT, SIGHUP (unless ignored) and SIGCHLD, waits for all its children, and
    may be left with threads that write to somebody who does not read.

    Args:
        stops: what may stop the command besides signals, such as a CancelFile.

    Returns:
        The result, and whether a line on standard error would stand by itself.

    Raises:
        LaunchFailed: it could not be started.
    """
    _require_linux()
    from fable_exec._launcher import deadline
    from fable_exec._launcher.spawn import SpawnFailed, Streams

    try:
        ended = deadline.Deadline(deadline.Terms(terms.hard, terms.grace, terms.idle), Streams(0, 1, 2), stops).run(
            _checked(argv), os.environ
        )
    except SpawnFailed as failure:
        raise LaunchFailed.at(failure.stage, failure.number, failure.what) from failure
    return _result(ended._asdict()), ended.ends_a_line


def tell(text: str, *, wait: bool = True) -> None:
    """Write `text` to standard error, for people. Whoever reads that gets half a second, and no time at all without `wait`."""
    write_within(2, text.encode("utf-8", "backslashreplace"), _WORDS_SECONDS if wait else 0)


def _require_linux() -> None:
    if sys.platform != "linux":
        raise LaunchFailed.at("deadline", errno.ENOSYS, "this system, which has no subreaper")


def _checked(argv: Sequence[str]) -> list[str]:
    if not argv or not argv[0]:
        raise InvalidRequest("there is no program to run")
    if any("\0" in word for word in argv):
        raise InvalidRequest("an argument has a NUL")
    return list(argv)


def _checked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    if any("\0" in name + value or not name or "=" in name for name, value in environment.items()):
        raise InvalidRequest("an environment variable has no name, or a NUL, or = in its name")
    return dict(environment)


def _started(ours: ExitStack) -> tuple[Program, socket.socket]:
    """The process and our end of its socket; `ours` ends the one and closes the other."""
    try:
        channel, its = wire.socket_pair()
        ours.callback(channel.close)
        with its:
            program = Program(["-S", str(LAUNCHER_PROGRAM), "deadline"], its.fileno())
    except LaunchFailed:
        raise
    except OSError as error:
        raise LaunchFailed.at("deadline", error.errno or 0, sys.executable or "no Python interpreter") from error
    ours.callback(program.end, _END_SECONDS)
    return program, channel


def _answer(
    channel: socket.socket, program: Program, request: Mapping[str, Any], descriptors: tuple[int, ...], terms: Terms
) -> dict[str, Any]:
    """What the process that does the work says at the end. An interruption here ends what it runs.

    Raises:
        InternalError: it is gone, or does not answer.
    """
    try:
        wire.send(channel, request, descriptors)
        channel.settimeout(terms.hard + terms.grace + _PATIENCE_SECONDS)
        answer: dict[str, Any] = wire.receive(channel)[0]
        return answer
    except (wire.PeerGone, TimeoutError):
        raise InternalError("the process that keeps the deadline is gone or does not answer; the command may still run") from None
    except BaseException:
        channel.shutdown(socket.SHUT_WR)  # which ends the command
        program.wait(terms.grace + _PATIENCE_SECONDS)
        raise


def _stream(given: int | None, number: int, ours: ExitStack) -> int:
    if given is not None:
        return given
    try:
        os.fstat(number)
    except OSError:
        number = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        ours.callback(os.close, number)
    return number


def _result(ended: Mapping[str, Any]) -> DeadlineResult:
    return DeadlineResult(
        ended_by=DeadlineEnd(ended["reason"]),
        returncode=ended["returncode"],
        signal=ended["signal"],
        left_behind=_survivors(ended["left_behind"]),
        unended=_survivors(ended["unended"]),
        quiescent=ended["empty"],
        kill_sent=ended["killed"],
        errno=ended["number"],
        duration_seconds=ended["seconds"],
    )


def _survivors(members: Sequence[Sequence[Any]]) -> tuple[Survivor, ...]:
    return tuple(Survivor(pid=pid, name=name) for pid, name, _ in members)
