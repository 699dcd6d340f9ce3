"""`here`: a command line that is typed into this process, which is quick."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Protocol

import pytest

from fable_exec.__main__ import main
from tests.cli.typed import environment


class Here(Protocol):
    """As `typed.typed`, without a process of its own."""

    def __call__(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]: ...


@pytest.fixture
def here(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Words and refusals are the same here; what a command does to its process is tested with one of its own."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        with contextlib.chdir(cwd or "."):
            try:
                status = main([*arguments])
            except SystemExit as end:  # of argparse, behind `serve`
                status = int(end.code or 0)
        captured = capfdbinary.readouterr()
        return subprocess.CompletedProcess(arguments, status, captured.out, captured.err)

    return run
