"""A full disk: commands run all the same, so that one can make room, and what cannot be done says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import disks

ON_A_FULL_DISK = """
    import json, os, sys, tempfile
    from pathlib import Path
    from fable_exec import BrokerClient, ExecutionBroker, PathError
    from tests.doors import TOKEN, policy_for

    os.mkdir("workspace", 0o700)
    os.mkdir("temporary", 0o700)
    tempfile.tempdir = os.environ["TMPDIR"] = os.path.abspath("temporary")
    with open("workspace/ballast", "wb") as ballast:
        try:
            while True:
                ballast.write(bytes(65536))
                ballast.flush()
        except OSError:
            pass
    told = []
    door = {"in_process": ExecutionBroker, "spawned": BrokerClient}[sys.argv[1]]
    with door(policy_for(Path("workspace").resolve())) as broker:
        broker.unlock_writes(TOKEN)
        try:
            broker.write_file("new", "x" * 10000)
        except PathError as error:
            told.append(error.reason)
        told.append(broker.execute_command(["bash", "-c", "> ballast; echo done"]).stdout)
        told.append(broker.write_file("new", "x" * 10000).total_bytes)
    print(json.dumps([*told, os.listdir("temporary")]))
"""
WITH_FEW_NAMES_LEFT = """
    import itertools, json, os, tempfile
    from pathlib import Path
    from fable_exec import ExecutionBroker, FableExecError
    from tests.doors import policy_for

    os.mkdir("workspace", 0o700)
    os.mkdir("temporary", 0o700)
    tempfile.tempdir = os.path.abspath("temporary")
    taken, told = [], []
    with ExecutionBroker(policy_for(Path("workspace").resolve())) as broker:
        for left in itertools.count():
            try:
                for number in itertools.count(len(taken)):
                    open(f"taken-{number}", "x").close()
                    taken.append(f"taken-{number}")
            except OSError:
                pass
            for _ in range(left):
                os.remove(taken.pop())
            try:
                broker.execute_command(["true"])
                break
            except FableExecError as error:
                told.append([error.code, str(error)])
    print(json.dumps(told))
"""


@pytest.mark.requires_ability("root", "confinement")
@pytest.mark.parametrize("kind", ["in_process", "spawned"])
def test_a_command_can_make_room_on_a_full_disk(tmp_path: Path, kind: str) -> None:
    done = disks.on_tmpfs(tmp_path, "size=1m", ON_A_FULL_DISK, kind)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["no-space", "done\n", 10000, []]


@pytest.mark.requires_ability("root", "confinement")
def test_a_command_that_no_room_is_left_for_is_told_what_to_do(tmp_path: Path) -> None:
    done = disks.on_tmpfs(tmp_path, "size=1m,nr_inodes=40", WITH_FEW_NAMES_LEFT)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {code for code, _ in told} == {"launch-failed", "confinement-unavailable"}
    assert all("another directory by TMPDIR" in text for _, text in told)
