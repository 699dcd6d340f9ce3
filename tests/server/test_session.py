"""The server's core: what begins when, bounded and in order, without any input or output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fable_exec import Limits
from fable_exec.errors import FrameTooLarge, InvalidJson, InvalidRequest
from fable_exec.server.session import MAX_WAITING, Session, Task

LIMITS = Limits(max_in_flight=3)


def line(identifier: Any = None, action: str = "probe", **members: Any) -> bytes:
    given = {} if identifier is None else {"id": identifier}
    return json.dumps({**given, "action": action, **members}).encode() + b"\n"


def fed(*lines: bytes, limits: Limits = LIMITS) -> Session:
    session = Session(limits)
    session.feed(b"".join(lines))
    return session


def taken(session: Session) -> list[Task]:
    tasks = []
    while (task := session.next_task()) is not None:
        tasks.append(task)
    return tasks


class Running:
    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


def test_requests_without_an_id_begin_one_after_the_other() -> None:
    session = fed(line(), line(action="list_directory"), line(action="stat_path", path="a"))
    order = []
    while (task := session.next_task()) is not None:
        order.append(task.action)
        assert session.next_task() is None
        session.finished(task)
    assert order == ["probe", "list_directory", "stat_path"]


def test_requests_with_an_id_begin_at_once_up_to_the_bound_and_beside_the_lane() -> None:
    session = fed(line(), *(line(number) for number in range(5)), line())
    assert [task.id for task in taken(session)] == [None, 0, 1]
    (first, *_) = [task for task in session.in_flight if task.id == 0]
    session.finished(first)
    assert [task.id for task in taken(session)] == [2]


def test_a_line_that_is_no_request_takes_its_turn_and_says_what_it_was() -> None:
    session = fed(line(), b"nonsense\n", b"[]\n", line("x", "no_such"), b'{"id":5}\n')
    tasks = taken(session)
    assert [(task.id, type(task.error)) for task in tasks] == [(None, type(None)), ("x", InvalidRequest), (5, InvalidRequest)]
    session.finished(tasks[0])
    (nonsense,) = taken(session)
    assert type(nonsense.error) is InvalidJson


def test_an_oversized_line_is_an_error_and_the_next_one_is_in_step() -> None:
    limits = Limits(max_frame_bytes=64 * 1024)
    session = fed(b"x" * 70_000, b"x" * 70_000 + b"\n", line(), limits=limits)
    first = session.next_task()
    assert first is not None and type(first.error) is FrameTooLarge
    session.finished(first)
    second = session.next_task()
    assert second is not None and second.action == "probe"


def test_an_id_that_is_in_flight_is_refused_and_can_be_used_again_afterwards() -> None:
    session = fed(line(1), line(1))
    first, second = taken(session)
    assert (first.error, type(second.error), second.id) == (None, InvalidRequest, 1)
    session.finished(second)
    assert session.find(1) is first
    session.finished(first)
    session.feed(line(1))
    assert [task.error for task in taken(session)] == [None]


def test_true_and_one_are_not_one_id() -> None:
    assert [type(task.error) for task in taken(fed(line(True), line(1), line("1")))] == [InvalidRequest, type(None), type(None)]


def test_a_cancel_does_not_wait_for_room() -> None:
    session = fed(*(line(number) for number in range(4)), line("c", "cancel", target=0))
    assert [task.id for task in taken(session)] == [0, 1, 2, "c"]


def test_a_task_is_cancelled_whether_it_runs_already_or_not_yet() -> None:
    early, late = taken(fed(line(1), line(2)))
    first, second = Running(), Running()
    early.attach(first)
    early.cancel()
    late.cancel()
    late.attach(second)
    assert (first.cancelled, second.cancelled) == (1, 1)


def test_what_waits_can_be_taken_back() -> None:
    session = fed(*(line(number) for number in range(5)))
    running = taken(session)
    waiting = session.find(4)
    assert waiting is not None and session.withdraw(waiting)
    assert not session.withdraw(running[0])
    assert [task.id for task in session.withdraw_all()] == [3]
    for task in running:
        session.finished(task)
    assert taken(session) == []


def test_waiting_is_bounded_in_number_and_no_more_is_read_then() -> None:
    session = fed(line() * 2000)
    first = session.next_task()
    assert first is not None
    assert session.next_task() is None
    assert not session.wants_input
    assert len(session.withdraw_all()) == MAX_WAITING
    done = 0
    session.finished(first)
    while (task := session.next_task()) is not None:
        session.finished(task)
        done += 1
    assert 1 + MAX_WAITING + done == 2000
    assert session.wants_input


def test_waiting_is_bounded_in_bytes() -> None:
    limits = Limits(max_frame_bytes=64 * 1024)
    session = Session(limits)
    fed_bytes = 0
    while session.wants_input and fed_bytes < 10**7:
        piece = line(action="write_file", path="a", content="x" * 60_000)
        session.feed(piece)
        fed_bytes += len(piece)
        session.next_task()
    assert fed_bytes < 10 * limits.max_frame_bytes


def test_the_end_comes_when_everything_that_was_sent_is_finished() -> None:
    session = fed(line(1), b'{"action": "probe"}')
    session.feed_eof()
    assert not session.at_end
    tasks = taken(session)
    assert [task.id for task in tasks] == [1, None]
    for task in tasks:
        assert not session.at_end
        session.finished(task)
    assert session.next_task() is None
    assert session.at_end
    assert not session.wants_input


@pytest.mark.parametrize(
    "raw", [b"\xff\xfe\n", b'{"a":1,"a":2}\n', b"[" * 100_000 + b"\n", b'{"action":NaN}\n', b"9" * 5000 + b"\n"]
)
def test_no_line_can_stop_it(raw: bytes) -> None:
    session = fed(raw, line())
    first = session.next_task()
    assert first is not None and first.error is not None
    session.finished(first)
    second = session.next_task()
    assert second is not None and second.error is None


def test_a_decoder_that_fails_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("fable_exec.server.session.decode_line", fail)
    (task,) = taken(fed(line()))
    assert task.error is not None and task.error.code == "internal-error"
