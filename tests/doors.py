"""The four doors to a broker with one blocking face, so that one table of behaviours can be asked of each."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fable_exec import AsyncBrokerClient, AsyncExecutionBroker, BrokerClient, BrokerPolicy, ExecutionBroker

TOKEN = "the admin's token"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
DOORS: dict[str, Callable[[BrokerPolicy], Any]] = {
    "in_process": ExecutionBroker,
    "asyncio": AsyncExecutionBroker,
    "spawned": BrokerClient,
    "asyncio_spawned": AsyncBrokerClient,
}
PROGRAMS = ("bash", "cat", "echo", "false", "python3", "sleep", "true")
PATH = ("/usr/local/bin", "/usr/bin", "/bin")


def policy_for(workspace: Path, **more: Any) -> BrokerPolicy:
    """A policy with a known token, and programs of the system rather than of whatever environment runs the suite."""
    more.setdefault("allowed_executables", PROGRAMS)
    more.setdefault("environment", _environment())
    more.setdefault("write_token_digest", DIGEST)
    return BrokerPolicy(workspace=workspace, **more)


def _environment(**more: Any) -> Any:
    from fable_exec import EnvironmentPolicy

    return EnvironmentPolicy(path=tuple(part for part in PATH if Path(part).is_dir()), **more)


environment_with = _environment


@contextmanager
def opened(kind: str, policy: BrokerPolicy, *, unlocked: bool = False) -> Iterator[Any]:
    """A broker behind the door `kind`, closed afterwards."""
    with asyncio.Runner() as runner:
        door = Face(DOORS[kind](policy), runner)
        try:
            if unlocked:
                door.unlock_writes(TOKEN)
            yield door
        finally:
            door.close()


class Face:
    """Whatever is asynchronous about `inner` happens in `runner` until it is done."""

    def __init__(self, inner: Any, runner: asyncio.Runner) -> None:
        self.inner = inner
        self._runner = runner

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
            answer = self._runner.run(_awaited(answer))
        if inspect.isasyncgen(answer):
            return self._items(answer)
        is_handle = hasattr(answer, "write_stdin") and hasattr(answer, "events")
        return Face(answer, self._runner) if is_handle else answer

    def _items(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        nothing = object()
        while (item := self._runner.run(_awaited(anext(items, nothing)))) is not nothing:
            yield item


async def _awaited(answer: Any) -> Any:
    return await answer
