"""Embedding processes for tests: a Python program in a process of its own, with the runner at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any

from fable_exec.testing.processes import alive_with as alive_with

PROJECT = Path(__file__).resolve().parents[1]

_BEFORE = """
import json, os, resource, select, signal, socket, sys, threading, time
from pathlib import Path
from fable_exec.errors import *
from fable_exec.runner import *
from tests.commands import *

def answer(value):
    os.write(ANSWER, json.dumps(value).encode())

ANSWER = int(os.environ["ANSWER"])
"""


def program_text(program: str) -> str:
    """`program` with its imports and `answer(value)`, which hands a value to the test."""
    return _BEFORE + textwrap.dedent(program)


def start(program: str, *arguments: str, **options: Any) -> tuple[subprocess.Popen[str], int]:
    """Start it; returns the process and the descriptor to read answers from, which is the caller's."""
    reading, writing = os.pipe()
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "ANSWER": str(writing)}
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", program_text(program), *arguments],
            env=environment, pass_fds=(writing,), text=True, **{"stderr": subprocess.PIPE, **options},
        )  # fmt: skip
    finally:
        os.close(writing)
    return process, reading


def answer_of(program: str, *arguments: str, **options: Any) -> Any:
    """What it answers, once it has ended well."""
    process, reading = start(program, *arguments, **options)
    with os.fdopen(reading, "rb") as answers:
        _, complaints = process.communicate(timeout=90)
        text = answers.read()
    assert process.returncode == 0, complaints
    return json.loads(text)


def tree_of(pid: int) -> dict[int, tuple[int, str]]:
    """Every living descendant of `pid`: its parent and its command line."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            words = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if stat[0] not in "ZX":
            parents[int(entry)] = int(stat[1]), words
    found: dict[int, tuple[int, str]] = {}
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        below = {child: facts for child, facts in parents.items() if facts[0] == above}
        found.update(below)
        waiting.extend(below)
    return found


def unique_sleep() -> str:
    """Seconds to sleep that no other process was told; `random` begins alike in every test, in each worker."""
    return f"{1000 + uuid.uuid4().int % 10**6}.{uuid.uuid4().int % 10**9}"
