"""Commands that are followed, fed, cancelled and left behind, and the end of a broker, asked of every door."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerGone, Conflict, InvalidRequest, PathNotFound
from fable_exec.outcome import EndedBy
from fable_exec.protocol import Exited, Output, Started


@pytest.mark.requires_ability("confinement")
def test_events_come_in_order_and_hold_every_byte(door: Any) -> None:
    events: list[Any] = []
    program = "import sys, time; sys.stdout.buffer.write(b'\\xff' * 200_000); sys.stdout.flush(); sys.stderr.write('end')"
    result = door.execute_command(["python3", "-c", program], on_event=events.append)
    assert [event.sequence for event in events] == list(range(len(events)))
    assert isinstance(events[0], Started)
    assert events[-1] == Exited(sequence=len(events) - 1, outcome=EndedBy.EXITED, exit_code=0, signal=None)
    for stream, whole in (("stdout", result.stdout_raw), ("stderr", result.stderr_raw)):
        assert b"".join(event.data for event in events if isinstance(event, Output) and event.stream == stream) == whole
    assert len(result.stdout_raw) == 200_000


@pytest.mark.requires_ability("confinement")
def test_output_comes_while_the_command_runs(door: Any, workspace: Path) -> None:
    seen = []

    def answer(event: Any) -> None:
        if isinstance(event, Output):
            seen.append(event.data)
            (workspace / "go").touch()  # the command waits for this, so it must still be running

    program = "echo ready; until test -e go; do sleep 0.01; done; echo went"
    result = door.execute_command(["bash", "-c", program], timeout_seconds=60, on_event=answer)
    assert (result.success, seen[0]) == (True, b"ready\n")


@pytest.mark.requires_ability("confinement")
def test_an_error_of_the_listener_ends_the_command(door: Any) -> None:
    class Enough(Exception):
        pass

    def stop(event: Any) -> None:
        if isinstance(event, Output):
            raise Enough

    began = time.monotonic()
    with pytest.raises(Enough):
        door.execute_command(["bash", "-c", "echo x; sleep 600"], on_event=stop)
    assert time.monotonic() - began < 60
    assert door.execute_command(["true"]).success


@pytest.mark.requires_ability("confinement")
def test_a_started_command_is_fed_followed_and_waited_for(door: Any) -> None:
    with door.start_command(["cat"], keep_stdin_open=True) as started:
        events = started.events()
        assert isinstance(next(events), Started)
        assert started.write_stdin("hello\n") == 6
        first = next(events)
        assert (first.stream, first.data) == ("stdout", b"hello\n")
        started.close_stdin()
        assert [type(event) for event in events] == [Exited]
        assert started.wait().stdout == "hello\n"
        with pytest.raises(Conflict, match="takes no more input: it"):
            started.write_stdin("more")


@pytest.mark.requires_ability("confinement")
def test_a_command_that_was_not_started_to_be_fed_says_how_to_start_one_that_is(door: Any) -> None:
    told = "takes no more input: it was started without keep_stdin_open; start it with keep_stdin_open to feed it"
    with door.start_command(["sleep", "600"]) as started:
        with pytest.raises(Conflict, match=told):
            started.write_stdin("more")
    handle = door.start_background(["sleep", "600"]).handle
    with pytest.raises(Conflict, match=told):
        door.write_stdin(handle, b"more")
    door.cancel_command(handle)
    over = door.start_background(["true"], keep_stdin_open=True).handle
    while door.read_command(over, 5).running:
        pass
    with pytest.raises(Conflict, match="takes no more input: it has ended"):
        door.write_stdin(over, b"more")


@pytest.mark.requires_ability("confinement")
def test_a_started_command_can_be_cancelled_and_closing_ends_it(door: Any) -> None:
    with door.start_command(["bash", "-c", "echo up; setsid sleep 600 & sleep 600"]) as started:
        events = started.events()
        next(events), next(events)
        started.cancel()
        assert started.wait().outcome is EndedBy.CANCELLED
    with door.start_command(["sleep", "600"]) as closed:
        pass
    assert closed.wait().outcome is EndedBy.CANCELLED


@pytest.mark.requires_ability("confinement")
def test_a_command_that_cannot_be_started_says_so_when_it_is_followed(door: Any, workspace: Path) -> None:
    with door.start_command(["true"], "nowhere") as started:
        with pytest.raises(PathNotFound):
            started.wait()


@pytest.mark.requires_ability("confinement")
def test_background_commands_are_known_by_name_and_read_piece_by_piece(door: Any) -> None:
    began = door.start_background(["cat"], keep_stdin_open=True)
    name = began.handle
    assert door.write_stdin(name, "h\u00e9".encode()[:2]).open
    first = door.read_command(name, 5)
    assert (first.running, first.stdout_data) == (True, b"h")  # a character is never handed out in halves
    assert not door.write_stdin(name, "h\u00e9".encode()[2:], close=True).open
    pieces = [b"h"]
    while (piece := door.read_command(name, 5)).running:
        pieces.append(piece.stdout_data)
    assert b"".join([*pieces, piece.stdout_data]).decode() == "h\u00e9"
    assert (piece.result.exit_code, piece.result.stdout) == (0, "h\u00e9")
    assert [(each.handle, each.running) for each in door.list_commands().commands] == [(name, False)]
    assert door.cancel_command(name).cancelled is False
    with pytest.raises(Conflict):
        door.write_stdin(name, "x")


@pytest.mark.requires_ability("confinement")
def test_a_background_command_can_be_cancelled_and_an_unknown_name_is_an_error(door: Any) -> None:
    name = door.start_background(["bash", "-c", "setsid sleep 600 & sleep 600"]).handle
    assert door.cancel_command(name).cancelled is True
    ended = door.read_command(name, 5)
    assert (ended.running, ended.result.outcome) == (False, EndedBy.CANCELLED)
    for asked in (door.read_command, door.cancel_command, door.write_stdin):
        with pytest.raises(InvalidRequest):
            asked("command-99")


def test_a_closed_broker_refuses_and_closes_again_without_complaint(door: Any) -> None:
    door.close()
    door.close()
    for refused in (lambda: door.probe(), lambda: door.execute_command(["true"]), lambda: door.write_file("a", "x")):
        with pytest.raises(BrokerGone):
            refused()


@pytest.mark.requires_ability("confinement")
def test_closing_ends_whatever_runs(door: Any, workspace: Path) -> None:
    command = ["bash", "-c", "echo $$; trap '' TERM; setsid sleep 600 & sleep 600"]
    door.start_background(command)
    started = door.start_command(command)
    events = started.events()
    next(events), next(events)
    began = time.monotonic()
    door.close()
    assert time.monotonic() - began < 60
