"""The four doors to a broker with one blocking face, so that one table of behaviours can be asked of each."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fable_exec import AsyncBrokerClient, AsyncExecutionBroker, BrokerClient, BrokerPolicy, ExecutionBroker
from fable_exec.testing.faces import Face

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
        door = Face(DOORS[kind](policy), runner.run)
        try:
            if unlocked:
                door.unlock_writes(TOKEN)
            yield door
        finally:
            door.close()
