"""One command under a deadline: its output is passed on, and its whole tree is ended and proved gone.

For a process of its own: it becomes the subreaper of everything below it, waits for every child, and takes TERM, INT and HUP. Who
else may stop the command, and what an end means to a caller, is not known here; the program for a host is `deadline_program`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial

from . import steps
from .descriptor_limit import raise_descriptor_limit
from .ending import SETTLE_SECONDS, terminate_tree
from .linuxos import has_children, pipe_unblocking
from .passing import Passage
from .places import Subreaper
from .proctree import Member, members_below, pids_below
from .readiness import Readiness
from .resource_limits import IGNORED_BY_PYTHON, fork_limited
from .spawn import SpawnFailed, Streams
from .typed import NamedTuple, NoReturn, Protocol

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DELIVERY_SECONDS = 1.0
"""How long our reader may take for the rest of the output of a command that was ended."""
KILL_ROUNDS = 4
"""Each takes two seconds at most. A tree that outgrows one is killed again; members that no signal ends are given up."""


class Terms(NamedTuple):
    """Seconds from the start to the end of it all, from the first signal to SIGKILL, and without output."""

    hard: float
    grace: float
    idle: float | None


class Stop(Protocol):
    """Somebody else who may stop the command.

    `descriptor` is readable when it is time to ask, -1 where nothing tells that; after `period_seconds` it is asked in any case.
    """

    @property
    def descriptor(self) -> int: ...

    @property
    def period_seconds(self) -> float | None: ...

    def asked(self) -> bool:
        """Whether the command shall be stopped."""


class Ended(NamedTuple):
    """What became of a command that was started.

    Args:
        reason: "exited" by itself; or "hard_timeout", "idle_timeout", "signal", "stopped", "reader_gone", "output_failed".
        returncode: of the first process, negative for a signal; None when it could not be ended.
        signal: that we got and passed on, or 0.
        left_behind: who was alive although the first process had exited by itself. unended: who could not be ended.
        empty: whether it is proved that nothing is left: wait(2) has answered "no child".
        killed: whether SIGKILL was sent.
        number: the errno of "output_failed". ends_a_line: whether what was passed on to standard error ends with a newline.
    """

    reason: str
    returncode: int | None
    signal: int
    left_behind: list[Member]
    unended: list[Member]
    empty: bool
    killed: bool
    number: int
    ends_a_line: bool
    seconds: float


class Deadline:
    """One command, once. `streams` stay the caller's; `stops` can stop it besides signals."""

    def __init__(self, terms: Terms, streams: Streams, stops: Sequence[Stop] = ()) -> None:
        self._terms, self._streams, self._stops = terms, streams, stops
        self._began = time.monotonic()
        self._place = Subreaper()
        self._readiness = Readiness()
        self._signal = 0
        self._leader = 0
        self._status: int | None = None
        self._left_at: float | None = None
        self._reason = ""
        self._kill_at: float | None = None
        self._deliver_until: float | None = None
        self._empty = self._killed = self._told_everybody = False
        self._left_behind: list[Member] = []
        self._unended: list[Member] = []
        self._take_signals()
        self._bell, self._ringer = pipe_unblocking()
        self._over, self._open_while_alive = os.pipe()
        self._passages = [
            Passage(streams.stdout, self._over, self._ring, watched=True),
            Passage(streams.stderr, self._over, self._ring, watched=False),
        ]

    def run(self, argv: Sequence[str], environment: Mapping[str, str]) -> Ended:
        """Start `argv` in a session of its own, and return when it is over, whoever ended it.

        The program is looked up in the PATH of `environment`. It is killed if this process is. Raises SpawnFailed.
        """
        self._watch()
        try:
            if not self._signal:
                self._start(argv, environment)
            while self._leader and not self._is_over():
                self._readiness.round(self._milliseconds())
                self._judge(time.monotonic())
        except BaseException:
            self._kill()
            raise
        return self._ended()

    def _take_signals(self) -> None:
        """One that was ignored when we were started (nohup) stays ignored, by the command too."""
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)
        for ignored in IGNORED_BY_PYTHON:  # whoever started us may have given them back: a closed pipe must not kill us
            signal.signal(ignored, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a blocked SIGCHLD would never ring

    def _note(self, number: int, _: object) -> None:
        self._signal = self._signal or number

    def _watch(self) -> None:
        self._readiness.watch(self._place.descriptor, self._place.answer)
        self._readiness.watch(self._bell, partial(os.read, self._bell, 4096))
        for stop in self._stops:
            if stop.descriptor >= 0:
                self._readiness.watch(stop.descriptor, lambda: None)  # each is asked in every round

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it has rung often enough
            os.write(self._ringer, b"\0")

    def _start(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        inlets = [passage.inlet for passage in self._passages]
        copies = [(self._streams.stdin, 0), (inlets[0], 1), (inlets[1], 2)]
        execute = partial(_execute, argv, environment, os.getpid())
        raise_descriptor_limit()
        try:
            self._leader = self._place.start(lambda: fork_limited((), copies, execute))
        except OSError as error:
            raise SpawnFailed("exec", error.errno or 0, argv[0]) from error
        for passage in self._passages:
            os.close(passage.inlet)
            passage.start()

    # Who is gone, whether there is a reason to end the rest, whether it is time to kill

    def _judge(self, now: float) -> None:
        self._look_who_is_gone(now)
        if not self._reason:
            self._reason = self._why_to_stop(now)
            if self._reason:
                self._stop(now)
        if not self._reason or self._deliver_until is not None:
            return
        if self._kill_at is not None and now >= self._kill_at:
            self._kill()
            self._look_who_is_gone(now)
            self._close()
        elif self._left_at is not None and not self._told_everybody:
            self._told_everybody = True
            terminate_tree()

    def _look_who_is_gone(self, now: float) -> None:
        if self._status is None:
            result = self._place.reap_leader(self._leader)
            if result is not None:
                self._status, self._left_at = result[0], now
        if not self._empty and not has_children():
            self._empty = True
            self._close()

    def _why_to_stop(self, now: float) -> str:
        if any(passage.reader_gone for passage in self._passages):
            return "reader_gone"  # even if the command has noticed it before us, and has ended by that
        if self._left_at is not None and not self._empty:
            return "exited" if now >= self._left_at + SETTLE_SECONDS else ""
        if self._signal:
            return "signal"
        if any(stop.asked() for stop in self._stops):
            return "stopped"
        if any(passage.error for passage in self._passages):
            return "output_failed"
        if now - self._began >= self._terms.hard:
            return "hard_timeout"
        return "idle_timeout" if self._left_at is None and self._idle_left(now) <= 0 else ""

    def _idle_left(self, now: float) -> float:
        """Seconds until the lease ends. It does not run while our own reader keeps the output from going on."""
        if self._terms.idle is None:
            return self._terms.hard
        if any(passage.is_handing_on for passage in self._passages):
            return self._terms.idle
        return max(passage.renewed_at for passage in self._passages) + self._terms.idle - now

    def _stop(self, now: float) -> None:
        """Ask the first process and its group; the others are asked when it is gone."""
        for stop in self._stops:
            self._readiness.unwatch(stop.descriptor)  # what stays readable would wake us for nothing
        self._kill_at = now + self._terms.grace
        if self._reason == "exited":
            self._left_behind = members_below(os.getpid())
        if self._left_at is not None:
            return
        for number in (self._signal or signal.SIGTERM, signal.SIGCONT):
            # Its number is its own until it is waited for. What runs as another user may not be ours to signal.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, number)

    def _kill(self) -> None:
        """SIGKILL everything below us, however it forks; bounded."""
        self._killed = True
        known = set(pids_below(os.getpid()))
        for _ in range(KILL_ROUNDS):
            if self._place.end().empty:
                return
            found = set(pids_below(os.getpid()))
            if found <= known:
                break  # nobody forks any more, and who is there does not die
            known = found
        self._unended = members_below(os.getpid())

    def _close(self) -> None:
        """Nobody is left who could write, as far as we can do anything about it: what lies in the pipes is the rest."""
        if self._open_while_alive >= 0:
            os.close(self._open_while_alive)
            self._open_while_alive = -1
            self._deliver_until = time.monotonic() + DELIVERY_SECONDS

    def _is_over(self) -> bool:
        if self._deliver_until is None:
            return False
        if all(passage.is_done for passage in self._passages):
            return self._reason != "" or not any(passage.reader_gone or passage.error for passage in self._passages)
        return self._reason != "" and time.monotonic() >= self._deliver_until

    def _milliseconds(self) -> int:
        """Until the next thing that no descriptor tells."""
        now = time.monotonic()
        dues = [self._terms.hard]
        if not self._reason:
            dues += [self._began + self._terms.hard - now, self._idle_left(now)]
            dues += [stop.period_seconds for stop in self._stops if stop.period_seconds is not None]
            if self._left_at is not None and not self._empty:
                dues.append(self._left_at + SETTLE_SECONDS - now)
        elif self._deliver_until is not None:
            dues.append(self._deliver_until - now)
        elif self._kill_at is not None:
            dues.append(self._kill_at - now)
        return int(max(0.0, min(dues)) * 1000) + 1

    def _ended(self) -> Ended:
        errors = [passage.error.errno or 0 for passage in self._passages if passage.error]
        return Ended(
            reason=self._reason or ("exited" if self._leader else "signal"),
            returncode=None if self._status is None else os.waitstatus_to_exitcode(self._status),
            signal=self._signal,
            left_behind=self._left_behind,
            unended=self._unended,
            empty=self._empty or not self._leader,
            killed=self._killed,
            number=errors[0] if errors else 0,
            ends_a_line=self._passages[1].ends_a_line,
            seconds=time.monotonic() - self._began,
        )


def _execute(argv: Sequence[str], environment: Mapping[str, str], parent: int) -> NoReturn:
    steps.die_with_parent()
    if os.getppid() != parent:
        os._exit(0)  # nobody is left to read that
    os.execvpe(argv[0], list(argv), environment)
