"""How a command ended and what it printed: plain values, and the rules by which bytes become text.

`OutputBuffer` is where a reader puts what it reads; `Captured` is what is left of a stream afterwards; `Outcome` is the one
closed answer to "what happened". Nothing here reads a descriptor, starts a process or decides what is allowed.
"""

from __future__ import annotations

import codecs
import re
from enum import Enum
from typing import Literal, get_args

import attrs

__all__ = [
    "Applied",
    "Captured",
    "Denial",
    "EndedBy",
    "Observed",
    "OnOutputLimit",
    "Outcome",
    "OutputBuffer",
    "Survivor",
    "TextDecoder",
    "decode_text",
    "display_line",
    "display_text",
    "whole_characters",
]

OnOutputLimit = Literal["kill", "truncate"]

_UNSEEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1: terminal commands live here
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi: text shown in another order than it is read (CVE-2021-42574)
    "\u00ad\u034f\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # zero width
    "\u2028\u2029"  # newlines that are not "\n"
    "\ud800-\udfff"  # lone surrogates: cannot be printed at all
    "\U000e0000-\U000e0fff"  # tags and supplementary variation selectors: invisible text
    "]"
)


def decode_text(data: bytes | bytearray | memoryview) -> str:
    """Decode UTF-8; every undecodable sequence becomes U+FFFD, nothing raises.

    For bytes that arrive in pieces use `TextDecoder`: this function sees a character split over two reads as two faults.
    """
    return str(data, "utf-8", "replace")


class TextDecoder:
    """Decode a stream piece by piece; the joined text equals `decode_text` of the joined bytes."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text that `data` completes. With `final` a character still waiting for bytes becomes U+FFFD."""
        return self._decoder.decode(data, final)


def display_text(text: str) -> str:
    """`text` with everything unseen made visible, fit for an operator's terminal or a log.

    Control characters other than newline and tab, bidirectional and zero-width characters, lone surrogates and the like become
    ``\\xNN``, ``\\uNNNN`` or ``\\UNNNNNNNN``. A backslash stays as it is, so this is for reading and cannot be undone.
    """
    return _UNSEEN.sub(_escape, text)


def display_line(text: str) -> str:
    """`display_text` that stays within one line: newline and tab become ``\\n`` and ``\\t``."""
    return display_text(text).replace("\n", "\\n").replace("\t", "\\t")


def _escape(match: re.Match[str]) -> str:
    number = ord(match.group())
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


class EndedBy(Enum):
    """The one reason a command's call ended. The value is the word on the wire."""

    EXITED = "exited"
    SIGNALED = "signaled"
    TIMED_OUT = "timed_out"
    IDLE_TIMED_OUT = "idle_timed_out"
    OUTPUT_LIMITED = "output_limited"
    MEMORY_LIMITED = "memory_limited"
    PIDS_LIMITED = "pids_limited"
    CANCELLED = "cancelled"
    BROKER_LOST = "broker_lost"


