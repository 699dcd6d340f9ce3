"""What listens to a command's events: looked at before the command is started, and told of each event by the blocking doors."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Coroutine

from fable_exec.calls.handles import OnEvent
from fable_exec.errors import InvalidRequest
from fable_exec.protocol import Event

__all__ = ["check_blocking_listener", "check_listener", "tell"]

_NOBODY_AWAITS = "on_event is asynchronous and nobody would await it; the asyncio brokers do"


def check_listener(on_event: object) -> None:
    """Raises InvalidRequest for what cannot be called."""
    if on_event is not None and not callable(on_event):
        raise InvalidRequest(f"on_event must be callable, not {type(on_event).__name__}")


def check_blocking_listener(on_event: object) -> None:
    """Raises InvalidRequest for what cannot be called, and for what would have to be awaited."""
    if on_event is None:
        return
    check_listener(on_event)
    if inspect.iscoroutinefunction(on_event) or inspect.iscoroutinefunction(getattr(on_event, "__call__", None)):  # noqa: B004  # the method itself
        raise InvalidRequest(_NOBODY_AWAITS)


def tell(on_event: OnEvent, event: Event) -> None:
    """Call `on_event`; raises InvalidRequest when it turns out to be asynchronous after all."""
    told = on_event(event)
    if isinstance(told, Awaitable):
        if isinstance(told, Coroutine):
            told.close()  # or Python warns that it was never awaited
        raise InvalidRequest(_NOBODY_AWAITS)
