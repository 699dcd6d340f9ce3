"""One thread that listens to all admin channels of a server, so that none of them waits for the model's."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from fable_exec.admin.command_file import CommandFileChannel
from fable_exec.admin.control import AdminControl, complain
from fable_exec.admin.descriptor import DescriptorChannel
from fable_exec.admin.sockets import SocketChannel
from fable_exec.broker import ExecutionBroker

__all__ = ["AdminChannel", "open_channels"]

_JOIN_SECONDS = 1.0


class AdminChannel(Protocol):
    """A way for the admin's commands to arrive. All methods but `close` are called by the one thread that listens."""

    def watched(self) -> Iterable[int]:
        """Descriptors that may become readable."""

    def ready(self, descriptor: int) -> None:
        """One of them is."""

    def due_at(self) -> float | None:
        """When `tick` wants to be called (time.monotonic seconds)."""

    def tick(self) -> None:
        """The time has come, or something else woke the thread."""

    def close(self) -> None:
        """Release everything; the thread no longer runs."""


@contextmanager
def open_channels(
    broker: ExecutionBroker,
    shutdown: Callable[[], None],
    *,
    descriptor: int | None = None,
    file: Path | None = None,
    socket: str | None = None,
) -> Iterator[None]:
    """Listen on the channels that are named until the block ends; none named starts nothing.

    Raises:
        PolicyError: a channel cannot be had as asked, or would be within reach of what runs in the workspace.
    """
    control = AdminControl(broker, shutdown)
    workspace = broker.policy.workspace
    with ExitStack() as stack:
        channels: list[AdminChannel] = []

        def opened(channel: AdminChannel) -> None:
            stack.callback(channel.close)  # at once: the next one may be refused
            channels.append(channel)

        if descriptor is not None:
            opened(DescriptorChannel(descriptor, control))
        if file is not None:
            opened(CommandFileChannel(file, control, workspace))
        if socket is not None:
            opened(SocketChannel(socket, control, workspace))
        if channels:
            stack.enter_context(_listening(channels))
        yield


@contextmanager
def _listening(channels: Sequence[AdminChannel]) -> Iterator[None]:
    wake_reader, wake_writer = os.pipe()
    thread = threading.Thread(target=_listen, args=(channels, wake_reader), name="fable_exec admin", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(wake_writer)
        thread.join(_JOIN_SECONDS)
        os.close(wake_reader)


def _listen(channels: Sequence[AdminChannel], wake: int) -> None:
    while True:
        waiting = select.poll()
        waiting.register(wake, select.POLLIN)
        owners = {watched: channel for channel in channels for watched in channel.watched()}
        for watched in owners:
            waiting.register(watched, select.POLLIN)
        for ready, _ in waiting.poll(_milliseconds(channels)):
            if ready == wake:
                return
            _guarded(owners[ready].ready, ready)
        for channel in channels:
            _guarded(channel.tick)


def _guarded(act: Callable[..., None], *arguments: int) -> None:
    try:
        act(*arguments)
    except Exception as error:  # the door: one channel's trouble must not silence the others
        complain(f"{type(error).__name__}: {error!s:.500}")


def _milliseconds(channels: Sequence[AdminChannel]) -> int | None:
    due = [at for channel in channels if (at := channel.due_at()) is not None]
    return None if not due else max(0, int((min(due) - time.monotonic()) * 1000) + 1)
