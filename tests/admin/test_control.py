"""The admin's commands, whatever channel they came by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fable_exec import ExecutionBroker
from fable_exec.admin import AdminControl
from fable_exec.admin.control import encode
from tests.doors import TOKEN

SECRET = "sesame-51c2"


def control_of(broker: ExecutionBroker) -> tuple[AdminControl, list[int]]:
    ended: list[int] = []
    return AdminControl(broker, lambda: ended.append(1)), ended


def command(**members: Any) -> bytes:
    return json.dumps(members).encode()


def test_unlock_lock_status_and_shutdown_answer_in_json(broker: ExecutionBroker) -> None:
    control, ended = control_of(broker)
    assert control.answer(command(action="unlock_writes", token=TOKEN)) == {"ok": True}
    status = control.answer(command(action="status"))
    assert (status["ok"], status["writes_enabled"], status["policy_digest"]) == (True, True, broker.policy.digest)
    assert control.answer(command(action="lock_writes")) == {"ok": True}
    assert control.answer(command(action="status"))["writes_enabled"] is False
    assert ended == []
    assert control.answer(command(action="shutdown")) == {"ok": True}
    assert ended == [1]


def test_a_simple_answer_is_these_bytes() -> None:
    assert encode({"ok": True}) == b'{"ok": true}\n'


def test_an_unlock_may_carry_an_expiry_and_paths(broker: ExecutionBroker) -> None:
    control, _ = control_of(broker)
    assert control.answer(command(action="unlock_writes", token=TOKEN, expires_in_seconds=60, paths=["a/b"]))["ok"]
    broker.write_file("a/b/c", "x")
    with pytest.raises(PermissionError):
        broker.write_file("a/c", "x")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", "json-invalid"),
        (b"nonsense", "json-invalid"),
        (b"\xff", "json-invalid"),
        (b"[]", "invalid-request"),
        (b"{}", "invalid-request"),
        (command(action="no_such"), "invalid-request"),
        (command(action=["unlock_writes"]), "invalid-request"),
        (command(action="execute_command", command=["true"]), "invalid-request"),
        (b'{"action":"lock_writes","action":"lock_writes"}', "invalid-request"),
        (command(action="lock_writes", token=SECRET), "invalid-request"),
        (command(action="unlock_writes"), "writes-locked"),
        (command(action="unlock_writes", token=None), "writes-locked"),
        (command(action="unlock_writes", token=""), "writes-locked"),
        (command(action="unlock_writes", token=SECRET), "denied"),
        (command(action="unlock_writes", token=[SECRET]), "invalid-request"),
        (command(action="unlock_writes", token=TOKEN, expires_in_seconds="1"), "invalid-request"),
        (command(action="unlock_writes", token=TOKEN, expires_in_seconds=0), "invalid-request"),
        (command(action="unlock_writes", token=TOKEN, paths="a"), "invalid-request"),
        (command(action="unlock_writes", token=TOKEN, paths=[]), "invalid-request"),
        (command(action="unlock_writes", token=TOKEN, paths=["../a"]), "path-denied"),
        (command(action="unlock_writes", token=TOKEN, paths=[1]), "invalid-request"),
    ],
)
def test_everything_else_is_refused_changes_nothing_and_shows_no_token(broker: ExecutionBroker, line: bytes, code: str) -> None:
    control, ended = control_of(broker)
    answer = control.answer(line)
    assert (answer["ok"], answer["code"]) == (False, code)
    assert SECRET not in answer["error"] and TOKEN not in answer["error"]
    assert len(encode(answer)) < 4096
    assert not broker.writes_enabled
    assert ended == []


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({}, 'there is no member "action"; it says what to do: lock_writes, shutdown, status, unlock_writes'),
        ({"command": "unlock_writes", "token": SECRET}, 'there is no member "action", only "command", "token"; it says'),
        ({"action": "lock_writes", "token": SECRET}, 'lock_writes has no member "token"; it has none but action'),
        (
            {"action": "unlock_writes", "expires": 60},
            'unlock_writes has no member "expires"; it has expires_in_seconds, paths, token',
        ),
        ({"action": "status", SECRET: 1}, "status has no member (a name that is not shown); it has"),
        ({"action": "status", **dict.fromkeys("abcdef", 1)}, 'status has no member "a", "b", "c", "d", more; it has'),
    ],
)
def test_a_message_names_the_member_that_is_missing_or_unknown(
    broker: ExecutionBroker, members: dict[str, Any], told: str
) -> None:
    error = control_of(broker)[0].answer(command(**members))["error"]
    assert error.startswith(told)
    assert SECRET not in error


def test_no_digest_means_locked_for_good(workspace: Any) -> None:
    from tests.doors import policy_for

    with ExecutionBroker(policy_for(workspace, write_token_digest=None)) as broker:
        control, _ = control_of(broker)
        answer = control.answer(command(action="unlock_writes", token=TOKEN))
        assert answer["error"].startswith(
            "workspace writes are locked, and nothing can unlock them: the policy has no write_token_digest"
        )


def test_the_back_off_is_the_brokers_and_counts_over_all_channels(broker: ExecutionBroker) -> None:
    first, second = control_of(broker)[0], control_of(broker)[0]
    for _ in range(3):
        first.answer(command(action="unlock_writes", token="wrong"))
    for _ in range(2):
        second.answer(command(action="unlock_writes", token="wrong"))
    answer = first.answer(command(action="unlock_writes", token=TOKEN))
    assert "too many wrong tokens" in answer["error"]


def test_a_failing_broker_is_an_answer(broker: ExecutionBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(broker, "unlock_writes", fail)
    answer = control_of(broker)[0].answer(command(action="unlock_writes", token=TOKEN))
    assert answer["code"] == "internal-error"
    assert SECRET not in answer["error"]