@attrs.frozen(kw_only=True)
class Captured:
    """What was kept of one stream: its first bytes, its last bytes, and how many there were.

    `tail` is empty unless bytes between `head` and `tail` were left out. `omitted_bytes` follows from the other fields; it is
    given only by a client to whom the output came as text, where the length of the text says nothing about the number of bytes.
    """

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = attrs.field(default=attrs.Factory(lambda self: len(self.head) + len(self.tail), takes_self=True))
    omitted_bytes: int = attrs.field(
        default=attrs.Factory(lambda self: self.total_bytes - len(self.head) - len(self.tail), takes_self=True)
    )

    @property
    def raw(self) -> bytes:
        """The kept bytes exactly as they were read, without a mark where bytes are missing."""
        return self.head + self.tail

    def text(self) -> str:
        """The kept bytes as text, cut on character boundaries where bytes were omitted.

        Between head and tail stands a line ``[N bytes omitted]`` that counts every byte not shown. The line takes its place from
        the head, so that valid UTF-8 never grows past the cap; where there is no room for it (a tiny cap) it is left out.
        """
        head, gap, tail = self._shown()
        return decode_text(head) + gap + decode_text(tail)

    @property
    def is_utf8(self) -> bool:
        """Whether every byte behind `text` was valid UTF-8, so that nothing had to become U+FFFD."""
        head, _, tail = self._shown()
        try:
            head.decode()
            tail.decode()
        except UnicodeDecodeError:
            return False
        return True

    def _shown(self) -> tuple[bytes, str, bytes]:
        if not self.omitted_bytes:
            return self.raw, "", b""
        head = self.head[: whole_characters(self.head)]
        tail = self.tail[_first_boundary(self.tail) :]
        room = len(self.head) - len(self._gap(self.total_bytes))
        if not self.tail or room <= 0:
            return head, "", tail
        head = self.head[: whole_characters(self.head, room)]
        return head, self._gap(self.total_bytes - len(head) - len(tail)), tail

    def display(self) -> str:
        """`text` made safe to show; see `display_text`."""
        return display_text(self.text())

    @staticmethod
    def _gap(omitted_bytes: int) -> str:
        return f"\n[{omitted_bytes} bytes omitted]\n"


