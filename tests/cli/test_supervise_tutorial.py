"""Every line of the tutorial about supervision, typed at terminals that are closed, shows what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from fable_exec.supervisor import Supervisor
from tests.cli.typed import PROJECT
from tests.consoles import Terminal, transcripts

PAGE = PROJECT / "docs/tutorial/supervise-a-job.md"
HOME = "/home/ann"

VARYING = (
    (r"^\[1\].*$", ""),  # what a shell says of a program in its background, when it likes
    (r"^\.*( *\[ *\d+%\])?$", ""),  # as many dots as there are tests today
    (r"^(held by|proved ended|confinement|program) .*$", r"\1"),  # by host and user
    (r"^[0-9a-f]{64}$|\b[0-9a-f]{64}\b", "DIGEST"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "THEN"),
    (r"\b\d+(\.\d+)?( ?s| min)\b", "TIME"),
    (r"(pid +|^)\d{2,}$", r"\1PID"),
    (r"\d+ (bytes|passed)", r"N \1"),
    (r"\d+\.\d+ MiB", "SIZE"),
    (r"\borphaned\b", "lost"),  # for the moment that a killed tree takes
    (r" +", " "),
    (r"\n\s*\n+", "\n"),
)


def what_matters(shown: str) -> str:
    """What is the same on every host and each time."""
    for pattern, instead in VARYING:
        shown = re.sub(pattern, instead, shown, flags=re.MULTILINE)
    return shown.strip()


@pytest.mark.requires_ability("confinement")
@pytest.mark.skipif(not (shutil.which("pgrep") and shutil.which("awk")), reason="the page uses pgrep and awk")
def test_every_line_of_the_page_shows_what_the_page_says(tmp_path: Path) -> None:
    home = tmp_path.resolve() / "home"
    for name in ("docs/reference", "fable_exec", "tests", "tools", "pyproject.toml"):
        part = PROJECT / name
        (home / "fable-exec" / name).parent.mkdir(parents=True, exist_ok=True)
        if part.is_dir():
            shutil.copytree(part, home / "fable-exec" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(part, home / "fable-exec" / name)
    command = home / "bin" / "fable-exec"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH={PROJECT} exec {sys.executable} -P -m fable_exec "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin"
    environment = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "NO_COLOR": "1"}
    try:
        for terminal in transcripts(PAGE.read_text()):
            with Terminal(home / "fable-exec", environment) as opened:
                for each in terminal:
                    shown = opened.enter(each.line).replace(str(home), HOME)
                    assert what_matters(shown) == what_matters(each.shown), each.line
    finally:
        _end_all(home)


def _end_all(home: Path) -> None:
    with Supervisor(home / ".local/state/fable-exec/executions") as supervisor:
        for each in supervisor.list():
            if each.health.value == "running":
                supervisor.request_stop(each.execution_id)
                supervisor.wait(each.execution_id, 20)


def test_the_page_has_a_terminal_for_each_chapter() -> None:
    assert [len(terminal) for terminal in transcripts(PAGE.read_text())] == [1, 6, 4, 11]
