"""Jobs in a process of their own: `python -m benchmarks.worker [--resident BYTES --threads N --descriptors N] JOB...`

A JOB is JSON: {"job": NAME, ...arguments}. Every line on standard input is the index of a job to do once; the answer is the
seconds it took. What a job needs is imported by the job alone, so that a peer's environment needs nothing but the peer.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import raw
from benchmarks.lines import DIGEST, TOKEN

__all__ = ["main"]

Act = Callable[[], object]
SPARE_DESCRIPTORS = 256


# fable-engine


@contextmanager
def _engine(workspace: str, max_output_bytes: int = 2_000_000) -> Iterator[Any]:
    from fable_v2.execution_broker import BrokerPolicy, ExecutionBroker  # type: ignore[import-not-found]  # only where it is installed

    policy = BrokerPolicy(
        workspace=Path(workspace),
        allowed_executables=("true", "head"),
        max_output_bytes=max_output_bytes,
        write_token_digest=DIGEST,
    )
    broker = ExecutionBroker(policy)
    broker.unlock_writes(TOKEN)
    yield broker


@contextmanager
def engine_execute(workspace: str, command: list[str], max_output_bytes: int = 2_000_000) -> Iterator[Act]:
    with _engine(workspace, max_output_bytes) as broker:
        yield lambda: broker.execute_command(command)


@contextmanager
def engine_in_flight(workspace: str, threads: int, count: int) -> Iterator[Act]:
    with _engine(workspace) as broker, _many(threads, count, lambda: broker.execute_command(["true"])) as act:
        yield act


@contextmanager
def engine_write(workspace: str, size_bytes: int) -> Iterator[Act]:
    content = "x" * size_bytes
    with _engine(workspace) as broker:
        yield lambda: broker.write_file("written", content)


@contextmanager
def engine_inspect(workspace: str, path: str) -> Iterator[Act]:
    with _engine(workspace) as broker:
        yield lambda: broker.inspect_files(path)


@contextmanager
def engine_lines(line_bytes: int, total_bytes: int) -> Iterator[Act]:
    from fable_v2.execution_broker import _bounded_lines

    data = (b"{" + b"x" * (line_bytes - 2) + b"\n") * max(1, total_bytes // line_bytes)
    yield lambda: sum(1 for _ in _bounded_lines(io.BytesIO(data)))


# Others


@contextmanager
def ours_execute(workspace: str) -> Iterator[Act]:
    from fable_exec import BrokerPolicy, Confinement, ExecutionBroker

    policy = BrokerPolicy(workspace=Path(workspace), allowed_executables=("true",), confinement=Confinement.off())
    with ExecutionBroker(policy) as broker:
        yield lambda: broker.execute_command(["true"])


@contextmanager
def ours_confined(workspace: str, launch: Any) -> Iterator[Act]:
    from fable_exec import BrokerPolicy, ExecutionBroker

    policy = BrokerPolicy(workspace=Path(workspace), allowed_executables=("true",), write_token_digest=DIGEST, launch=launch)
    with ExecutionBroker(policy) as broker:
        broker.unlock_writes(TOKEN)
        yield lambda: broker.execute_command(["true"])


@contextmanager
def subprocess_run() -> Iterator[Act]:
    yield raw.run_captured


@contextmanager
def plumbum_run() -> Iterator[Act]:
    from plumbum import local  # type: ignore[import-not-found]  # only where it is installed

    command = local[raw.TRUE]
    yield lambda: command()


@contextmanager
def sandlock_run(workspace: str) -> Iterator[Act]:
    import sandlock  # type: ignore[import-not-found]  # only where it is installed

    system = [path for path in ("/usr", "/lib", "/lib64", "/bin", "/etc") if os.path.exists(path)]
    box = sandlock.Sandbox(fs_readable=system, fs_writable=[workspace, "/dev/null"])

    def act() -> None:
        if not box.run([raw.TRUE]).success:
            raise RuntimeError("the command failed")

    yield act


@contextmanager
def dirhash_tree(path: str) -> Iterator[Act]:
    from dirhash import dirhash  # type: ignore[import-untyped,unused-ignore]  # only where it is installed

    yield lambda: dirhash(path, "sha256", ignore=[".git"])


@contextmanager
def _many(threads: int, count: int, act: Act) -> Iterator[Act]:
    with ThreadPoolExecutor(threads) as pool:

        def all_of_them() -> None:
            for _ in pool.map(lambda _: act(), range(count)):
                pass

        yield all_of_them


JOBS = {
    job.__name__: job
    for job in (
        engine_execute, engine_in_flight, engine_write, engine_inspect, engine_lines,
        ours_execute, ours_confined, subprocess_run, plumbum_run, sandlock_run, dirhash_tree,
    )
}  # fmt: skip


# A host of some size


@contextmanager
def grown(resident_bytes: int, threads: int, descriptors: int) -> Iterator[None]:
    """This process with so much touched memory, so many waiting threads and so many open descriptors."""
    if descriptors:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if hard != resource.RLIM_INFINITY:
            descriptors = min(descriptors, hard - SPARE_DESCRIPTORS)
    memory = b"\1" * resident_bytes
    enough = threading.Event()
    waiting = [threading.Thread(target=enough.wait) for _ in range(threads)]
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(descriptors)]
    for thread in waiting:
        thread.start()
    try:
        yield
    finally:
        enough.set()
        for thread in waiting:
            thread.join()
        for descriptor in opened:
            os.close(descriptor)
        del memory


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--resident", "--threads", "--descriptors"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("jobs", nargs="+", type=json.loads)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        stack.enter_context(grown(options.resident, options.threads, options.descriptors))
        acts = [stack.enter_context(JOBS[job.pop("job")](**job)) for job in options.jobs]
        for line in sys.stdin.buffer:
            act = acts[int(line)]
            start = time.perf_counter()
            act()
            seconds = time.perf_counter() - start
            os.write(1, f"{seconds:.9f}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
