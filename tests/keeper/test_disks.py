"""A disk that is full, or read only: the job goes on, what is lost of its output is counted, and its end is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import disks
from tests.keeper.scenes import NEEDS

RUNGS = [pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in NEEDS]
_BEGIN = """
    import os, subprocess, sys
    from pathlib import Path
    from fable_exec.errors import FableExecError
    from tests.keeper.scenes import Scene, ending, supervising

    directory, rung = Path(sys.argv[1]), sys.argv[2]
    workspace = directory / "workspace"
    workspace.mkdir(mode=0o700)
    os.mkfifo(workspace / "go")

    def fill():
        with open("ballast", "ab", buffering=0) as ballast:
            for size in (4096, 1):
                try:
                    while ballast.write(bytes(size)):
                        pass
                except OSError:
                    pass

    def go():
        (workspace / "go").write_text("go\\n")

    with supervising(Path.cwd()) as supervisor:
        scene = Scene(supervisor=supervisor, workspace=workspace, rung=rung)
"""


def said(tmp_path: Path, rung: str, options: str, program: str) -> str:
    (tmp_path / "disk").mkdir()
    answer = disks.on_tmpfs(tmp_path / "disk", options, _BEGIN + program, str(tmp_path), rung)
    assert answer.stderr == ""
    return answer.stdout


@pytest.mark.requires_ability("userns")
@pytest.mark.parametrize("rung", RUNGS)
def test_on_a_full_disk_a_job_goes_on_and_what_its_log_has_no_room_for_is_counted(rung: str, tmp_path: Path) -> None:
    program = """
        execution = scene.shell("echo first; read <go; head -c 1000000 /dev/zero; exit 3")
        scene.said(execution, b"first")
        fill()
        go()
        found = scene.ended(execution)
        kept, document = execution.runner_log.stat().st_size, found.document
        print(ending(found), document["output_bytes"], kept + document["output_dropped_bytes"], kept < 100_000)
    """
    assert said(tmp_path, rung, "size=512k", program) == "('crashed', 3, None) 1000006 1000006 True\n"


@pytest.mark.requires_ability("userns")
@pytest.mark.parametrize("rung", RUNGS)
def test_where_there_is_no_room_for_the_record_nothing_is_accepted(rung: str, tmp_path: Path) -> None:
    program = """
        scene.run("true")
        fill()
        try:
            scene.shell("echo ran >ran")
        except FableExecError as error:
            print(type(error).__name__, "No space left" in str(error))
        print(len(supervisor.list()), (workspace / "ran").exists())
        os.unlink("ballast")
        print(ending(scene.run("sh", "-c", "exit 3")))
    """
    assert said(tmp_path, rung, "size=512k", program) == "LaunchFailed True\n1 False\n('crashed', 3, None)\n"


@pytest.mark.requires_ability("userns")
@pytest.mark.parametrize("rung", RUNGS)
def test_where_there_is_room_for_a_few_files_only_no_execution_is_left_half_made(rung: str, tmp_path: Path) -> None:
    """However many names are left: it runs and is recorded, or it is not accepted, or its record says that it could not run."""
    program = """
        words = set()
        for left in range(0, 24):
            names = [Path(f"name-{number}") for number in range(400)]
            try:
                for name in names:
                    name.touch()
            except OSError:
                pass
            for name in [name for name in names if name.exists()][:left]:
                name.unlink()
            try:
                found = scene.run("sh", "-c", "exit 3")
                words.add(str(ending(found)))
            except FableExecError as error:
                words.add(type(error).__name__)
            for name in names:
                name.unlink(missing_ok=True)
            supervisor.prune(older_than_seconds=0)
        print(sorted(words))
    """
    words = said(tmp_path, rung, "size=4m,nr_inodes=200", program)
    assert words.replace("\"('launch_failed', None, None)\", ", "") == "[\"('crashed', 3, None)\", 'LaunchFailed']\n"
