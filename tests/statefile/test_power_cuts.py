"""The power is cut at each system call of a durable act, on a real file system with a journal: what was promised is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import disks
from tests.statefile.scenes import SCENES
from tests.statefile.test_faults import WORDS

pytestmark = pytest.mark.requires_ability("root", "loop_ext4")
PROGRAM = Path(__file__).with_name("power_program.py").read_text()
DURABLE = [scene for scene in SCENES if scene != "read"]


def changes(tmp_path: Path, scene: str, way: str) -> list[str]:
    (tmp_path / "disk").mkdir()
    image = tmp_path / "image"
    answer = disks.on_ext4(image, tmp_path / "disk", PROGRAM, str(image), scene, way)
    assert answer.returncode == 0, answer.stderr
    found: list[str] = json.loads(answer.stdout)["changes"]
    return found


@pytest.mark.deep
@pytest.mark.parametrize("scene", DURABLE)
def test_whenever_the_power_is_cut_it_is_done_or_not_done(tmp_path: Path, scene: str) -> None:
    """The last run is one whose act is over: what it did is there."""
    found = changes(tmp_path, scene, "cut")
    assert found == WORDS[scene]


@pytest.mark.parametrize("scene", DURABLE)
def test_without_the_syncs_a_cut_would_lose_it(tmp_path: Path, scene: str) -> None:
    """The test above can fail."""
    assert changes(tmp_path, scene, "unsynced") != WORDS[scene][-1:]
