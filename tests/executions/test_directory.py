"""The directory of an execution: private, made once, and on the disk before anything in it is told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from fable_exec.errors import Conflict
from fable_exec.executions import ExecutionDirectory
from tests import disks

ID = "7f0c2a0e-0000-4000-8000-000000000001"

MADE_BEFORE_THE_POWER_IS_CUT = """
    import os, shutil, subprocess, sys
    from pathlib import Path
    from fable_exec import _sys
    from fable_exec.executions import ExecutionDirectory
    image, execution_id, known, syncs = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    (Path.cwd() / known).mkdir(parents=True, exist_ok=True, mode=0o700)
    os.sync()
    if syncs == "no":
        _sys.sync_directory = lambda fd: None
    ExecutionDirectory.of(Path.cwd() / "above" / "root", execution_id).make()
    copy, place = image.with_name("copy"), image.with_name("mounted")
    shutil.copyfile(image, copy)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", str(copy), str(place)], check=True)
    print((place / "above" / "root" / execution_id).is_dir())
    subprocess.run(["umount", str(place)], check=True)
"""


@pytest.mark.requires_ability("root", "loop_ext4")
@pytest.mark.parametrize(("known", "syncs"), [(".", "yes"), ("above", "yes"), ("above/root", "yes"), ("above/root", "no")])
def test_what_was_made_is_there_after_a_power_cut(tmp_path: Path, known: str, syncs: str) -> None:
    """Without the syncs it is not: the test can fail."""
    (tmp_path / "disk").mkdir()
    image = tmp_path / "image"
    answer = disks.on_ext4(image, tmp_path / "disk", MADE_BEFORE_THE_POWER_IS_CUT, str(image), ID, known, syncs)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == f"{syncs == 'yes'}\n"


def test_it_is_private_with_its_root_and_made_once(tmp_path: Path) -> None:
    directory = ExecutionDirectory.of(tmp_path / "above" / "root", ID)
    for _ in range(2):
        directory.make()
        assert [path.stat().st_mode & 0o777 for path in (directory.path, directory.path.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("name", ["root", f"root/{ID}"])
@pytest.mark.parametrize("what", ["link", "open"])
def test_what_another_could_have_put_there_holds_no_executions(tmp_path: Path, name: str, what: str) -> None:
    place = tmp_path / name
    place.parent.mkdir(mode=0o700, exist_ok=True)
    if what == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(Conflict) as caught:
        ExecutionDirectory.of(tmp_path / "root", ID).make()
    assert caught.value.reason == "not-private"


@pytest.mark.parametrize("name", ["above", "above/root", f"above/root/{ID}"])
def test_a_file_in_its_place_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    (tmp_path / name).touch(0o600)
    with pytest.raises((OSError, Conflict)):
        ExecutionDirectory.of(tmp_path / "above" / "root", ID).make()
