"""The raw limit: the same jobs in plain Python or C, without any safety. Standard library only."""

from __future__ import annotations

import asyncio
import hashlib
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

__all__ = ["TRUE", "compiled_spawners", "durable_write", "posix_spawn", "read_and_hash", "run_captured", "run_on_loop"]

TRUE = shutil.which("true") or "/bin/true"
_C_PROGRAM = Path(__file__).with_name("spawner.c")


def durable_write(path: str, data: bytes) -> None:
    """write, fsync, rename, fsync of the directory."""
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_and_hash(path: str) -> tuple[bytes, str]:
    with open(path, "rb") as file:
        data = file.read()
    return data, hashlib.sha256(data).hexdigest()


def run_captured() -> None:
    subprocess.run([TRUE], capture_output=True, check=True)


async def run_on_loop() -> None:
    process = await asyncio.create_subprocess_exec(TRUE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    await process.communicate()


def posix_spawn() -> None:
    """os.posix_spawn with both streams in pipes, drained with poll: the least that Python can do."""
    out, its_out = os.pipe()
    err, its_err = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, its_out, 1), (os.POSIX_SPAWN_DUP2, its_err, 2)]
    pid = os.posix_spawn(TRUE, [TRUE], os.environ, file_actions=actions)
    os.close(its_out)
    os.close(its_err)
    _drain(out, err)
    os.waitpid(pid, 0)


def _drain(*descriptors: int) -> None:
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    left = len(descriptors)
    while left:
        for descriptor, _ in waiting.poll():
            if not os.read(descriptor, 1 << 16):
                waiting.unregister(descriptor)
                os.close(descriptor)
                left -= 1


@contextmanager
def compiled_spawners(count: int) -> Iterator[Callable[[int], float] | None]:
    """posix_spawn by so many C programs at once; None where there is no compiler.

    What is yielded has each of them spawn so many times, one after the other, and returns the seconds of all of that together;
    of a single one, without what it takes to tell it.
    """
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        program = os.path.join(directory, "spawner")
        if not _compiled(program):
            yield None
            return
        pipes = [stack.enter_context(_spawner(program)) for _ in range(count)]

        def spawn(each: int) -> float:
            start = time.perf_counter()
            for requests, _ in pipes:
                os.write(requests, b"." * each)
            clocked = [int(answers.readline()) for _, answers in pipes for _ in range(each)]
            return clocked[0] / 1e9 if len(clocked) == 1 else time.perf_counter() - start

        yield spawn


def _compiled(program: str) -> bool:
    compiler = shutil.which("cc")
    return (
        compiler is not None and not subprocess.run([compiler, "-O2", "-o", program, _C_PROGRAM], capture_output=True).returncode
    )


@contextmanager
def _spawner(program: str) -> Iterator[tuple[int, IO[bytes]]]:
    process = subprocess.Popen([program, TRUE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.stdin.fileno(), process.stdout
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
