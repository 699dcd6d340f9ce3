"""Command lines as a user types them: `fable-exec` in a process of its own, in an environment that says little."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from unittest import mock

from fable_exec.__main__ import main
from fable_exec.testing.processes import alive_with

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "fable_exec"]
PATIENCE_SECONDS = 60
_NEUTRAL = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(PROJECT), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


def environment(**more: str) -> dict[str, str]:
    """What every command line here gets, and `more`."""
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return {**kept, **_NEUTRAL, **more}


def typed(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )


def typed_here(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """The same in this process, which is quick: for words, refusals and results, not for what a command does to its process."""
    with contextlib.ExitStack() as stack:
        read, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        read.write(stdin)
        read.seek(0)
        stack.enter_context(mock.patch.dict(os.environ, environment(**(env or {})), clear=True))
        stack.enter_context(contextlib.chdir(cwd or "."))
        with _standing_for({0: read, 1: out, 2: err}):
            try:
                status = main([*arguments])
            except SystemExit as end:  # of argparse, behind `serve`
                status = int(end.code or 0)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, status, out.read(), err.read())


@contextlib.contextmanager
def _standing_for(files: Mapping[int, IO[bytes]]) -> Iterator[None]:
    """These files are the standard streams, as descriptors and as Python's."""
    streams, copies = (sys.stdin, sys.stdout, sys.stderr), [os.dup(number) for number in files]
    for number, file in files.items():
        os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, "w" if number else "r", closefd=False) for number in files)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, copy in zip(files, copies, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def started(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start it with pipes; the caller ends and waits."""
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([*PROGRAM, *arguments], env=environment(), stdout=subprocess.PIPE, **options)


def the_object(finished: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """The one JSON object that standard output is, with its version."""
    text = finished.stdout.decode("ascii")
    assert text.endswith("\n") and text.count("\n") == 1, text
    members: dict[str, Any] = json.loads(text)
    assert members["schema_version"] == 1
    return members


def is_running(marker: str) -> bool:
    """Whether a living process has `marker` among its arguments."""
    return bool(alive_with(f"\0{marker}\0"))
