"""Agents of pydantic-ai over our workspace, driven by its own loop and a scripted model. Skipped where it is not installed.

What leaves its session on purpose is tried in a PID namespace of its own, by the table of leaks (benchmarks/leaks).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy
from fable_exec.adapters import AgentWorkspace
from tests.adapters.places import DOORS_BELOW_THE_FACADE, shell_policy, within
from tests.cli.typed import PROJECT, is_running
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = [pytest.mark.requires_ability("pydantic_ai"), pytest.mark.requires_ability("confinement")]


def told(policy: BrokerPolicy, *turns: Any, tool_timeout: float | None = None, **more: Any) -> list[Any]:
    """What the model is told of each call, in an agent's run over a broker under `policy`."""
    from tests.adapters import pydantic_ai_agents

    return within(policy, lambda ws: pydantic_ai_agents.told(ws, *turns, tool_timeout=tool_timeout), **more)


@pytest.mark.parametrize("door", DOORS_BELOW_THE_FACADE)
def test_commands_and_files_are_of_one_workspace_in_any_script(door: str, workspace: Path) -> None:
    text = "grün, 日本, \U0001f40d\n"
    turns = (
        [("write", {"path": "ünï/datei.txt", "text": text})],
        [("command", {"words": ["cat", "ünï/datei.txt"]}), ("shell", {"text": "printf 'größer >&2' >&2; exit 7"})],
        [("shell", {"text": "echo \"$(cat ünï/*)!\" >'from a command'"}), ("command", {"words": ["no-such-program"]})],
        [("read", {"path": "from a command"}), ("read", {"path": f"{workspace}/ünï/../ünï/datei.txt"})],
    )
    written, cat, shell, _, missing, *read = told(shell_policy(workspace), *turns, door=door, unlocked=True)
    assert written == "written"
    assert cat == {"exit_code": 0, "stdout": text, "stderr": ""}
    assert shell == {"exit_code": 7, "stdout": "", "stderr": "größer >&2"}
    assert missing["exit_code"] == 127
    assert read == [f"{text.rstrip()}!\n", text]
    assert (workspace / "ünï/datei.txt").read_text() == text


def test_what_the_policy_refuses_is_told_to_the_model_and_not_done(workspace: Path, tmp_path: Path) -> None:
    (workspace / "file").write_text("as it was")
    (tmp_path / "secret").write_text("s")
    turns = (
        [("command", {"words": ["rm", "-r", str(workspace)]})],
        [("read", {"path": f"{tmp_path}/secret"})],
        [("write", {"path": "../beside", "text": "x"})],
        [("shell", {"text": f"echo x >../beside; cat {tmp_path}/secret"})],
    )
    denied, read, write, shell = told(shell_policy(workspace), *turns, unlocked=True)
    assert (denied["exit_code"], "allow-list" in denied["stderr"]) == (126, True)
    assert read.startswith("PathDenied") and "outside" in read
    assert write.startswith("PathDenied")
    assert (shell["exit_code"] != 0, shell["stdout"]) == (True, "")
    assert (workspace / "file").read_text() == "as it was"
    assert not (workspace.parent / "beside").exists()


def test_while_writes_are_locked_nothing_is_changed_and_the_model_is_told(workspace: Path) -> None:
    turns = ([("write", {"path": "new", "text": "x"})], [("shell", {"text": "echo still; echo x >new"})])
    write, shell = told(shell_policy(workspace), *turns)
    assert write.startswith("WorkspaceReadOnlyError: ") and "locked" in write
    assert (shell["exit_code"] != 0, shell["stdout"]) == (True, "still\n")
    assert not (workspace / "new").exists()


def test_a_timeout_and_too_much_output_are_told_with_what_came_before(workspace: Path) -> None:
    marker = unique_sleep()
    turns = (
        [("shell", {"text": f"echo before; sleep {marker} & sleep {marker}", "timeout": 1.5})],
        [("shell", {"text": "yes wörter | head -c 100000"})],
        [("shell", {"text": "echo after"})],
    )
    late, much, after = told(shell_policy(workspace, max_output_bytes=1000, on_output_limit="truncate"), *turns)
    assert late == {"ended": "WorkspaceTimeoutError", "stdout": "before\n"}
    assert not is_running(marker)
    assert (much["ended"], much["stdout"].startswith("wörter\n")) == ("WorkspaceOutputLimitError", True)
    assert after["stdout"] == "after\n"


def test_a_tool_that_pydantic_ai_gives_up_leaves_no_command(workspace: Path) -> None:
    from tests.adapters.pydantic_ai_agents import agent_over, told_in

    marker = unique_sleep()
    alive_when_told: list[bool] = []

    async def body(agent_workspace: AgentWorkspace) -> list[Any]:
        turns = [("shell", {"text": f"sleep {marker} & sleep {marker}"})], [("shell", {"text": "echo after"})]
        agent = agent_over(agent_workspace, *turns, tool_timeout=2)
        async with agent.iter("go") as run:
            async for node in run:
                if agent.is_model_request_node(node) and told_in([node.request]):
                    alive_when_told.append(is_running(marker))
        return told_in(run.result.new_messages())

    late, after = within(shell_policy(workspace), body)
    assert "Timed out" in late and after["stdout"] == "after\n"
    assert alive_when_told == [False, False]


