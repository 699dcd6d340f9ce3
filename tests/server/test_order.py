"""In which order a server in a process of its own answers, what it does at a time, and what a cancel takes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.peers import PROBE, Peer, command


@pytest.mark.requires_ability("confinement")
def test_answers_without_an_id_come_in_order(peer: Callable[..., Peer], workspace: Path) -> None:
    (workspace / "file").touch(0o600)
    server = peer()
    server.send(
        command("sleep", "0.3"),
        {"action": "stat_path", "path": "file"},
        b"nonsense\n",
        command("echo", "second"),
        {"action": "list_directory"},
    )
    answers = [server.answer() for _ in range(5)]
    assert [answer.get("result", {}).get("stdout", answer.get("error")) for answer in answers] == [
        "",
        None,
        "JSONDecodeError",
        "second\n",
        None,
    ]
    assert answers[1]["result"]["kind"] == "file"


@pytest.mark.requires_ability("confinement")
def test_requests_with_an_id_overtake_and_each_is_answered_once(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.send(
        command("sleep", "600", id="slow"), *({**PROBE, "id": number} for number in range(20)), command("echo", "x", id="quick")
    )
    order = [server.answer()["id"] for _ in range(21)]
    assert sorted(map(str, order)) == sorted(["quick", *map(str, range(20))])
    server.send({"action": "cancel", "id": "cancel", "target": "slow"})
    assert {server.answer()["id"] for _ in range(2)} == {"slow", "cancel"}


@pytest.mark.requires_ability("confinement")
def test_no_more_than_the_policys_number_is_in_flight(peer: Callable[..., Peer], tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"limits": {"max_in_flight": 2}}')
    server = peer("--policy", str(tmp_path / "policy.json"))
    began = time.monotonic()
    server.send(*(command("sleep", "0.4", id=number) for number in range(4)))
    assert {server.answer()["id"] for _ in range(4)} == {0, 1, 2, 3}
    assert time.monotonic() - began > 0.7


@pytest.mark.requires_ability("confinement")
def test_a_stream_is_events_in_order_and_then_the_answer(peer: Callable[..., Peer]) -> None:
    server = peer()
    server.send(command("cat", id="s", stdin="hé\n", stream=True))
    assert server.answer() == {"id": "s", "event": "started", "sequence": 0}
    assert server.answer() == {"id": "s", "event": "stdout", "sequence": 1, "data": "hé\n"}
    assert server.answer() == {"id": "s", "event": "exited", "sequence": 2, "outcome": "exited", "exit_code": 0, "signal": None}
    answer = server.answer()
    assert (answer["id"], answer["result"]["stdout"]) == ("s", "hé\n")


@pytest.mark.requires_ability("confinement")
def test_a_cancel_ends_what_runs_and_takes_back_what_waits(peer: Callable[..., Peer], tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"limits": {"max_in_flight": 1}}')
    server = peer("--policy", str(tmp_path / "policy.json"))
    server.send(command("sleep", "600", id="runs"), command("sleep", "600", id="waits"))
    server.send({"action": "cancel", "id": 1, "target": "waits"})
    first, second = server.answer(), server.answer()
    assert (first["id"], first["code"]) == ("waits", "conflict")
    assert second == {"id": 1, "ok": True, "result": {"cancelled": True}}
    server.send({"action": "cancel", "id": 2, "target": "runs"}, {"action": "cancel", "id": 3, "target": "nobody"})
    answers = {answer["id"]: answer for answer in (server.answer(), server.answer(), server.answer())}
    assert answers["runs"]["result"]["outcome"] == "cancelled"
    assert answers[2]["result"]["cancelled"] is True
    assert answers[3]["result"]["cancelled"] is False
