"""`fable-exec supervise` at a terminal: closed, narrow, read by nobody, addressed by others."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import termios
from pathlib import Path

import pytest

from tests.cli.supervising import ended, start, supervise
from tests.cli.typed import PROGRAM, environment, is_running
from tests.consoles import Terminal
from tests.hosts import unique_sleep

pytestmark = pytest.mark.requires_ability("confinement")


def test_a_job_goes_on_when_its_terminal_is_closed(root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    words = [*PROGRAM, "supervise", "start", "--root", str(root), "--workspace", str(workspace), "--", "sleep", seconds]
    with Terminal(workspace, environment(NO_COLOR="1")) as terminal:
        assert "health        running" in terminal.enter(" ".join(words))
    (listed,) = json.loads(supervise("list", root, "--json").stdout)
    assert (listed["health"], is_running(seconds)) == ("running", True)
    assert supervise("stop", root, listed["execution_id"]).returncode == 0
    assert ended(root, listed["execution_id"])["termination_reason"] == "stopped"


def at_a_terminal(columns: int, *arguments: str, **variables: str) -> str:
    """What a terminal of that width shows of it."""
    terminal, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    process = subprocess.Popen([*PROGRAM, *arguments], env=environment(**variables), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    pieces = []
    with os.fdopen(terminal, "rb", buffering=0) as reading:
        try:
            while piece := reading.read(4096):
                pieces.append(piece)
        except OSError:
            pass  # EIO: nobody is at the terminal any more
    assert process.wait(timeout=30) == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


COLOURED, PLAIN, DUMB = {"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}


def test_an_id_and_a_path_stay_whole_at_every_terminal(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, f"exit 3 # {'long ' * 50}")["execution_id"]
    ended(root, execution_id)
    for columns, variables in ((20, DUMB), (20, PLAIN), (80, COLOURED), (200, PLAIN)):
        table = at_a_terminal(columns, "supervise", "list", "--root", str(root), **variables)
        assert execution_id in table and len(table.splitlines()) == 2
        assert ("\x1b[" in table) == (variables is COLOURED)
        assert variables is COLOURED or max(map(len, table.splitlines())) == max(columns, 80)
    for columns, variables in ((20, PLAIN), (80, COLOURED)):
        lines = at_a_terminal(columns, "supervise", "show", "--root", str(root), execution_id, **variables)
        assert f"{root}/{execution_id}/runner.log" in lines
        assert ("\x1b[" in lines) == (variables is COLOURED)


def test_nobody_reads_it_any_more(root: Path, workspace: Path) -> None:
    start(root, workspace, "true")
    for verb, arguments in {"list": [], "start": ["--workspace", str(workspace), "--", "true"]}.items():
        reading, writing = os.pipe()
        os.close(reading)
        argv = [*PROGRAM, "supervise", verb, "--root", str(root), *arguments]
        finished = subprocess.run(argv, env=environment(), stdout=writing, stderr=subprocess.PIPE, timeout=30)
        os.close(writing)
        assert (finished.returncode, finished.stderr) == (141, b"")


def test_words_that_a_caller_chose_cannot_address_the_terminal(root: Path, tmp_path: Path) -> None:
    evil = tmp_path / "\x1b[31mred\u202e"
    evil.mkdir()
    execution_id = start(root, evil, "true # \x1b[2J[bold]", "--label", "a\nb=\x07")["execution_id"]
    for words in (["list"], ["show", execution_id]):
        shown_words = supervise(words[0], root, *words[1:]).stdout.decode()
        assert not {"\x1b", "\x07", "\u202e"} & set(shown_words)
    assert "a\\nb=\\x07" in shown_words and "[bold]" in shown_words
