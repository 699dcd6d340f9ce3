"""The raw limit: the same jobs in plain Python or C, without any safety. Standard library only."""

from __future__ import annotations

import asyncio
import hashlib
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["TRUE", "compiled_spawner", "durable_write", "posix_spawn", "read_and_hash", "run_captured", "run_on_loop"]

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
def compiled_spawner() -> Iterator[Callable[[], float] | None]:
    """posix_spawn by a C program that clocks itself; None where there is no compiler. It does one for each byte it gets."""
    compiler = shutil.which("cc")
    if compiler is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "spawner")
        built = subprocess.run([compiler, "-O2", "-o", program, str(_C_PROGRAM)], capture_output=True)
        if built.returncode:
            yield None
            return
        process = subprocess.Popen([program, TRUE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        requests, answers = process.stdin.fileno(), process.stdout

        def spawn() -> float:
            os.write(requests, b".")
            return int(answers.readline()) / 1e9

        try:
            yield spawn
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()
