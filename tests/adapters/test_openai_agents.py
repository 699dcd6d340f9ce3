"""The tools for OpenAI's Agents SDK in its own loop, with a model that reads from a script. Skipped where it is not installed.

What the tools do is tried by test_openai_agents_operations.py, which does not need it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Confinement
from fable_exec.adapters import AgentWorkspace
from fable_exec.testing.leaks import nothing_left
from tests.adapters.places import shell_policy, within
from tests.adapters.scripted_agents import as_events, patch_call, quiet, scripted, shell_tool_call, told
from tests.cli.typed import is_running
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = [pytest.mark.requires_ability("openai_agents"), pytest.mark.requires_ability("confinement")]


def agent_over(workspace: AgentWorkspace, *turns: Any, **options: Any) -> Any:
    from agents import Agent

    from fable_exec.adapters.openai_agents import patch_tool, shell_tool

    tools = [shell_tool(workspace, **options), patch_tool(workspace)]
    return Agent(name="scripted", model=scripted(*turns), tools=tools)


def answers(policy: BrokerPolicy, *turns: Any, unlocked: bool = False) -> list[dict[str, Any]]:
    """What the model was told of each call, in an agent's run that leaves nothing."""
    from agents import Runner

    async def body(workspace: AgentWorkspace) -> list[dict[str, Any]]:
        result = await Runner.run(agent_over(workspace, *turns), "go", run_config=quiet(), max_turns=len(turns) + 1)
        assert result.final_output == "done"
        return told(result)

    with nothing_left():
        return within(policy, body, unlocked=unlocked)


