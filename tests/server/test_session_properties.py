"""Whatever bytes come, however they are cut, in whatever order work is finished: one answer a request, in step, bounded.

The core is driven in memory, with a broker that only answers probes and a choice of what finishes next.
"""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from fable_exec import Limits
from fable_exec.errors import FableExecError, PathNotFound
from fable_exec.outcome import Applied
from fable_exec.protocol import Cancel, CancelResult, LimitsReport, Probe, ProbeResult
from fable_exec.server.lines import AnswerLines, error_line
from fable_exec.server.session import MAX_WAITING, Session, Task, cancelled_before_it_began
from fable_exec.testing.strategies import splits

LIMITS = Limits(max_frame_bytes=64 * 1024, max_in_flight=3)
PROBED = ProbeResult(
    available_executables=("true",),
    unresolved_executables=(),
    writes_enabled=False,
    read_locked_interpreters=(),
    workspace="/w",
    policy_digest="0" * 64,
    confinement=(Applied("whole_tree_end", "strict", "active", "a"),),
    limits=LimitsReport(
        timeout_seconds=1.0, max_timeout_seconds=1.0, idle_timeout_seconds=None, max_output_bytes=1,
        max_frame_bytes=1, max_answer_bytes=1, max_in_flight=1,
    ),
)  # fmt: skip

ids = st.one_of(st.none(), st.integers(-2, 4), st.sampled_from(["a", "b", "é", "x" * 128, "x" * 129, "\ud800"]), st.booleans())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A line that is a request, or nearly one."""
    members: dict[str, Any] = {"action": draw(st.sampled_from(["probe", "stat_path", "cancel", "execute_command", "nope"]))}
    if (identifier := draw(ids)) is not None:
        members["id"] = identifier
    if draw(st.booleans()):
        members["path"] = "a"
    if members["action"] == "cancel":
        members["target"] = draw(ids)
    if members["action"] == "execute_command":
        members["command"] = ["true"]
    if draw(st.integers(0, 9)) == 0:
        members[draw(st.text(max_size=5))] = draw(json_values)
    raw = json.dumps(members, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0 and raw:
        position = draw(st.integers(0, len(raw) - 1))
        raw = raw[:position] + draw(st.binary(max_size=2)) + raw[position + 1 :]
    return raw


lines = st.one_of(
    requests(),
    requests(),
    st.binary(max_size=40),
    st.sampled_from(
        [b"", b" ", b"\r", b"\xff", b"{}", b"[]", b"null", b"{" * 100, b"[" * 2000, b"9" * 6000, b"x" * 65_537, b"NaN"]
    ),
)


class Loop:
    """The shell of the server with everything that takes time decided by the test."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.session = Session(LIMITS)
        self.running: list[Task] = []
        self.answers: list[dict[str, Any]] = []
        self.lines = AnswerLines(LIMITS.max_answer_bytes)

    def begin_what_may_begin(self) -> None:
        while (task := self.session.next_task()) is not None:
            self.running.append(task)
            assert len(self.running) <= LIMITS.max_in_flight + 1  # a cancel or an error may come on top
            if task.error is not None or isinstance(task.request, Cancel):
                self.finish(task)

    def finish(self, task: Task) -> None:
        self.running.remove(task)
        request = task.request
        if task.error is not None:
            self.emit(error_line(task, task.error))
        elif isinstance(request, Cancel) and request.target is not None:
            self.emit(self.lines.answer(task, CancelResult(cancelled=self.cancel(request.target))))
        elif isinstance(request, Probe):
            self.emit(self.lines.answer(task, PROBED))
        else:
            self.emit(error_line(task, PathNotFound("nothing", reason="not-found", path="a")))
        self.session.finished(task)

    def cancel(self, target: str | int) -> bool:
        task = self.session.find(target)
        if task is None or not self.session.withdraw(task):
            return False
        self.emit(error_line(task, cancelled_before_it_began()))
        return True

    def emit(self, line: bytes) -> None:
        assert line.count(b"\n") == 1 and line.endswith(b"\n")
        assert len(line) < 16 * 1024
        self.answers.append(json.loads(line))

    def finish_some(self) -> None:
        goes_on: st.SearchStrategy[Any] = st.booleans()
        while self.running and self.data.draw(goes_on, label="another finishes"):
            self.finish(self.data.draw(st.sampled_from(self.running), label="which"))
            self.begin_what_may_begin()

    def finish_all(self) -> None:
        self.begin_what_may_begin()
        while self.running:
            self.finish(self.data.draw(st.sampled_from(self.running), label="which"))
            self.begin_what_may_begin()


