"""The same denials at every door, in the audit log and on the command line; none where the policy wants none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from fable_exec import AuditRules, Confinement
from fable_exec.outcome import Observed
from tests.confinement.places import GIT, confined, in_modes, run
from tests.denials.told import PROGRAMS

pytestmark = pytest.mark.requires_ability("linux")


@in_modes()
def test_nothing_is_told_where_the_policy_asks_for_none(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, confinement=Confinement(observe="off"), allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("sh", "-c", "mkdir /usr/x"))
    assert (result.success, result.denials, result.observed) == (False, (), Observed.OFF)


@pytest.mark.requires_ability("confinement")
def test_denials_go_the_same_way_through_every_door(workspace: Path) -> None:
    from tests.confinement.places import confined_policy
    from tests.doors import DOORS, opened

    for kind in DOORS:
        with opened(kind, confined_policy(workspace, allowed_executables=PROGRAMS)) as broker:
            result = broker.execute_command(("sh", "-c", "mkdir /usr/x"))
            assert [attrs.astuple(each)[:4] for each in result.denials] == [("mkdir", "/usr/x", "", "host_writes")], kind


@pytest.mark.requires_ability("confinement")
def test_the_audit_log_tells_of_them(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    text = "mkdir /usr/x; for n in $(seq 80); do mkdir /usr/$n; done; true"
    with confined(workspace, audit=AuditRules(path=log), allowed_executables=PROGRAMS) as broker:
        run(broker, "true")
        run(broker, "sh", "-c", text)
    quiet, told = [
        line["facts"] for line in map(json.loads, log.read_text().splitlines()) if line["kind"] == "outcome"
    ]  # fmt: skip
    assert "denials" not in quiet
    assert told["denials"][0] == "mkdir /usr/x (host_writes)"
    assert len(told["denials"]) + told["denials_omitted"] == 81


@pytest.mark.requires_ability("confinement")
def test_the_command_line_shows_them(workspace: Path) -> None:
    argv = [sys.executable, "-m", "fable_exec", "run", "--confinement", "strict", "--workspace", str(workspace)]
    shown = subprocess.run([*argv, "--", "mkdir", "/usr/x"], capture_output=True, text=True, env={**os.environ, **GIT})
    assert "refused: mkdir /usr/x (host_writes)" in shown.stderr
    printed = subprocess.run([*argv, "--json", "--", "mkdir", "/usr/x"], capture_output=True, text=True)
    assert [each["path"] for each in json.loads(printed.stdout)["result"]["denials"]] == ["/usr/x"]
