"""`inside`: a program of tests/procident/inside.py in namespaces of its own, with the powers that these give."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.boxes import Finished

PROJECT = Path(__file__).resolve().parents[2]

# A user namespace gives also an ordinary user what it takes to choose a process number and to mount; he stays who he is. The
# shell is process 1, so that the program is not.
_POWERS = ["unshare", "--user", "--map-current-user", "--keep-caps"]
_NAMESPACES = ["--pid", "--fork", "--kill-child", "--mount-proc"]
_NOT_FIRST = ["sh", "-c", '"$@"; exit "$?"', "sh"]


@pytest.fixture
def inside(pid_box: Callable[..., Finished]) -> Callable[..., Any]:
    """`inside(name, *arguments, as_is=False)`: what the program answers. `as_is` leaves out the user namespace."""

    def run(name: str, *arguments: str, as_is: bool = False, timeout: float = 60) -> Any:
        into = [] if as_is else [*_POWERS, *_NAMESPACES, *_NOT_FIRST]
        argv = [*into, sys.executable, "-m", "tests.procident.inside", name, *arguments]
        finished = pid_box(argv, timeout=timeout, env={**os.environ, "PYTHONPATH": str(PROJECT)})
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    return run
