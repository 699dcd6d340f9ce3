"""Hosts whose locale is not UTF-8: paths of requests are UTF-8 all the same, or nothing is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import hosts

NOT_UTF8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
PROGRAM = """
from fable_exec import BrokerClient, ExecutionBroker
from tests.doors import TOKEN, policy_for
kind = {"in_process": ExecutionBroker, "spawned": BrokerClient}[sys.argv[2]]
try:
    with kind(policy_for(Path(sys.argv[1]))) as door:
        door.unlock_writes(TOKEN)
        door.write_file("caf\\u00e9", "t\\u00e9xt")
        ran = door.execute_command(["bash", "-c", "cat $0", "caf\\u00e9"])
        answer([door.inspect_files("caf\\u00e9").content, ran.stdout, [entry.name for entry in door.list_directory().entries]])
except FableExecError as error:
    answer([error.code, str(error)])
"""


def found(monkeypatch: pytest.MonkeyPatch, workspace: Path, kind: str) -> list[object]:
    for name, value in NOT_UTF8.items():
        monkeypatch.setenv(name, value)
    answered: list[object] = hosts.answer_of(PROGRAM, str(workspace), kind)
    return answered


@pytest.mark.requires_ability("linux")
def test_a_spawned_broker_takes_paths_for_utf8_in_any_locale(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    assert found(monkeypatch, workspace, "spawned") == ["t\u00e9xt", "t\u00e9xt", ["caf\u00e9"]]
    assert os.listdir(os.fsencode(workspace)) == ["caf\u00e9".encode()]


@pytest.mark.requires_ability("linux")
def test_a_broker_in_a_process_with_other_names_does_nothing_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    code, text = found(monkeypatch, workspace, "in_process")
    assert code == "confinement-unavailable"
    assert "takes the names of files for ascii: start Python with PYTHONUTF8=1" in str(text)
    assert os.listdir(workspace) == []
