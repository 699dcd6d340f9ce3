"""One blocking face for every kind of broker and supervisor, so that one suite can ask them all."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from fable_exec._sys.forks import ProcessLock

__all__ = ["Face", "blocking"]

_Run = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def blocking(inner: Any) -> Iterator[Face]:
    """`inner` with blocking calls; what is asynchronous about it happens in a loop in a thread of its own while the block lasts.

    Several threads may call at once. `inner` may be awaitable itself: then it is what comes of it. It is not closed here.
    """
    loop = _LoopThread()
    try:
        yield Face(loop.run(_awaited(inner)) if inspect.isawaitable(inner) else inner, loop.run)
    finally:
        loop.close()


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


class _LoopThread:
    """A loop in a thread, both made when they are first needed."""

    def __init__(self) -> None:
        self._making = ProcessLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wait for it; when this thread is interrupted meanwhile it is cancelled."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End what is left in the loop, and then loop and thread."""
        if self._loop is not None and self._thread is not None:
            self.run(_end_others())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._making:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="fable_exec.testing loop", daemon=True)
                self._thread.start()
            return self._loop


async def _end_others() -> None:
    """Cancel the other tasks, wait for them, and end the loop's generators and threads."""
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
