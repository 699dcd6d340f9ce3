"""One blocking face for every kind of broker and supervisor, so that one suite can ask them all."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from fable_exec.loopthread import LoopThread

__all__ = ["Face", "blocking"]

_Run = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def blocking(inner: Any) -> Iterator[Face]:
    """`inner` with blocking calls; what is asynchronous about it happens in a loop in a thread of its own while the block lasts.

    Several threads may call at once. `inner` may be awaitable itself: then it is what comes of it. It is not closed here.
    """
    loop = LoopThread("face")
    try:
        yield Face(loop.wait(_awaited(inner)) if inspect.isawaitable(inner) else inner, loop.wait)
    finally:
        loop.end()


class Face:
    """What the methods of `inner` give to be awaited is awaited with `run`; what they return otherwise is returned as it is.

    Handles of started commands have a face too, and asynchronous iterators are ordinary ones.
    """

    def __init__(self, inner: Any, run: _Run) -> None:
        self.inner = inner
        self._run = run

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return self._calling(found) if callable(found) else found

    def __enter__(self) -> Face:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _calling(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            return self._settled(method(*arguments, **named))

        return call

    def _settled(self, answer: Any) -> Any:
        if inspect.isawaitable(answer):
            answer = self._run(_awaited(answer))
        if inspect.isasyncgen(answer):
            return self._items(answer)
        is_handle = hasattr(answer, "write_stdin") and hasattr(answer, "events")
        return Face(answer, self._run) if is_handle else answer

    def _items(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        nothing = object()
        while (item := self._run(_awaited(anext(items, nothing)))) is not nothing:
            yield item


async def _awaited(answer: Any) -> Any:
    return await answer
