"""Descriptors that somebody gives by their numbers: what each kind is taken for, by those who ask for bytes or for a process."""

from __future__ import annotations

import os
import pty
import select
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fable_exec._sys.given import fault_of_input, fault_of_process

Opened = Callable[[ExitStack], int]


def _file(flags: int, path: str = os.devnull) -> Opened:
    def opened(stack: ExitStack) -> int:
        descriptor = os.open(path, flags)
        stack.callback(os.close, descriptor)
        return descriptor

    return opened


def _regular(stack: ExitStack) -> int:
    return stack.enter_context(tempfile.TemporaryFile()).fileno()


def _pipe(end: int, *, blocking: bool = True, alone: bool = False) -> Opened:
    def opened(stack: ExitStack) -> int:
        ends = list(os.pipe())
        os.set_blocking(ends[end], blocking)
        if alone:
            os.close(ends.pop(1 - end))
        for each in ends:
            stack.callback(os.close, each)
        return ends[min(end, len(ends) - 1)]

    return opened


def _pair(kind: int, *, alone: bool = False) -> Opened:
    def opened(stack: ExitStack) -> int:
        ours, theirs = map(stack.enter_context, socket.socketpair(socket.AF_UNIX, kind))
        if alone:
            theirs.close()
        return ours.fileno()

    return opened


def _socket(family: int, *, listening: bool) -> Opened:
    def opened(stack: ExitStack) -> int:
        made = stack.enter_context(socket.socket(family))
        if listening:
            made.bind(("127.0.0.1", 0) if family == socket.AF_INET else "")  # Linux chooses an abstract name
            made.listen()
        return made.fileno()

    return opened


def _terminal(stack: ExitStack) -> int:
    for each in (ends := pty.openpty()):
        stack.callback(os.close, each)
    return ends[1]


def _polling(stack: ExitStack) -> int:
    return stack.enter_context(select.epoll()).fileno()


def _event(stack: ExitStack) -> int:
    stack.callback(os.close, descriptor := os.eventfd(0))
    return descriptor


def _process(stack: ExitStack) -> int:
    stack.callback(os.close, descriptor := os.pidfd_open(os.getpid()))
    return descriptor


NO_NUMBER, STANDARD = "is no number that one has", "is one of the standard descriptors; give another"
NO_STREAM, UNREADABLE = "is neither a file nor a pipe, a socket or a terminal", "is not open for reading"
UNCONNECTED = "is a socket that is not connected"
NUMBERS = {-(2**80): NO_NUMBER, -1: NO_NUMBER, 0: STANDARD, 1: STANDARD, 2: STANDARD, 2**31 - 1: "is not open", 2**31: NO_NUMBER}
INPUTS: dict[str, tuple[Opened, str | None]] = {
    "a file": (_regular, None),
    "a pipe": (_pipe(0), None),
    "a pipe that does not block": (_pipe(0, blocking=False), None),
    "a pipe at its end": (_pipe(0, alone=True), None),
    "a stream": (_pair(socket.SOCK_STREAM), None),
    "a stream at its end": (_pair(socket.SOCK_STREAM, alone=True), None),
    "packets in sequence": (_pair(socket.SOCK_SEQPACKET), None),
    "a terminal": (_terminal, None),
    "a directory": (_file(os.O_RDONLY, "/"), "is a directory"),
    "a directory's place": (_file(os.O_PATH, "/"), "is a directory"),
    "a file's place": (_file(os.O_PATH, "/etc/passwd"), UNREADABLE),
    "the wrong end": (_pipe(1), UNREADABLE),
    "a device": (_file(os.O_RDONLY), NO_STREAM),
    "a device without end": (_file(os.O_RDONLY, "/dev/zero"), NO_STREAM),
    "datagrams": (_pair(socket.SOCK_DGRAM), "is a socket of datagrams, which have no end"),
    "a socket by itself": (_socket(socket.AF_UNIX, listening=False), UNCONNECTED),
    "a listening socket": (_socket(socket.AF_UNIX, listening=True), UNCONNECTED),
    "a socket of the network by itself": (_socket(socket.AF_INET, listening=False), UNCONNECTED),
    "a listening socket of the network": (_socket(socket.AF_INET, listening=True), UNCONNECTED),
    "a poll": (_polling, NO_STREAM),
    "an event": (_event, NO_STREAM),
    "a process": (_process, NO_STREAM),
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(("descriptor", "fault"), NUMBERS.items())
def test_a_number_that_nobody_can_have_given_is_told_as_that(descriptor: int, fault: str) -> None:
    assert fault_of_input(descriptor) == fault_of_process(descriptor) == fault


@pytest.mark.parametrize("kind", INPUTS)
def test_only_what_bytes_come_by_up_to_their_end_is_an_input(kind: str, stack: ExitStack) -> None:
    opened, fault = INPUTS[kind]
    assert fault_of_input(opened(stack)) == fault


@pytest.mark.parametrize("kind", [kind for kind in INPUTS if kind != "a process"])
def test_only_a_process_is_one_whose_end_can_be_waited_for(kind: str, stack: ExitStack) -> None:
    assert fault_of_process(INPUTS[kind][0](stack)) == "is not that of a process"
    assert fault_of_process(_process(stack)) is None
    assert fault_of_process(_file(os.O_RDONLY | os.O_DIRECTORY, "/proc/self")(stack)) == "is not that of a process"


def test_looking_takes_no_byte(stack: ExitStack) -> None:
    ours, theirs = map(stack.enter_context, socket.socketpair())
    theirs.send(b"all of it")
    assert fault_of_input(ours.fileno()) is None
    assert ours.recv(20) == b"all of it"
