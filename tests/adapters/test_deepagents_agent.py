"""The deepagents backend in deepagents' own agent loop, driven by a scripted model: what the model is told, and what is left.

What leaves its session on purpose is tried in a PID namespace of its own, by the table of leaks (benchmarks/leaks).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import BlockingAgentWorkspace
from fable_exec.testing.processes import alive_with
from tests.adapters.places import shell_policy
from tests.adapters.scripted import ToolCall, scripted_model, told
from tests.cli.typed import PROJECT
from tests.doors import TOKEN
from tests.waiting import until

pytestmark = [pytest.mark.requires_ability("deepagents"), pytest.mark.requires_ability("confinement")]

GO = {"messages": [("user", "go")]}
Around = Callable[[Any], Any]


@contextmanager
def backend(policy: BrokerPolicy, *, unlocked: bool = True, view: Any = "host") -> Iterator[Any]:
    from fable_exec.adapters.deepagents import FableBackend

    broker = AsyncExecutionBroker(policy)
    with BlockingAgentWorkspace(broker, view=view) as workspace:
        if unlocked:
            workspace.call(lambda _: broker.unlock_writes(TOKEN))
        yield FableBackend(workspace)


def agent(backend: Any, *turns: ToolCall | list[ToolCall]) -> Any:
    from deepagents import create_deep_agent

    return create_deep_agent(scripted_model(turns), backend=backend)


def answers(backend: Any, *turns: ToolCall | list[ToolCall]) -> list[Any]:
    """What the model is told of its calls."""
    return told(agent(backend, *turns).invoke(GO))


async def async_answers(backend: Any, *turns: ToolCall | list[ToolCall]) -> list[Any]:
    return told(await agent(backend, *turns).ainvoke(GO))


WAYS = {"invoke": answers, "ainvoke": lambda *given: asyncio.run(async_answers(*given))}
BOTH_WAYS = pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)


def marker() -> str:
    return f"7{time.time_ns() % 10**9}"


def asleep(seconds: str) -> bool:
    return bool(alive_with(f"sleep\0{seconds}\0"))


@BOTH_WAYS
@pytest.mark.parametrize("view", ["host", "root"])
def test_what_one_tool_writes_the_others_find(view: str, ask: Any, workspace: Path) -> None:
    with backend(shell_policy(workspace), view=view) as ours:
        root = str(workspace) if view == "host" else ""
        file = f"{root}/süd/größe.py"
        heard = ask(
            ours,
            ("write_file", {"file_path": file, "content": "größe = 1  # 世界\nrest = 2\n"}),
            ("edit_file", {"file_path": file, "old_string": "= 1", "new_string": "= 7"}),
            ("read_file", {"file_path": file}),
            ("execute", {"command": "cat süd/*.py; echo schön >&2; exit 3"}),
            ("grep", {"pattern": "größe = 7", "output_mode": "content"}),
            ("grep", {"pattern": "= 2", "glob": "*.{py,txt}"}),
            ("glob", {"pattern": "*.py"}),
            ("ls", {"path": root or "/"}),
            ("delete", {"file_path": f"{root}/süd"}),
            ("ls", {"path": root or "/"}),
        )
    assert [each.content for each in heard] == [
        f"Updated file {file}",
        f"Successfully replaced 1 instance(s) of the string in '{file}'",
        "@@ lines 1-2 of 2 @@\ngröße = 7  # 世界\nrest = 2",
        "größe = 7  # 世界\nrest = 2\nschön\n\n[Command failed with exit code 3]",
        f"{file}:\n  1: größe = 7  # 世界",
        file,
        f"['{file}']",
        f"['{root}/süd']",
        f"Deleted {root}/süd",
        "No files found",
    ]
    assert {each.status for each in heard} == {"success"}
    assert heard[3].artifact == {"truncated": False, "exit_code": 3}
    assert list(workspace.iterdir()) == []


@BOTH_WAYS
def test_what_is_refused_is_told_and_does_not_happen(ask: Any, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with backend(shell_policy(workspace, allowed_executables=("sh", "cat"))) as ours:
        *files, outside = ask(
            ours,
            ("read_file", {"file_path": f"{tmp_path}/secret"}),
            ("write_file", {"file_path": f"{tmp_path}/new", "content": "x"}),
            ("edit_file", {"file_path": f"{tmp_path}/secret", "old_string": "secret", "new_string": "x"}),
            ("delete", {"file_path": f"{tmp_path}/secret"}),
            ("ls", {"path": "/"}),
            ("glob", {"pattern": "*", "path": str(tmp_path)}),
            ("grep", {"pattern": "secret", "path": str(tmp_path)}),
            ("write_file", {"file_path": f"{workspace}/.git/hooks/pre-commit", "content": "x"}),
            ("execute", {"command": f"cat {tmp_path}/secret; echo x >{tmp_path}/new"}),
        )
    assert [each.status for each in files] == ["error"] * 8
    assert all("permission_denied: " in each.content for each in files)
    assert "No such file" in outside.content and outside.artifact["exit_code"] != 0
    assert list(workspace.iterdir()) == []
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["secret"]
    assert (tmp_path / "secret").read_text() == "secret"


def test_no_command_runs_without_a_shell_on_the_list(workspace: Path) -> None:
    with backend(shell_policy(workspace, allowed_executables=("cat",))) as ours:
        (heard,) = answers(ours, ("execute", {"command": "echo hi"}))
    assert heard.artifact == {"truncated": False, "exit_code": 126}
    assert "shell text needs sh or bash on the allow-list" in heard.content


@BOTH_WAYS
def test_while_writes_are_locked_reading_goes_on_and_nothing_changes(ask: Any, workspace: Path) -> None:
    (workspace / "file").write_text("old")
    with backend(shell_policy(workspace), unlocked=False) as ours:
        written, edited, deleted, command, read = ask(
            ours,
            ("write_file", {"file_path": f"{workspace}/new", "content": "x"}),
            ("edit_file", {"file_path": f"{workspace}/file", "old_string": "old", "new_string": "new"}),
            ("delete", {"file_path": f"{workspace}/file"}),
            ("execute", {"command": "echo new >file; cat file"}),
            ("read_file", {"file_path": f"{workspace}/file"}),
        )
    for each in (written, edited, deleted):
        assert (each.status, each.content) == ("error", "permission_denied: workspace writes are locked")
    assert "Read-only file system" in command.content and "old" in command.content
    assert read.content == "@@ lines 1-1 of 1 @@\nold"
    assert [each.name for each in workspace.iterdir()] == ["file"] and (workspace / "file").read_text() == "old"


@BOTH_WAYS
def test_a_command_that_runs_out_of_time_is_dead_and_its_output_told(ask: Any, workspace: Path) -> None:
    first, second = marker(), marker()
    with backend(shell_policy(workspace)) as ours:
        late, after = ask(
            ours,
            ("execute", {"command": f"echo before; sleep {first} & sleep {second}", "timeout": 1}),
            ("execute", {"command": "echo after"}),
        )
        assert not asleep(first) and not asleep(second)
    assert late.content == "before\n[ended: timed_out]\n\n[Command failed with exit code 124]"
    assert late.artifact == {"truncated": False, "exit_code": 124}
    assert after.content == "after\n\n[Command succeeded with exit code 0]"


@BOTH_WAYS
def test_a_command_that_says_too_much_is_ended_and_that_is_told(ask: Any, workspace: Path) -> None:
    with backend(shell_policy(workspace, max_output_bytes=2000)) as ours:
        much, after = ask(ours, ("execute", {"command": "echo first; yes"}), ("execute", {"command": "echo after"}))
    assert much.content.startswith("first\ny\n") and len(much.content) < 3000
    assert much.content.endswith("[Output was truncated due to size limits]")
    assert much.artifact == {"truncated": True, "exit_code": 137}
    assert after.artifact["exit_code"] == 0


def test_a_cancelled_run_leaves_nothing_and_the_backend_goes_on(workspace: Path) -> None:
    first, second = marker(), marker()

    async def act(ours: Any) -> None:
        command = f"sleep {first} & trap '' TERM INT HUP; sleep {second}"
        running = asyncio.ensure_future(agent(ours, ("execute", {"command": command})).ainvoke(GO))
        assert await asyncio.to_thread(until, lambda: asleep(first) and asleep(second))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not asleep(first) and not asleep(second)
        (after,) = await async_answers(ours, ("execute", {"command": "echo after"}))
        assert after.content.startswith("after\n")

    with backend(shell_policy(workspace)) as ours:
        asyncio.run(act(ours))


def test_closing_the_workspace_ends_the_command_that_a_run_waits_for(workspace: Path) -> None:
    seconds = marker()
    with ThreadPoolExecutor(1) as threads, backend(shell_policy(workspace)) as ours:
        running = threads.submit(answers, ours, ("execute", {"command": f"sleep {seconds} & sleep {seconds}"}))
        assert until(lambda: asleep(seconds))
        ours._operations.workspace.close()
        (told_of_it,) = running.result(timeout=10)
        assert not asleep(seconds)
    assert "closed" in told_of_it.content and told_of_it.artifact["exit_code"] == 125


@BOTH_WAYS
def test_calls_of_one_turn_run_at_the_same_time(ask: Any, workspace: Path) -> None:
    """Each waits for all the others."""
    number = 4
    meet = f"while set -- there*; [ $# -lt {number} ]; do sleep 0.02; done"
    with backend(shell_policy(workspace)) as ours:
        turn = [("execute", {"command": f"echo >there{each}; {meet}; echo {each}", "timeout": 60}) for each in range(number)]
        heard = ask(ours, turn)
    assert [each.content.splitlines()[0] for each in heard] == [str(each) for each in range(number)]
    assert {each.artifact["exit_code"] for each in heard} == {0}


def test_more_commands_are_awaited_at_once_than_a_loop_has_threads(workspace: Path) -> None:
    number = 12  # on two processors a loop has six
    meet = f"while set -- there*; [ $# -lt {number} ]; do sleep 0.02; done"

    async def act(ours: Any) -> list[Any]:
        commands = (f"echo >there{each}; {meet}; echo {each}" for each in range(number))
        return await asyncio.gather(*(ours.aexecute(command, timeout=60) for command in commands))

    with backend(shell_policy(workspace)) as ours:
        heard = asyncio.run(act(ours))
    assert [each.output for each in heard] == [f"{each}\n" for each in range(number)]


@BOTH_WAYS
def test_files_of_one_turn_are_written_whole_and_one_file_by_one_call(ask: Any, workspace: Path) -> None:
    text = "ä" * 50_000
    with backend(shell_policy(workspace)) as ours:
        several = [("write_file", {"file_path": f"{workspace}/{each}", "content": text + str(each)}) for each in range(6)]
        same = [("write_file", {"file_path": f"{workspace}/same", "content": str(each)}) for each in range(3)]
        heard = ask(ours, several, same)
    assert [each.status for each in heard] == ["success"] * 7 + ["error"] * 2  # that is deepagents' own rule
    assert [(workspace / str(each)).read_text() for each in range(6)] == [text + str(each) for each in range(6)]
    assert (workspace / "same").read_text() == "0"


@BOTH_WAYS
def test_a_big_file_is_read_page_by_page_as_far_as_one_read_gives_it(ask: Any, workspace: Path) -> None:
    lines = [f"{number:06} {'z' * 60}" for number in range(60_000)]  # 4 MB, and one read gives 1 MB
    (workspace / "big").write_text("\n".join(lines) + "\n")
    with backend(shell_policy(workspace)) as ours:
        first, middle, beyond, command, found, edited = ask(
            ours,
            ("read_file", {"file_path": f"{workspace}/big"}),
            ("read_file", {"file_path": f"{workspace}/big", "offset": 14_000, "limit": 2}),
            ("read_file", {"file_path": f"{workspace}/big", "offset": 50_000}),
            ("execute", {"command": "python3 -c 'print(open(\"big\").readlines()[50_000])'"}),
            ("grep", {"pattern": "059999 ", "output_mode": "content"}),
            ("edit_file", {"file_path": f"{workspace}/big", "old_string": "000000 ", "new_string": "x"}),
        )
    assert first.content == "\n".join(["@@ lines 1-100 | next offset 100 @@", *lines[:100]])
    assert middle.content == "\n".join(["@@ lines 14001-14002 | next offset 14002 @@", *lines[14_000:14_002]])
    assert beyond.status == "error" and "beyond what one read gives" in beyond.content and "use a command" in beyond.content
    assert command.content.startswith(lines[50_000])
    assert found.content == f"{workspace}/big:\n  60000: {lines[59_999]}"
    assert edited.status == "error" and "4080000 bytes" in edited.content
    assert (workspace / "big").stat().st_size == 4_080_000


@BOTH_WAYS
def test_what_is_no_text_is_handed_on_as_a_medium(ask: Any, workspace: Path) -> None:
    (workspace / "picture.png").write_bytes(bytes(range(256)))
    (workspace / "text.pdf").write_text("only text")
    (workspace / "large.bin").write_bytes(b"\xff" * 600_000)
    with backend(shell_policy(workspace)) as ours:
        names = ("picture.png", "text.pdf", "large.bin")
        heard = ask(ours, *(("read_file", {"file_path": f"{workspace}/{name}"}) for name in names))
    assert [each.content_blocks[0]["type"] for each in heard] == ["image", "file", "text"]
    assert heard[1].content_blocks[0]["base64"] == "b25seSB0ZXh0"
    assert "exceeds maximum preview size" in heard[2].content


def test_a_file_with_the_ends_of_lines_of_windows_is_shown_and_edited_and_keeps_them(workspace: Path) -> None:
    (workspace / "crlf").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    with backend(shell_policy(workspace)) as ours:
        read, edited = answers(
            ours,
            ("read_file", {"file_path": f"{workspace}/crlf"}),
            ("edit_file", {"file_path": f"{workspace}/crlf", "old_string": "one\ntwo\n", "new_string": "1\n2\n"}),
        )
    assert read.content == "@@ lines 1-3 of 3 @@\none\ntwo\nthree"
    assert edited.status == "success"
    assert (workspace / "crlf").read_bytes() == b"1\r\n2\r\nthree\r\n"


def with_artifacts_in_the_state(ours: Any) -> Any:
    """As docs/reference/adapters.md has it."""
    from deepagents.backends import CompositeBackend, StateBackend

    state = StateBackend()
    return CompositeBackend(default=ours, routes={"/large_tool_results/": state, "/conversation_history/": state})


@BOTH_WAYS
@pytest.mark.parametrize("unlocked", [True, False])
def test_what_is_too_long_for_the_model_can_be_kept_out_of_the_workspace(unlocked: bool, ask: Any, workspace: Path) -> None:
    with backend(shell_policy(workspace), unlocked=unlocked) as ours:
        long, page, command = ask(
            with_artifacts_in_the_state(ours),
            ("execute", {"command": "for i in $(seq 20000); do echo line $i; done"}),
            ("read_file", {"file_path": "/large_tool_results/0-0", "offset": 15_000, "limit": 1}),
            ("execute", {"command": "pwd"}),
        )
    assert len(long.content) < 10_000 and "/large_tool_results/0-0" in long.content
    assert page.content.endswith("line 15001")
    assert command.content.startswith(f"{workspace}\n")
    assert list(workspace.iterdir()) == []


def test_what_is_too_long_for_the_model_lies_in_a_workspace_that_is_called_the_root(workspace: Path) -> None:
    with backend(shell_policy(workspace), view="root") as ours:
        long, found = answers(
            ours,
            ("execute", {"command": "for i in $(seq 20000); do echo line $i; done"}),
            ("grep", {"pattern": "line 15001", "path": "/large_tool_results", "output_mode": "content"}),
        )
    assert len(long.content) < 10_000
    assert found.content == "/large_tool_results/0-0:\n  15001: line 15001"
    assert (workspace / "large_tool_results/0-0").exists()


def test_an_agent_that_an_agent_starts_is_under_the_same_policy(workspace: Path) -> None:
    task = {"description": "look around", "subagent_type": "general-purpose"}
    with backend(shell_policy(workspace), unlocked=False) as ours:
        from deepagents import create_deep_agent
        from langchain_core.messages import AIMessage

        model = scripted_model([("task", task), ("execute", {"command": "echo x >new || exit 9"})])
        model.messages = iter([*model.messages, AIMessage(content="done, too")])
        answer = create_deep_agent(model, backend=ours).invoke(GO)
    assert [each.name for each in told(answer)] == ["task"]
    assert list(workspace.iterdir()) == []


def test_once_the_workspace_is_closed_every_tool_says_so(workspace: Path) -> None:
    with backend(shell_policy(workspace)) as ours:
        pass
    for ask in WAYS.values():
        heard = ask(
            ours,
            ("execute", {"command": "echo hi"}),
            ("read_file", {"file_path": f"{workspace}/x"}),
            ("write_file", {"file_path": f"{workspace}/x", "content": "x"}),
            ("glob", {"pattern": "*"}),
        )
        assert ["the workspace is closed" in each.content for each in heard] == [True] * 4
        assert heard[0].artifact == {"truncated": False, "exit_code": 125}


def test_what_no_command_and_no_file_can_hold_is_told(workspace: Path) -> None:
    with backend(shell_policy(workspace)) as ours:
        heard = answers(
            ours,
            ("execute", {"command": "echo \0"}),
            ("write_file", {"file_path": f"{workspace}/a\0b", "content": "x"}),
            ("glob", {"pattern": "../*"}),
            ("glob", {"pattern": "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"}),
            ("grep", {"pattern": "one\ntwo"}),
        )
    assert heard[0].artifact["exit_code"] == 2 and "NUL" in heard[0].content
    assert [each.status for each in heard[1:]] == ["error"] * 4
    assert "stands for more than 100" in heard[3].content
    assert list(workspace.iterdir()) == []


def test_the_example_runs_and_every_protection_holds() -> None:
    program = [sys.executable, "examples/deepagents_agent.py"]
    done = subprocess.run(program, cwd=PROJECT, env=os.environ | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every protection held" in done.stdout


def test_the_framework_is_loaded_by_its_own_adapter_alone() -> None:
    program = (
        "import sys, fable_exec, fable_exec.adapters, fable_exec.adapters.deepagents_operations\n"
        "print([name for name in sys.modules if name.startswith(('deepagents', 'lang'))])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
