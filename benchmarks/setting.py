"""What every benchmark is given: a directory, how many rounds, brokers, and its peers in their own processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.lines import DIGEST, TOKEN, Lines, started
from benchmarks.measuring import Contestant
from benchmarks.peers import Peers
from fable_exec import BrokerClient, BrokerPolicy, Confinement, ExecutionBroker

__all__ = ["Setting"]

MIB = 1 << 20
CODE = 'def f(x):\n    return [x["a"], {"b": 1}]\n'
"""Content as models write it: short lines, quotes, some escapes in JSON."""


class Setting:
    """One run of one module. What it starts ends with it.

    Args:
        scale: 1 is the full run; tests use a hundredth, and get a few rounds of everything on small inputs.
    """

    def __init__(self, directory: Path, peers: Peers, scale: float = 1.0) -> None:
        self.directory = directory.resolve()
        self.peers = peers
        self._scale = scale
        self._stack = ExitStack()
        self._workspaces = 0

    def rounds(self, full: int) -> int:
        return max(3, round(full * self._scale))

    def size(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self._scale))

    def workspace(self) -> Path:
        """A new empty one."""
        self._workspaces += 1
        directory = self.directory / f"w{self._workspaces}"
        directory.mkdir(mode=0o700)
        return directory

    def policy(self, **more: Any) -> BrokerPolicy:
        """Without confinement unless it is given: that is what the references and most peers do."""
        more.setdefault("confinement", Confinement.off())
        more.setdefault("workspace", self.workspace())
        more.setdefault("allowed_executables", ("true", "head"))
        more.setdefault("max_output_bytes", 2 * MIB)
        return BrokerPolicy(write_token_digest=DIGEST, **more)

    def broker(self, **more: Any) -> ExecutionBroker:
        """In this process, writes unlocked."""
        broker = self._stack.enter_context(ExecutionBroker(self.policy(**more)))
        broker.unlock_writes(TOKEN)
        return broker

    def client(self, **more: Any) -> BrokerClient:
        """A spawned one, writes unlocked."""
        client = self._stack.enter_context(BrokerClient(self.policy(**more)))
        client.unlock_writes(TOKEN)
        return client

    def enter(self, context: Any) -> Any:
        """The value of a context manager that ends with this setting."""
        return self._stack.enter_context(context)

    def remote(self, name: str, job: str, *, python: str = sys.executable, **arguments: Any) -> Contestant:
        """A job of benchmarks/worker.py in a process of its own."""
        (contestant,) = self.enter(_worker(python, [{"job": job, **arguments}], [name]))
        return contestant  # type: ignore[no-any-return]  # of a context manager that may be any

    def host(self, names: list[str], jobs: list[dict[str, Any]], python: str, **size: int) -> list[Contestant]:
        """Several jobs in one process of the given size (resident, threads, descriptors)."""
        return self.enter(_worker(python, jobs, names, **size))  # type: ignore[no-any-return]  # as above

    def peer(self, package: str, job: str, **arguments: Any) -> list[Contestant]:
        """The job in the peers' environment; nobody where the package is not installed. Named like the package."""
        if not self.peers.has(package):
            return []
        return [self.remote(package, job, python=self.peers.python, **arguments)]

    def __enter__(self) -> Setting:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()


@contextmanager
def _worker(python: str, jobs: list[dict[str, Any]], names: list[str], **size: int) -> Iterator[list[Contestant]]:
    argv = [python, "-m", "benchmarks.worker"]
    argv += [f"--{name}={value}" for name, value in size.items()]
    with started([*argv, *map(json.dumps, jobs)]) as child:
        yield [_remote_contestant(name, index, child) for index, name in enumerate(names)]


def _remote_contestant(name: str, index: int, child: Lines) -> Contestant:
    line = f"{index}\n".encode()
    return Contestant(name, lambda: float(child.ask(line)))