def outputs(answer: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Standard output, standard error, and exit code or "timeout", of each command of a call."""
    return [
        (each["stdout"], each["stderr"], each["outcome"].get("exit_code", each["outcome"]["type"])) for each in answer["output"]
    ]


def test_a_model_runs_commands_and_patches_files(workspace: Path) -> None:
    ran, made, changed, moved, deleted, read = answers(
        shell_policy(workspace),
        [shell_tool_call("echo grün; echo schön >&2", "exit 3", "kill -15 $$")],
        [patch_call("create_file", "deep/file", "+eins\n+zwei ✨")],
        [patch_call("update_file", "deep/file", "@@\n-eins\n+drei")],
        [patch_call("update_file", "deep/file", "@@\n-drei\n+vier", move_to="other")],
        [patch_call("delete_file", "gone")],
        [shell_tool_call("cat other; ls")],
        unlocked=True,
    )
    assert outputs(ran) == [("grün\n", "schön\n", 0), ("", "", 3), ("", "", 143)]
    assert [each["status"] for each in (made, changed, moved, deleted)] == ["completed"] * 3 + ["failed"]
    assert outputs(read) == [("vier\nzwei ✨deep\nother\n", "", 0)]


def test_what_is_denied_is_told_to_the_model_with_the_reason(workspace: Path) -> None:
    (denied,) = answers(shell_policy(workspace, confinement=Confinement.off()), [shell_tool_call("echo hi")])
    ((_, why, status),) = outputs(denied)
    assert status == 126 and "allow-list cannot see inside" in why
    outside, hidden = answers(
        shell_policy(workspace),
        [patch_call("create_file", "../x", "+x")],
        [patch_call("create_file", ".git/hooks/pre-commit", "+x")],
        unlocked=True,
    )
    assert outside["status"] == hidden["status"] == "failed"
    assert "denied" in outside["output"] and "'.git/hooks/pre-commit'" in hidden["output"]


def test_while_writes_are_locked_nothing_is_written(workspace: Path) -> None:
    (workspace / "file").write_text("eins\n")
    ran, made, changed = answers(
        shell_policy(workspace),
        [shell_tool_call("cat file; echo x >new")],
        [patch_call("create_file", "new", "+x")],
        [patch_call("update_file", "file", "@@\n-eins\n+zwei")],
    )
    ((out, err, status),) = outputs(ran)
    assert out == "eins\n" and "Read-only" in err and status
    assert [(each["status"], each["output"][:13]) for each in (made, changed)] == [("failed", "writes-locked")] * 2
    assert [path.read_text() for path in workspace.iterdir()] == ["eins\n"]


def test_a_timeout_is_an_outcome_with_the_output_so_far(workspace: Path) -> None:
    marker = unique_sleep()
    (ran,) = answers(
        shell_policy(workspace),
        [shell_tool_call(f"echo before; sleep {marker} & sleep {marker}", "touch after", timeout_ms=700)],
        unlocked=True,
    )
    assert outputs(ran) == [("before\n", "", "timeout")]
    assert not is_running(marker) and list(workspace.iterdir()) == []


def test_too_much_output_ends_the_command_and_what_is_cut_keeps_its_end(workspace: Path) -> None:
    limited, cut = answers(
        shell_policy(workspace, max_output_bytes=5000),
        [shell_tool_call("yes")],
        [shell_tool_call("seq 1 900; echo the end", "seq 1 900; echo oh no >&2; exit 1", max_output_length=400)],
    )
    ((out, _, status),) = outputs(limited)
    assert status == 137 and "y\ny\n" in out
    (first, _, _), (_, second, code) = outputs(cut)
    assert first.startswith("1\n2\n") and first.endswith("900\nthe end\n") and "characters left out" in first
    assert (second, code) == ("oh no\n", 1)
    assert sum(len(text) for each in outputs(cut) for text in each[:2]) <= 400


def test_a_big_file_is_patched_and_read(workspace: Path) -> None:
    large = "".join(f"Zeile {number} ü\n" for number in range(60_000))
    (workspace / "large").write_text(large)
    changed, read = answers(
        shell_policy(workspace, max_output_bytes=4 << 20),
        [patch_call("update_file", "large", "@@\n Zeile 40000 ü\n-Zeile 40001 ü\n+geändert")],
        [shell_tool_call("cat large")],
        unlocked=True,
    )
    assert changed["status"] == "completed"
    want = large.replace("Zeile 40001 ü\n", "geändert\n")
    assert outputs(read) == [(want, "", 0)] and (workspace / "large").read_text() == want


def test_runs_at_the_same_time_share_a_workspace(workspace: Path) -> None:
    from agents import Runner

    (workspace / "shared").write_text("")
    wait = "until [ $(wc -l <shared) = 3 ]; do sleep 0.02; done"

    async def one(agent_workspace: AgentWorkspace, number: int) -> list[Any]:
        agent = agent_over(
            agent_workspace,
            [shell_tool_call(f"echo {number} >>shared; {wait}; echo {number}")],
            [patch_call("create_file", "made", f"+{number}")],
        )
        ran, made = told(await Runner.run(agent, "go", run_config=quiet()))
        return [*outputs(ran), made["status"]]

    async def body(agent_workspace: AgentWorkspace) -> list[list[Any]]:
        return await asyncio.gather(*(one(agent_workspace, number) for number in range(3)))

    with nothing_left():
        ran = within(shell_policy(workspace), body, unlocked=True)
    assert [each[0] for each in ran] == [(f"{number}\n", "", 0) for number in range(3)]
    assert sorted(each[1] for each in ran) == ["completed", "failed", "failed"]


def test_a_cancelled_run_leaves_nothing_running(workspace: Path) -> None:
    from agents import Runner

    marker = unique_sleep()

    async def body(agent_workspace: AgentWorkspace) -> None:
        agent = agent_over(agent_workspace, [shell_tool_call(f"sleep {marker} & sleep {marker}", "touch after")])
        running = asyncio.ensure_future(Runner.run(agent, "go", run_config=quiet()))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_running(marker)

    with nothing_left():
        within(shell_policy(workspace), body, unlocked=True)
    assert list(workspace.iterdir()) == []


def test_a_streamed_run_that_is_cancelled_leaves_nothing_running(workspace: Path) -> None:
    from agents import Runner

    marker = unique_sleep()

    async def body(agent_workspace: AgentWorkspace) -> None:
        call = shell_tool_call(f"sleep {marker} & sleep {marker}", "touch after")
        result = Runner.run_streamed(agent_over(agent_workspace, as_events(call)), "go", run_config=quiet())
        reading = asyncio.ensure_future(to_its_end(result))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        result.cancel()
        await reading
        with pytest.raises(asyncio.CancelledError):
            await result.run_loop_task
        assert not is_running(marker)

    with nothing_left():
        within(shell_policy(workspace), body, unlocked=True)
    assert list(workspace.iterdir()) == []


async def to_its_end(result: Any) -> None:
    async for _ in result.stream_events():
        pass


def test_a_call_that_needs_approval_runs_once_it_is_approved(workspace: Path) -> None:
    from agents import Runner

    async def body(agent_workspace: AgentWorkspace) -> None:
        agent = agent_over(agent_workspace, [shell_tool_call("touch made; echo made")], needs_approval=True)
        asked = await Runner.run(agent, "go", run_config=quiet())
        assert len(asked.interruptions) == 1 and not (workspace / "made").exists()
        state = asked.to_state()
        state.approve(asked.interruptions[0])
        result = await Runner.run(agent, state, run_config=quiet())
        assert outputs(told(result)[0]) == [("made\n", "", 0)] and (workspace / "made").exists()

    within(shell_policy(workspace), body, unlocked=True)


def test_once_the_broker_is_closed_calls_fail_and_the_run_goes_on(workspace: Path) -> None:
    from agents import Runner

    from fable_exec import AsyncExecutionBroker

    async def act() -> list[dict[str, Any]]:
        async with AsyncExecutionBroker(shell_policy(workspace)) as broker:
            agent = agent_over(AgentWorkspace(broker), [shell_tool_call("echo hi"), patch_call("create_file", "x", "+x")])
        return told(await Runner.run(agent, "go", run_config=quiet()))

    ran, made = asyncio.run(act())
    ((_, why, status),) = outputs(ran)
    assert (status, made["status"]) == (125, "failed") and "closed" in why
