"""Threads that do one job after the other, started when they are first needed. They belong to a process that ends with them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

__all__ = ["Workers"]


class Workers:
    """The number of threads is the greatest number of jobs that were ever at work at once; bounding that is the caller's."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    def submit(self, job: Callable[[], None]) -> None:
        """Have `job`, which must not raise, done by a thread that is free."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                # Daemon: a job that hangs in the kernel must not keep the process from exiting.
                thread = threading.Thread(target=self._work, name="fable_exec worker", daemon=True)
                thread.start()
                self._threads.append(thread)
        self._jobs.put(job)

    def close(self, timeout_seconds: float) -> bool:
        """Let every thread end after its job, and wait for them, no longer than that; whether all have ended."""
        for _ in self._threads:
            self._jobs.put(None)
        give_up_at = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, give_up_at - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._lock:
                self._idle += 1
