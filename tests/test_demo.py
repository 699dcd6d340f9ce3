"""What `make demo` runs ends well for a user with an empty HOME, and every step of it is as expected."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boxes import Finished

pytestmark = pytest.mark.requires_ability("confinement")

PROJECT = Path(__file__).resolve().parents[1]


@pytest.mark.requires_ability("git")
def test_every_step_of_the_demo_is_as_expected(pid_box: Callable[..., Finished], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_COLOR": "1", "COLUMNS": "140"}
    finished = pid_box([sys.executable, str(PROJECT / "examples" / "demo.py")], timeout=100, env=environment)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "NO" not in finished.stdout.split()
    assert finished.stdout.splitlines()[-1].endswith("steps were as expected")
    assert list(home.iterdir()) == []