def frames_of(stream: bytes) -> list[bytes]:
    """What counts as a request, said in another way than the reader says it."""
    found = [frame.removesuffix(b"\r") for frame in stream.split(b"\n")]
    return [frame for frame in found if frame.strip(b" \t\r\x0b\x0c")]


@pytest.mark.fuzz
@hypothesis.given(
    data=st.data(),
    sent=st.lists(lines, max_size=12),
    ended=st.booleans(),
)
def test_every_request_is_answered_once_and_in_step(data: st.DataObject, sent: list[bytes], ended: bool) -> None:
    stream = b"\n".join(sent) + (b"\n" if ended else b"")
    loop = Loop(data)
    for piece in data.draw(splits(stream), label="pieces"):
        if loop.session.wants_input:
            loop.session.feed(piece)
        else:  # the peer's pipe is full until something is finished
            loop.finish_all()
            loop.session.feed(piece)
        loop.begin_what_may_begin()
        loop.finish_some()
    loop.session.feed_eof()
    loop.finish_all()
    assert loop.session.at_end
    assert len(loop.answers) == len(frames_of(stream))
    _check_ids(loop.answers, frames_of(stream))


def _check_ids(answers: list[dict[str, Any]], frames: list[bytes]) -> None:
    """Each id comes back as often as it was sent, and what has none is answered in the order it was sent."""
    sent, in_order = [], []
    for frame in frames:
        try:
            members = json.loads(frame)
        except (ValueError, RecursionError):
            members = None
        identifier = members.get("id") if isinstance(members, dict) and len(frame) <= LIMITS.max_frame_bytes else None
        known = type(identifier) is int or (isinstance(identifier, str) and len(identifier) <= 128 and identifier != "\ud800")
        if known:
            sent.append(repr(identifier))
        else:
            in_order.append(frame)
    got = [repr(answer["id"]) for answer in answers if "id" in answer]
    unread = len(sent) - len(got)  # ids in lines that are JSON for json.loads and not for the stricter reader
    assert sorted(got) == sorted(sent) or (unread > 0 and not set(got) - set(sent))
    kinds = [_kind(frame) for frame in in_order]
    if unread == 0:
        told = [answer["ok"] for answer in answers if "id" not in answer]
        assert [kind for kind in kinds if kind is not None] == [
            is_ok for is_ok, kind in zip(told, kinds, strict=True) if kind is not None
        ]


def _kind(frame: bytes) -> bool | None:
    """Whether the answer says ok, None where that takes more than a look."""
    return True if frame == b'{"action": "probe"}' else False if frame in (b"{}", b"[]", b"null", b"\xff") else None


@hypothesis.given(st.lists(requests(), min_size=1, max_size=30), st.integers(1, 64))
def test_what_waits_stays_bounded_while_nothing_finishes(sent: list[bytes], times: int) -> None:
    session = Session(LIMITS)
    stream = b"\n".join(sent) + b"\n"
    for _ in range(times):
        if not session.wants_input:
            break
        session.feed(stream)
        while (task := session.next_task()) is not None:
            if task.error is not None or isinstance(task.request, Cancel):
                session.finished(task)
    assert len(session.withdraw_all()) <= MAX_WAITING


@pytest.mark.fuzz
@hypothesis.given(st.binary(max_size=300))
def test_no_line_raises_out_of_the_core(raw: bytes) -> None:
    session = Session(LIMITS)
    session.feed(raw)
    session.feed_eof()
    while (task := session.next_task()) is not None:
        assert task.request is not None or isinstance(task.error, FableExecError)
        session.finished(task)
    assert session.at_end
