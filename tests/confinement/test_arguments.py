"""Argument rules at the door: off, advisory, enforced, added to and narrowed; and the lock that stands on them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import (
    ArgumentDenied,
    ArgumentPolicy,
    AuditRules,
    Confinement,
    ExecutionBroker,
    PolicyError,
    Protections,
    WritesLocked,
)
from fable_exec.broker.confined import ConfinedCommands
from tests.confinement.places import available, confined, run
from tests.doors import TOKEN, opened, policy_for

PROGRAMS = available(
    "bash", "cat", "cp", "echo", "env", "find", "git", "grep", "ls", "python3", "rm", "sh", "sort", "touch", "true"
)


def policy(workspace: Path, **more: Any) -> Any:
    more.setdefault("allowed_executables", PROGRAMS)
    return policy_for(workspace, **more)


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("door", ["in_process", "asyncio", "spawned", "asyncio_spawned"])
def test_an_enforced_rule_refuses_with_its_reason_at_every_door(door: str, workspace: Path) -> None:
    rules = ArgumentPolicy(mode="enforce")
    with opened(door, policy(workspace, argument_rules=rules), unlocked=True) as broker:
        assert broker.execute_command(["ls", "-l"]).success
        with pytest.raises(ArgumentDenied) as caught:
            broker.execute_command(["sort", "-o", "x", "y"])
    assert "sort" in str(caught.value) and "-o" in str(caught.value)
    assert isinstance(caught.value, PermissionError)
    assert not (workspace / "x").exists()


@pytest.mark.requires_ability("confinement")
def test_off_asks_nobody_and_loads_nothing(workspace: Path) -> None:
    program = (
        "import sys; from fable_exec import *\n"
        f"policy = BrokerPolicy(workspace={str(workspace)!r}, allowed_executables=('true',))\n"
        "with ExecutionBroker(policy) as broker: broker.execute_command(['true'])\n"
        "print([name for name in sys.modules if name.startswith('fable_exec.argrules')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.requires_ability("confinement")
def test_advice_is_written_down_and_refuses_nothing(workspace: Path, tmp_path: Path) -> None:
    (workspace / "y").touch()
    log = tmp_path / "audit.jsonl"
    advised = policy(workspace, argument_rules=ArgumentPolicy(mode="advisory"), audit=AuditRules(path=log))
    with ExecutionBroker(advised) as broker:
        broker.unlock_writes(TOKEN)
        assert broker.execute_command(["sort", "-o", "x", "y"]).success
        explained = broker.explain(["sort", "-o", "x", "y"])
    assert (explained.allowed, explained.argument_rule) == (True, "sort:--output")
    assert "writes a file" in explained.argument_reason
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    decided = next(line["facts"] for line in lines if line["kind"] == "decision")
    assert (decided["argument_rule"], decided["arguments_allowed"]) == ("sort:--output", False)


@pytest.mark.requires_ability("confinement")
def test_tools_narrow_and_documents_add(workspace: Path, tmp_path: Path) -> None:
    more = '[[tool]]\nnames = ["ls"]\noptions = ["-l"]\noperands = ["path*"]\nmatch = ["ls -l"]\nno_match = ["ls -a"]\n'
    file = tmp_path / "rules.toml"
    file.write_text('[[refused]]\nnames = ["cat"]\nreason = "read with a request"\n')
    rules = ArgumentPolicy(mode="enforce", tools=("ls", "cat"), documents=(more, str(file)))
    with ExecutionBroker(policy(workspace, argument_rules=rules)) as broker:
        run(broker, "ls", "-l")
        for argv in (["ls", "-a"], ["cat", "x"], ["echo", "x"]):
            with pytest.raises(ArgumentDenied):
                broker.execute_command(argv)


@pytest.mark.requires_ability("confinement")
def test_unknown_tools_are_refused_or_allowed_as_the_policy_says(workspace: Path, tmp_path: Path) -> None:
    tool = tmp_path / "own-tool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    for word, allowed in (("deny", False), ("allow", True)):
        rules = ArgumentPolicy(mode="enforce", unknown_tools=word)  # type: ignore[arg-type]  # one of the two words
        with ExecutionBroker(policy(workspace, argument_rules=rules, allowed_executables=(str(tool),))) as broker:
            broker.unlock_writes(TOKEN)
            assert broker.explain(["own-tool", "--anything"]).allowed is allowed


@pytest.mark.requires_ability("confinement")
def test_a_file_of_rules_is_read_to_its_end(workspace: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    comment = "#" + "é" * 524_288  # the rule behind it begins after 1 MiB
    file.write_text(f'{comment}\n[[refused]]\nnames = ["cat"]\nreason = "read with a request"\n', encoding="utf-8")
    with ExecutionBroker(policy(workspace, argument_rules=ArgumentPolicy(mode="enforce", documents=(str(file),)))) as broker:
        with pytest.raises(ArgumentDenied):
            broker.execute_command(["cat", "x"])


@pytest.mark.parametrize("document", ["[[tool]]\nnames = 3\n", "not = toml =", "/no/such/rules.toml"])
def test_faulty_documents_are_told_when_the_broker_starts(document: str, workspace: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        ExecutionBroker(policy(workspace, argument_rules=ArgumentPolicy(documents=(document,))))
    assert caught.value.faults[0][0].startswith("argument_rules.documents[0]")


# The lock

READERS = [["ls", "-l"], ["cat", "kept"], ["grep", "-r", "k", "."], ["sort", "kept"], ["find", ".", "-name", "x"], ["git", "log"]]
OTHERS = [
    ["touch", "new"],
    ["cp", "kept", "copy"],
    ["rm", "kept"],
    ["sort", "-o", "kept", "kept"],
    ["find", ".", "-exec", "cat", "{}", ";"],
    ["find", ".", "-delete"],
    ["env", "cat", "kept"],
    ["git", "commit", "-m", "x"],
    ["git", "-c", "alias.x=!sh", "x"],
    ["python3", "-c", "1"],
    ["bash", "-c", "true"],
]


def expect_readers_only(broker: ExecutionBroker, workspace: Path) -> None:
    for argv in READERS:
        assert broker.explain(argv).allowed, argv
    run(broker, "cat", "kept")
    for argv in OTHERS:
        with pytest.raises(WritesLocked):
            broker.execute_command(argv)
    assert [path.name for path in workspace.iterdir()] == ["kept"]


@pytest.mark.parametrize("confinement", [Confinement.off(), Confinement.strict()], ids=["off", "strict"])
@pytest.mark.requires_ability("userns", "landlock")
def test_deny_lets_readers_run_and_nothing_else(confinement: Confinement, workspace: Path) -> None:
    (workspace / "kept").write_text("kept\n")
    denying = policy(workspace, locked_commands="deny", confinement=confinement)
    with ExecutionBroker(denying) as broker:
        expect_readers_only(broker, workspace)
        broker.unlock_writes(TOKEN)
        run(broker, "touch", "new")


@pytest.mark.requires_ability("landlock")
def test_a_lock_that_the_kernel_does_not_hold_stands_on_the_rules(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "kept").write_text("kept\n")
    modes = attrs.evolve(Protections(), workspace_writes="degradable")
    monkeypatch.setattr(ConfinedCommands, "holds_read_only", lambda self: False)
    with confined(workspace, allowed_executables=PROGRAMS, confinement=Confinement(protections=modes)) as broker:
        expect_readers_only(broker, workspace)


def test_without_confinement_the_lock_stands_on_the_rules_too(workspace: Path) -> None:
    (workspace / "kept").write_text("kept\n")
    with ExecutionBroker(policy(workspace, confinement=Confinement.off())) as broker:
        expect_readers_only(broker, workspace)
