"""`handle`: requests with the members that peers have always sent, and answers with the members they have always read."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fable_exec import ExecutionBroker, InvalidRequest
from fable_exec.decision import INTERPRETERS
from tests.doors import policy_for

PROBE_MEMBERS = {
    "host", "capabilities", "available_executables", "writes_enabled", "read_locked_interpreters", "workspace",
}  # fmt: skip
COMMAND_MEMBERS = {
    "command", "cwd", "exit_code", "timed_out", "output_limited", "stdout", "stderr", "success",
}  # fmt: skip


@pytest.mark.parametrize("action", ["probe", "probe_capabilities"])
def test_a_probe_has_the_members_of_old_and_more(broker: ExecutionBroker, workspace: Path, action: str) -> None:
    found = broker.handle({"action": action})
    assert found.keys() >= PROBE_MEMBERS | {
        "protocol_version",
        "policy_digest",
        "confinement",
        "limits",
        "unresolved_executables",
    }
    assert found["host"] == "fable-execution-broker"
    assert found["capabilities"][:4] == ["execute_command", "inspect_files", "probe_capabilities", "write_file"]
    assert found["read_locked_interpreters"] == sorted(INTERPRETERS)
    assert found["workspace"] == str(workspace)
    json.dumps(found)


def test_a_write_and_a_read_are_as_they_always_were(broker: ExecutionBroker) -> None:
    digest = hashlib.sha256("hello\né".encode()).hexdigest()
    written = broker.handle({"action": "write_file", "path": "a\\b.txt", "content": "hello\né"})
    assert {name: written[name] for name in ("path", "content_hash", "writes_enabled")} == {
        "path": "a/b.txt",
        "content_hash": digest,
        "writes_enabled": True,
    }
    found = broker.handle({"action": "inspect_files", "path": "a/b.txt"})
    assert {name: found[name] for name in ("path", "content", "content_hash", "truncated")} == {
        "path": "a/b.txt",
        "content": "hello\né",
        "content_hash": digest,
        "truncated": False,
    }
    cut = broker.handle({"action": "inspect_files", "path": "a/b.txt", "max_bytes": 5})
    assert (cut["content"], cut["truncated"], cut["content_hash"]) == ("hello", True, hashlib.sha256(b"hello").hexdigest())


def test_bytes_that_are_no_text_are_replaced_and_named(broker: ExecutionBroker, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"a\xffb")
    (workspace / "a").chmod(0o600)
    found = broker.handle({"action": "inspect_files", "path": "a"})
    assert (found["content"], found["encoding"]) == ("a\ufffdb", "utf-8-lossy")
    exact = broker.handle({"action": "inspect_files", "path": "a", "encoding": "base64"})
    assert (exact["content"], exact["encoding"]) == ("Yf9i", "base64")


@pytest.mark.requires_ability("confinement")
def test_a_command_has_the_members_of_old_and_the_exact_outcome(broker: ExecutionBroker) -> None:
    found = broker.handle({"action": "execute_command", "command": ["bash", "-c", "echo out; echo err >&2; exit 4"]})
    assert found.keys() >= COMMAND_MEMBERS | {"outcome", "survivors", "duration_seconds", "signal", "confinement"}
    assert {name: found[name] for name in COMMAND_MEMBERS - {"command"}} == {
        "cwd": ".",
        "exit_code": 4,
        "timed_out": False,
        "output_limited": False,
        "stdout": "out\n",
        "stderr": "err\n",
        "success": False,
    }
    assert found["command"][0] == os.path.realpath(found["command"][0])
    assert (found["outcome"], found["survivors"]) == ("exited", [])


@pytest.mark.requires_ability("confinement")
def test_a_command_that_ran_out_of_time_has_no_exit_code(broker: ExecutionBroker) -> None:
    request = {"action": "execute_command", "command": ["bash", "-c", "echo x; sleep 60"], "timeout_seconds": 1.5, "cwd": None}
    found = broker.handle(request)
    assert (found["exit_code"], found["timed_out"], found["success"], found["stdout"]) == (None, True, False, "x\n")


@pytest.mark.requires_ability("confinement")
def test_a_killed_command_has_the_negative_signal_as_its_code(broker: ExecutionBroker) -> None:
    assert broker.handle({"action": "execute_command", "command": ["bash", "-c", "kill -9 $$"]})["exit_code"] == -9


REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({}, ValueError),
    ({"action": "no_such"}, ValueError),
    ({"action": None}, ValueError),
    ({"action": "inspect_files"}, ValueError),
    ({"action": "inspect_files", "path": ""}, ValueError),
    ({"action": "inspect_files", "path": " "}, ValueError),
    ({"action": "inspect_files", "path": "missing"}, ValueError),
    ({"action": "inspect_files", "path": "missing"}, FileNotFoundError),
    ({"action": "inspect_files", "path": "../x"}, PermissionError),
    ({"action": "inspect_files", "path": "../x"}, ValueError),
    ({"action": "write_file", "path": "a"}, ValueError),
    ({"action": "write_file", "path": "a", "content": 1}, ValueError),
    ({"action": "write_file", "path": "a", "content": "x", "token": "t"}, ValueError),
    ({"action": "execute_command", "command": "true"}, ValueError),
    ({"action": "execute_command", "command": []}, ValueError),
    ({"action": "execute_command", "command": ["ls"]}, PermissionError),
    ({"action": "execute_command", "command": ["true"], "timeout_seconds": "1"}, ValueError),
    ({"action": "execute_command", "command": ["true"], "timeout_seconds": 3601}, ValueError),
    ({"action": "execute_command", "command": ["true"], "cwd": "missing"}, FileNotFoundError),
    ({"action": "list_directory", "path": "missing"}, FileNotFoundError),
    ({"action": "unlock_writes", "token": "t"}, ValueError),
]


@pytest.mark.requires_ability("confinement")
def test_what_is_refused_raises_the_builtin_that_it_always_raised(door: Any, workspace: Path) -> None:
    for request, kind in REFUSED:
        with pytest.raises(kind):
            door.handle(request)
        assert (request, list(workspace.iterdir())) == (request, [])


@pytest.mark.requires_ability("confinement")
def test_a_request_as_a_mapping_is_answered_alike_at_every_door(door: Any, workspace: Path) -> None:
    wrote = door.handle({"action": "write_file", "path": "a", "content": "said\n"})
    assert wrote["path"] == "a" and wrote["writes_enabled"]
    assert door.handle({"action": "inspect_files", "path": "a"})["content"] == "said\n"
    ran = door.handle({"action": "execute_command", "command": ["cat"], "stdin": "said\n", "stream": True})
    assert (ran["stdout"], ran["exit_code"], ran["success"]) == ("said\n", 0, True)
    raw = door.handle({"action": "execute_command", "command": ["cat"], "stdin": "c2FpZAo=", "encoding": "base64"})
    assert raw["stdout"] == "c2FpZAo="


@pytest.mark.requires_ability("confinement")
def test_an_integer_is_taken_for_seconds_and_an_id_is_ignored(broker: ExecutionBroker) -> None:
    request = {"action": "execute_command", "id": "x", "command": ["true"], "timeout_seconds": 5}
    assert broker.handle(request)["success"]


def test_a_deadline_beyond_the_policys_is_refused_behind_every_call(workspace: Path) -> None:
    from fable_exec import Limits

    with ExecutionBroker(policy_for(workspace, limits=Limits(timeout_seconds=5, max_timeout_seconds=10))) as broker:
        for asked in (
            lambda: broker.handle({"action": "execute_command", "command": ["true"], "timeout_seconds": 11}),
            lambda: broker.execute_command(["true"], timeout_seconds=11),
            lambda: broker.start_command(["true"], idle_timeout_seconds=11),
        ):
            with pytest.raises(InvalidRequest, match="at most 10"):
                asked()


def test_no_member_and_no_action_of_the_protocol_can_unlock(workspace: Path) -> None:
    from fable_exec.protocol import ACTIONS

    words = set(ACTIONS) | {name for request in ACTIONS.values() for name in request.__annotations__}
    assert [word for word in words if "lock" in word or "token" in word or "policy" in word or "sandbox" in word] == []