def whole_characters(data: bytes, end: int | None = None) -> int:
    """The greatest position up to `end` (default: the end of `data`) that does not split a UTF-8 character begun before it.

    Whoever hands out a stream in pieces hands out ``data[:whole_characters(data)]`` and keeps the rest for the next piece.
    """
    end = len(data) if end is None else end
    for back in range(1, min(4, end) + 1):
        byte = data[end - back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return end if length <= back else end - back
    return end


def _first_boundary(data: bytes) -> int:
    """Where the first whole character begins: at most three continuation bytes belong to a character whose start was cut off."""
    for position in range(min(3, len(data))):
        if data[position] & 0xC0 != 0x80:
            return position
    return min(3, len(data))


class OutputBuffer:
    """Takes everything a stream says and keeps at most `max_bytes` of it, in bounded memory.

    Mode "kill" keeps the first `max_bytes` bytes (the caller ends the command when `limited` turns true); mode "truncate" keeps a
    head and a tail of half the size each, the tail in a ring, so that a flood costs one copy a byte and no more. Exactly
    `max_bytes` bytes are not limited. One thread at a time.
    """

    __slots__ = ("_head", "_head_room", "_ring", "_ring_at", "_ring_size", "max_bytes", "total_bytes")

    def __init__(self, max_bytes: int, mode: OnOutputLimit = "kill") -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        if mode not in get_args(OnOutputLimit):
            raise ValueError(f'mode must be "kill" or "truncate", not {mode!r}')
        self.max_bytes = max_bytes
        self.total_bytes = 0
        self._ring_size = max_bytes // 2 if mode == "truncate" else 0
        self._head = bytearray()
        self._head_room = max_bytes - self._ring_size
        self._ring = bytearray()
        self._ring_at = 0

    @property
    def omitted_bytes(self) -> int:
        """How many bytes were taken and not kept."""
        return max(0, self.total_bytes - self.max_bytes)

    @property
    def limited(self) -> bool:
        """Whether at least one byte was not kept."""
        return self.total_bytes > self.max_bytes

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Take `data` (bytes); returns how many bytes have been omitted so far."""
        size = len(data)
        self.total_bytes += size
        if self._head_room:
            taken = min(size, self._head_room)
            self._head += data if taken == size else memoryview(data)[:taken]
            self._head_room -= taken
            if taken == size:
                return 0
            data = memoryview(data)[taken:]
        if self._ring_size:
            self._append_tail(memoryview(data))
        return self.omitted_bytes

    def _append_tail(self, data: memoryview) -> None:
        data = data[-self._ring_size :]  # of a piece larger than the ring only its end can survive
        growth = min(len(data), self._ring_size - len(self._ring))
        if growth:
            self._ring += data[:growth]
            data = data[growth:]
        while data:
            part = data[: self._ring_size - self._ring_at]
            end = self._ring_at + len(part)
            self._ring[self._ring_at : end] = part
            self._ring_at = end % self._ring_size
            data = data[len(part) :]

    def captured(self) -> Captured:
        """What is kept so far, copied; more may be appended afterwards."""
        head = bytes(self._head)
        tail = bytes(self._ring[self._ring_at :] + self._ring[: self._ring_at])
        if not self.limited:
            head, tail = head + tail, b""
        return Captured(head=head, tail=tail, total_bytes=self.total_bytes)


@attrs.frozen
class Survivor:
    """A process of the call, not the leader, that was still alive when the call ended it; nothing of it is alive any more.

    Args:
        pid: its number as the command itself saw it. Under namespaces (every launch mode but "plain") that is one of its own PID
            namespace and another process on the host: to be compared with what the command printed, never to be signalled.
        name: its short kernel name, which it could choose.
    """

    pid: int
    name: str


@attrs.frozen
class Applied:
    """What became of one protection in this call.

    Args:
        protection: its name, as in the policy.
        mode: what the policy asked for.
        state: "active", "degraded" or "unavailable".
        means: the mechanisms that were set up, such as "mount namespace, Landlock"; empty when none was.
        reason: why it is not fully active; empty when it is.
    """

    protection: str
    mode: str
    state: str
    means: str
    reason: str = ""


class Observed(Enum):
    """Which refused calls of a command `denials` would tell: the value is the word of the policy and on the wire.

    `OFF` also where a launcher did not hand over in time what was noted, because it was lost or the tree took too long to end.
    """

    OFF = "off"
    CHANGES = "changes"
    READS = "reads"


@attrs.frozen(kw_only=True)
class Denial:
    """One act of the command that the kernel refused, for diagnosis only: the command had a hand in every word of it.

    Args:
        operation: what was tried, such as "connect" or "open for writing".
        path, address: what it was tried on, made safe to show and bounded by whoever builds this; one of the two is empty.
        protection: the protection that refused.
        suggestion: what an operator could change; empty when nothing comes to mind.
        fails: the policy does not count a call with this as a success, whatever its exit status.
    """

    operation: str
    path: str = ""
    address: str = ""
    protection: str
    suggestion: str = ""
    fails: bool = False


@attrs.frozen(kw_only=True)
class Outcome:
    """What happened to a command that ran.

    `exit_code` and `signal` are the kernel's status of the leader: at most one is set, and neither when the leader was never
    reaped. They do not replace `ended_by`: a command killed at its deadline has `timed_out` there and, usually, signal 9 here.
    `peak_rss_bytes` is the leader's, or its whole tree's where that was more and a limit had it looked at; `peak_processes`
    counts threads too and is 0 where nobody looked. `observed` says which refusals were looked for at all, and `denials_omitted`
    how many more than `denials` holds were only counted.
    """

    ended_by: EndedBy
    exit_code: int | None = None
    signal: int | None = None
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    duration_seconds: float = 0.0
    user_cpu_seconds: float = 0.0
    system_cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0
    peak_processes: int = 0
    survivors: tuple[Survivor, ...] = ()
    applied: tuple[Applied, ...] = ()
    denials: tuple[Denial, ...] = ()
    denials_omitted: int = 0
    observed: Observed = Observed.OFF

    @property
    def timed_out(self) -> bool:
        """Whether a deadline, the total or the idle one, ended the call."""
        return self.ended_by in (EndedBy.TIMED_OUT, EndedBy.IDLE_TIMED_OUT)

    @property
    def output_limited(self) -> bool:
        """Whether a byte of output was omitted, or the command was ended for its output."""
        return self.ended_by is EndedBy.OUTPUT_LIMITED or self.stdout.omitted_bytes > 0 or self.stderr.omitted_bytes > 0

    @property
    def success(self) -> bool:
        """Exit status 0 within the deadline, with all of the output, and nothing done that the policy counts as a failure."""
        ended_well = self.ended_by is EndedBy.EXITED and self.exit_code == 0 and not self.output_limited
        return ended_well and not any(denial.fails for denial in self.denials)
