"""A hold on one process: signals that reach it or nobody.

On Linux the hold is a process descriptor, opened before the identity is looked at, so that the number cannot become a stranger's
in between. Where there is none, each signal looks again first; `weaker` says what that leaves open.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from types import TracebackType
from typing import Self

from fable_exec._sys import processes
from fable_exec.errors import IdentityLost, SignalRefused
from fable_exec.procident.guarding import why_protected
from fable_exec.procident.identity import Comparison, ProcessIdentity, compare
from fable_exec.procident.looking import identify, identify_by, lost, open_descriptor, told

__all__ = ["GROUP_SIGNAL_REFUSED", "ProcessHandle"]

GROUP_SIGNAL_REFUSED = "group identity changed or is imprecise; signal refused"

_LOOK_AGAIN_SECONDS = 0.02  # how often the end of a process is looked for where nothing tells it


class ProcessHandle:
    """One process, held until `close` or the end of the `with` block. Use it from one thread at a time.

    Its descriptor is close-on-exec. It stays valid when the process has ended: then `is_alive` is False and signals are
    IdentityLost, whoever has the number meanwhile.

    Attributes:
        identity: Who the process was when it was opened.
        weaker: What cannot be promised here, in words; empty on Linux 6.9 and newer with an ordinary /proc.
    """

    __slots__ = ("_descriptor", "_is_closed", "identity", "weaker")

    def __init__(self, identity: ProcessIdentity, descriptor: int | None, weaker: tuple[str, ...]) -> None:
        """Use `of` or `reopen`."""
        self.identity = identity
        self.weaker = weaker
        self._descriptor = descriptor
        self._is_closed = False

    @classmethod
    def of(cls, pid: int) -> ProcessHandle:
        """A handle on whoever has the number now: for a child that has not been waited for, whose number nobody else can get.

        Raises:
            IdentityLost: There is no such process, or it is a zombie.
            ValueError: `pid` is below 1.
        """
        descriptor, reason = open_descriptor(pid)
        try:
            identity = identify_by(pid, descriptor)
            return cls(identity, descriptor, _weaknesses(identity, descriptor, reason))
        except BaseException:
            if descriptor is not None:
                os.close(descriptor)
            raise

    @classmethod
    def reopen(cls, recorded: ProcessIdentity) -> ProcessHandle:
        """A handle on the process that was recorded, perhaps by another process and long ago.

        Raises:
            IdentityLost: With `gone` true the recorded process is no more, or a zombie, or a stranger has its number. With `gone`
                false it cannot be told, as from another PID namespace: send nothing, and do not call it dead.
        """
        try:
            handle = cls.of(recorded.pid)
        except IdentityLost:
            if recorded.is_of_namespace(told(processes.pid_namespace)):
                raise
            raise _unproved(recorded.pid) from None
        comparison = compare(recorded, handle.identity)
        if comparison is Comparison.SAME:
            return handle
        handle.close()
        if comparison is Comparison.OTHER:
            raise IdentityLost(f"process {recorded.pid} is another than the recorded one, which is gone", gone=True)
        raise _unproved(recorded.pid)

    @property
    def pid(self) -> int:
        """Its number in the PID namespace of whoever opened the handle; after its end perhaps a stranger's."""
        return self.identity.pid

    @property
    def has_descriptor(self) -> bool:
        """Whether the kernel gave a descriptor of it, so that `fileno` has one to tell."""
        return self._descriptor is not None

    def fileno(self) -> int:
        """The descriptor, which stays this handle's: readable once the process has ended, for poll(2) or an event loop.

        Raises:
            OSError: ENOSYS where there is none, as `has_descriptor` says; look with `wait` there.
        """
        self._require_open()
        if self._descriptor is None:
            raise OSError(errno.ENOSYS, "there are no process descriptors here")
        return self._descriptor

    def is_alive(self) -> bool:
        """Whether it runs; a zombie does not. IdentityLost (`gone` false) where that cannot be told without a descriptor."""
        return not self.wait(0)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until it has ended, for so long at most; whether it has. Its exit status stays for its parent to take.

        Raises:
            IdentityLost: Without a descriptor, when it cannot be told whether it lives; `gone` is false.
        """
        self._require_open()
        if self._descriptor is not None:
            return processes.has_ended(self._descriptor, timeout_seconds)
        give_up_at = time.monotonic() + timeout_seconds
        while self._is_seen():
            remaining = give_up_at - time.monotonic()
            if remaining <= 0:
                return False
            time.sleep(min(remaining, _LOOK_AGAIN_SECONDS))
        return True

    def send_signal(self, number: int) -> None:
        """Send the signal `number` to the process itself; 0 only asks whether it could be.

        Raises:
            IdentityLost: It has ended (`gone` true), or without a descriptor it cannot be proved to be the same (`gone` false).
            SignalRefused: It is process 1, this process or one of its ancestors, or may be one.
            PermissionError: The system does not let this user signal it.
            ValueError: There is no such signal.
        """
        self._require_open()
        _require_signal(number)
        self._require_alive()
        reason = why_protected(self.pid, self._descriptor)
        if reason:
            raise SignalRefused(f"process {self.pid} is never signalled: {reason}", reason=reason)
        try:
            if self._descriptor is None:
                self._require_alive()  # again, right before
                os.kill(self.pid, number)
            else:
                processes.signal_process(self._descriptor, number)
        except ProcessLookupError:
            raise lost(self.pid) from None

    def send_signal_to_group(self, number: int, *, recorded_pgid: int, recorded_sid: int) -> None:
        """Send the signal `number` to the group that the process leads, as the first process of a session of its own.

        Args:
            number: The signal; 0 only asks.
            recorded_pgid: The process group that was recorded when it was started.
            recorded_sid: The session that was recorded.
        Raises:
            SignalRefused: The two are not the number of the process, it does not lead that group and session now, it has ended,
                nothing precise names it here, it is protected as in `send_signal`, or this process or an ancestor is in the
                group. The message is GROUP_SIGNAL_REFUSED, `reason` says which; no signal was sent.
            PermissionError: The system does not let this user signal any of them.
            ValueError: There is no such signal.
        """
        self._require_open()
        _require_signal(number)
        reason = self._why_not_the_group(recorded_pgid, recorded_sid) or why_protected(self.pid, self._descriptor, group=True)
        if reason:
            raise SignalRefused(GROUP_SIGNAL_REFUSED, reason=reason)
        try:
            if self._descriptor is None or not _signals_groups(self._descriptor):
                self._require_alive()  # again, right before
                os.killpg(self.pid, number)
            else:
                processes.signal_process_group(self._descriptor, number)
        except ProcessLookupError:
            raise lost(self.pid) from None

    def close(self) -> None:
        """Let go of the process; it is not touched. May be called again."""
        descriptor, self._descriptor, self._is_closed = self._descriptor, None, True
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ProcessHandle({self.identity!r}{', closed' if self._is_closed else ''})"

    def _require_open(self) -> None:
        if self._is_closed:
            raise ValueError("the process handle is closed")

    def _require_alive(self) -> None:
        if not self.is_alive():
            raise lost(self.pid)

    def _is_seen(self) -> bool:
        """Whether it lives, by looking at its number again. IdentityLost where that proves nothing."""
        try:
            comparison = compare(self.identity, identify(self.pid))
        except IdentityLost:
            return False
        if comparison is Comparison.UNKNOWN:
            raise _unproved(self.pid)
        return comparison is Comparison.SAME

    def _why_not_the_group(self, recorded_pgid: int, recorded_sid: int) -> str:
        if not self.pid == recorded_pgid == recorded_sid:
            return f"process {self.pid} was recorded in group {recorded_pgid} and session {recorded_sid}"
        try:
            now = os.getpgid(self.pid), os.getsid(self.pid)
            is_alive = self.is_alive()  # asked last: what lives now had its number all the time
        except (ProcessLookupError, PermissionError) as error:  # also IdentityLost
            return str(error)
        if not is_alive:
            return f"process {self.pid} has ended"
        if now != (recorded_pgid, recorded_sid):
            return f"process {self.pid} is in group {now[0]} and session {now[1]} now"
        return ""


def _unproved(pid: int) -> IdentityLost:
    return IdentityLost(f"process {pid} cannot be proved to be the recorded one, nor another; no signal was sent", gone=False)


def _require_signal(number: int) -> None:
    if number != 0 and number not in signal.valid_signals():
        raise ValueError(f"there is no signal {number}")


def _signals_groups(descriptor: int) -> bool:
    """Whether the kernel signals a group by descriptor; a signal of 0 asks, and sends nothing."""
    try:
        processes.signal_process_group(descriptor, 0)
    except OSError as error:
        return error.errno != errno.EINVAL
    return True


def _weaknesses(identity: ProcessIdentity, descriptor: int | None, reason: str) -> tuple[str, ...]:
    found = []
    if descriptor is None:
        found.append(f"no process descriptor ({reason}): {_BY_NUMBER}")
    elif not _signals_groups(descriptor):
        found.append(_GROUP_BY_NUMBER)
    if identity.unique_id is None:
        found.append(_BY_TICK)
    if not identity.boot_id:
        found.append(_BY_HANDLE_ALONE)
    return tuple(found)


_BY_NUMBER = "a signal goes to the number right after it was looked at, and in between the number can become a stranger's"
_GROUP_BY_NUMBER = "no signals to groups by descriptor before Linux 6.9: one goes to the number while the leader is seen alive"
_BY_TICK = "no number of its own for each process before Linux 6.9: two of one number, born in one clock tick, have one record"
_BY_HANDLE_ALONE = "the name of the boot is hidden: no record of this process is ever proved; a handle that is held signals it"