def test_a_cancelled_run_ends_its_commands_before_the_cancellation_goes_on(workspace: Path) -> None:
    from tests.adapters.pydantic_ai_agents import agent_over

    markers = unique_sleep(), unique_sleep()

    async def body(agent_workspace: AgentWorkspace) -> None:
        turn = [("shell", {"text": f"trap '' TERM INT HUP; sleep {marker} & sleep {marker}"}) for marker in markers]
        running = asyncio.ensure_future(agent_over(agent_workspace, turn).run("go"))
        for marker in markers:
            assert await asyncio.to_thread(until, lambda marker=marker: is_running(marker))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not any(map(is_running, markers))
        assert (await agent_workspace.probe()).policy_digest  # the broker goes on

    within(shell_policy(workspace), body)


def test_calls_of_one_turn_run_at_the_same_time(workspace: Path) -> None:
    names = [f"call{number}" for number in range(4)]
    meet = f"""
        : >"$0"
        for each in {" ".join(names)}; do while [ ! -e "$each" ]; do sleep 0.05; done; done
        echo "$0 met them all"
    """
    turn = [("command", {"words": ["sh", "-c", meet, name]}) for name in names]
    found = told(shell_policy(workspace), turn, unlocked=True)
    assert [each["stdout"] for each in found] == [f"{name} met them all\n" for name in names]


def test_a_big_file_is_the_same_for_commands_and_tools(workspace: Path) -> None:
    turns = (
        [("shell", {"text": "head -c 8000001 /dev/urandom >big; cksum <big"})],
        [("copy_of", {"path": "big", "to": "copy"})],
        [("shell", {"text": "cksum <copy"})],
    )
    made, size, copied = told(shell_policy(workspace, max_output_bytes=1 << 23), *turns, unlocked=True)
    assert (made["exit_code"], size, copied["stdout"]) == (0, 8_000_001, made["stdout"])


def test_a_directory_of_a_command_is_judged_with_the_command_itself(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    turns = [("command", {"words": ["pwd"], "cwd": "sub"})], [("command", {"words": ["ls"], "cwd": "sub"})]
    pwd, ls = told(shell_policy(workspace, allowed_executables=("pwd",)), *turns)
    assert pwd["stdout"] == f"{workspace}/sub\n"
    assert (ls["exit_code"], "allow-list" in ls["stderr"], "/bin/sh" in ls["stderr"]) == (126, True, False)


def test_a_conversation_goes_on_in_its_own_directory_and_in_no_other(workspace: Path, tmp_path: Path) -> None:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.workspaces import WorkspaceRef

    from tests.adapters.pydantic_ai_agents import agent_over, told_in

    async def body(agent_workspace: AgentWorkspace) -> None:
        first = await agent_over(agent_workspace, [("write", {"path": "note", "text": "kept"})]).run("go")
        assert first.workspace.ref == WorkspaceRef(provider="fable_exec", id=str(workspace))
        again = agent_over(agent_workspace, [], [], [("read", {"path": "note"})])
        second = await again.run("go on", message_history=first.all_messages())
        assert told_in(second.new_messages()) == ["kept"]
        assert await second.workspace.read_text("note") == "kept"
        history.extend(second.all_messages())

    async def elsewhere(agent_workspace: AgentWorkspace) -> None:
        with pytest.raises(UserError, match="continues in workspace"):
            await agent_over(agent_workspace).run("go on", message_history=history)

    history: list[Any] = []
    within(shell_policy(workspace), body, unlocked=True)
    within(shell_policy(tmp_path.resolve()), elsewhere)


def test_a_run_may_be_given_the_workspace_without_a_capability(workspace: Path) -> None:
    from fable_exec.adapters.pydantic_ai import FableWorkspace
    from tests.adapters.pydantic_ai_agents import agent_over, told_in

    async def body(agent_workspace: AgentWorkspace) -> Any:
        agent = agent_over(None, [("command", {"words": ["echo", "given"]})])
        return await agent.run("go", workspace=FableWorkspace(agent_workspace))

    assert told_in(within(shell_policy(workspace), body).new_messages())[0]["stdout"] == "given\n"


def test_the_example_runs_and_every_protection_holds() -> None:
    program = [sys.executable, "examples/pydantic_ai_agent.py"]
    done = subprocess.run(program, cwd=PROJECT, env=os.environ | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every protection held" in done.stdout


def test_the_framework_is_loaded_by_its_own_adapter_alone() -> None:
    program = "import sys, fable_exec, fable_exec.adapters; print([n for n in sys.modules if n.startswith('pydantic')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
