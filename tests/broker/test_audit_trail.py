"""What a broker writes into its audit log, what it never writes there, and what holds when it cannot."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker, AuditRules, AuditUnavailable, BrokerGone, ExecutionBroker, FableExecError
from fable_exec.audit import verify_log
from tests.doors import DOORS, TOKEN, environment_with, opened, policy_for

CANARY = "sesame-7f3a"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def lines_of(log: Path) -> list[dict[str, Any]]:
    assert verify_log(log).ok
    return [{"kind": line["kind"], **line["facts"]} for line in map(json.loads, log.read_text().splitlines())]


@pytest.fixture(params=sorted(DOORS))
def audited(request: pytest.FixtureRequest, workspace: Path, log: Path) -> Iterator[Any]:
    environment = environment_with(request_names=("APP_*",))
    with opened(request.param, policy_for(workspace, audit=AuditRules(path=log), environment=environment)) as door:
        yield door


@pytest.mark.requires_ability("confinement")
def test_every_decision_and_outcome_is_a_line_and_belongs_together(audited: Any, log: Path, workspace: Path) -> None:
    with pytest.raises(PermissionError):
        audited.write_file("a", "x")
    audited.unlock_writes(TOKEN)
    audited.write_file("a", "x")
    audited.execute_command(["bash", "-c", "exit 3"])
    for refused in (lambda: audited.execute_command(["ls"]), lambda: audited.inspect_files("../x")):
        with pytest.raises(PermissionError):
            refused()
    with pytest.raises(FileNotFoundError):
        audited.inspect_files("missing")
    audited.lock_writes()
    audited.close()
    found = [line for line in lines_of(log) if line.get("action") != "probe"]
    brief = [
        (line["kind"], line.get("action"), line.get("rule"), line.get("code"), line.get("outcome"), line.get("ok"))
        for line in found
    ]
    assert brief == [
        ("decision", "write_file", "write-lock", "writes-locked", None, None),
        ("unlock", None, None, None, None, True),
        ("decision", "write_file", "write", "allowed", None, None),
        ("outcome", "write_file", None, None, None, True),
        ("decision", "execute_command", "command", "allowed", None, None),
        ("outcome", "execute_command", None, None, "exited", True),
        ("decision", "execute_command", "not-listed", "executable-denied", None, None),
        ("decision", "inspect_files", "path-denied", "path-denied", None, None),
        ("decision", "inspect_files", "observe", "allowed", None, None),
        ("outcome", "inspect_files", None, "not-found", None, False),
        ("lock", None, None, None, None, None),
    ]
    assert found[2]["operation"] == found[3]["operation"] != found[4]["operation"] == found[5]["operation"]
    assert found[2]["paths"] == ["a"]
    assert found[4]["command"] == ["bash", "-c", "exit 3"]
    assert {line["policy"] for line in found} == {audited.policy.digest[:16]}


@pytest.mark.requires_ability("confinement")
def test_no_token_content_input_or_variable_reaches_the_log(audited: Any, log: Path) -> None:
    with pytest.raises(PermissionError):
        audited.unlock_writes(f"wrong-{CANARY}")
    audited.unlock_writes(TOKEN)
    audited.write_file("a", CANARY)
    audited.append("a", CANARY)
    audited.edit_file("a", CANARY * 2, f"{CANARY}-edited")
    audited.search_files(CANARY)
    audited.execute_command(["cat"], stdin=CANARY, env={"APP_KEY": CANARY})
    with audited.start_command(["cat"], keep_stdin_open=True) as started:
        started.write_stdin(CANARY)
        started.close_stdin()
        assert started.wait().stdout == CANARY
    audited.close()
    text = log.read_text()
    assert CANARY not in text
    assert TOKEN not in text
    assert len(lines_of(log)) >= 12


@pytest.mark.requires_ability("confinement")
def test_a_failed_launch_and_a_cancelled_command_are_outcomes_too(workspace: Path, log: Path) -> None:
    with ExecutionBroker(policy_for(workspace, audit=AuditRules(path=log))) as broker:
        with pytest.raises(FileNotFoundError):
            broker.execute_command(["true"], "missing")
        with broker.start_command(["sleep", "600"]):
            pass
        name = broker.start_background(["true"]).handle
        while broker.read_command(name, 10).running:
            pass
    outcomes = [line for line in lines_of(log) if line["kind"] == "outcome" and "_command" in line["action"]]
    outcomes = [line for line in outcomes if line["action"] != "read_command"]
    assert [(line["ok"], line.get("code"), line.get("outcome")) for line in outcomes] == [
        (False, "not-found", None),
        (True, None, "cancelled"),
        (True, None, "exited"),
    ]


@pytest.mark.parametrize("kind", sorted(DOORS))
def test_a_log_that_cannot_be_written_refuses_further_work(kind: str, workspace: Path, log: Path) -> None:
    with opened(kind, policy_for(workspace, audit=AuditRules(path=log)), unlocked=True) as door:
        door.write_file("before", "x")
        log.unlink()
        for refused in (
            lambda: door.write_file("after", "x"),
            lambda: door.inspect_files("before"),
            lambda: door.execute_command(["bash", "-c", "touch after"]),
        ):
            with pytest.raises(AuditUnavailable):
                refused()
    assert [path.name for path in workspace.iterdir()] == ["before"]


def test_a_log_that_may_have_gaps_lets_work_go_on_and_says_what_is_missing(workspace: Path, log: Path) -> None:
    rules = AuditRules(path=log, on_failure="continue")
    with ExecutionBroker(policy_for(workspace, audit=rules)) as broker:
        broker.unlock_writes(TOKEN)
        moved = log.rename(log.with_name("moved"))
        moved.unlink()
        broker.write_file("a", "x")
    assert (workspace / "a").exists()


def test_an_unusable_log_is_found_at_the_start(workspace: Path, log: Path) -> None:
    log.write_text("not a log\n")
    log.chmod(0o600)
    with pytest.raises(AuditUnavailable):
        ExecutionBroker(policy_for(workspace, audit=AuditRules(path=log)))
    assert log.read_text() == "not a log\n"


def test_a_closed_broker_writes_nothing_more(workspace: Path, log: Path) -> None:
    broker = ExecutionBroker(policy_for(workspace, audit=AuditRules(path=log)))
    broker.close()
    size = os.path.getsize(log)
    with pytest.raises(BrokerGone):
        broker.probe()
    with pytest.raises(FableExecError):
        broker.unlock_writes("wrong")
    assert os.path.getsize(log) == size


@pytest.mark.requires_ability("confinement")
def test_a_wait_that_is_cancelled_is_an_outcome_too(workspace: Path, log: Path) -> None:
    async def use() -> None:
        async with AsyncExecutionBroker(policy_for(workspace, audit=AuditRules(path=log))) as broker:
            await broker.unlock_writes(TOKEN)
            handle = await broker.start_command(["sleep", "600"])
            waiting = asyncio.ensure_future(handle.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(use())
    last = lines_of(log)[-1]
    assert (last["kind"], last["action"], last["ok"], last["code"]) == ("outcome", "start_command", False, "CancelledError")
