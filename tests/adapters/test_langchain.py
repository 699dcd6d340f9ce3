"""LangChain's shell tool over our sessions, driven by its own agent loop and a scripted model.

What leaves its session on purpose is tried in a PID namespace of its own, by the table of leaks (benchmarks/leaks).
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker, BrokerPolicy, Confinement, Denied, ExecutableDenied, InvalidRequest
from fable_exec.adapters import BlockingAgentWorkspace
from fable_exec.testing.processes import alive_with
from tests.adapters.places import shell_policy
from tests.adapters.scripted import scripted_model
from tests.adapters.scripted import told as told_by
from tests.cli.typed import PROJECT
from tests.doors import TOKEN, environment_with

pytestmark = [
    pytest.mark.requires_ability("langchain"),
    pytest.mark.requires_ability("confinement"),
    # LangChain drops the pipes of a session that it stops, and leaves it to the garbage collection to close them.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]


@contextmanager
def shell(policy: BrokerPolicy, *, root: Path | None = None, env: dict[str, str] | None = None, **terms: Any) -> Iterator[Any]:
    """LangChain's middleware over sessions under `policy`."""
    from langchain.agents.middleware import ShellToolMiddleware

    from fable_exec.adapters.langchain import FableExecutionPolicy

    with BlockingAgentWorkspace(AsyncExecutionBroker(policy)) as agent_workspace:
        ours = FableExecutionPolicy(agent_workspace=agent_workspace, **terms)
        yield ShellToolMiddleware(workspace_root=root or policy.workspace, execution_policy=ours, env=env)


def agent_with(middleware: Any, commands: Sequence[str]) -> Any:
    """An agent whose model calls the shell with one command after the other, and then is done."""
    from langchain.agents import create_agent

    return create_agent(scripted_model([("shell", {"command": command}) for command in commands]), middleware=[middleware])


def told(middleware: Any, *commands: str) -> list[Any]:
    """What the model is told of each command."""
    return told_by(agent_with(middleware, commands).invoke({"messages": [("user", "go")]}))


def asleep(seconds: str) -> bool:
    """Whether a `sleep` of that many seconds runs anywhere on this machine."""
    return bool(alive_with(f"sleep\0{seconds}\0"))


def test_commands_share_a_session_which_is_confined_and_starts_locked(workspace: Path) -> None:
    with shell(shell_policy(workspace)) as middleware:
        first, second, third = told(middleware, "X=grün; cd /", "echo $X $PWD; echo schön >&2", f"touch {workspace}/new")
    assert first.content == "<no output>"
    assert sorted(second.content.splitlines()) == ["[stderr] schön", "grün /"]
    assert "Read-only file system" in third.content
    assert third.artifact["exit_code"] == 1
    assert not (workspace / "new").exists()


def test_the_administrators_token_unlocks_the_sessions_that_it_is_given_for(workspace: Path) -> None:
    (workspace / "src").mkdir()
    with shell(shell_policy(workspace), root=workspace / "src", write_token=TOKEN) as middleware:
        (written,) = told(middleware, "head -c 3000000 /dev/zero >big; wc -c <big; pwd")
    assert written.content == f"3000000\n{workspace}/src\n"
    assert (workspace / "src/big").stat().st_size == 3_000_000
    with shell(shell_policy(workspace), write_token="wrong") as middleware, pytest.raises(Denied):
        told(middleware, "true")


def test_a_timeout_ends_all_that_the_session_ran_and_the_next_command_has_a_new_one(workspace: Path) -> None:
    with shell(shell_policy(workspace), command_timeout=6.0) as middleware:
        before, late, after = told(middleware, "X=1", "sleep 3417 & trap '' TERM INT HUP; sleep 3418", "echo ${X-new}")
    assert before.artifact["exit_code"] == 0
    assert (late.status, late.artifact["timed_out"]) == ("error", True)
    assert after.content == "new\n"
    assert not asleep("3417") and not asleep("3418")


def test_a_command_whose_output_does_not_end_a_line_runs_out_of_time_in_langchain(workspace: Path) -> None:
    with shell(shell_policy(workspace), command_timeout=3.0) as middleware:
        late, after = told(middleware, "printf unended", "echo after")
    assert (late.status, late.artifact["timed_out"]) == ("error", True)
    assert after.content == "after\n"


def test_when_the_agent_is_done_nothing_of_its_session_is_alive(workspace: Path) -> None:
    with shell(shell_policy(workspace)) as middleware:
        told(middleware, "sleep 3419 & sleep 3420 >/dev/null 2>&1 </dev/null &", "echo there")
        assert not asleep("3419") and not asleep("3420")


def test_output_is_cut_by_langchain_and_is_no_reason_to_end_the_session(workspace: Path) -> None:
    policy = shell_policy(workspace, max_output_bytes=10_000, on_output_limit="kill")
    with shell(policy, max_output_lines=5) as middleware:
        much, after = told(middleware, "X=1; yes wörter | head -n 20000", "echo ${X-new}")
    assert much.artifact["truncated_by_lines"]
    assert much.artifact["total_lines"] == 20_000
    assert after.content == "1\n"


def test_a_shell_that_is_not_listed_is_refused_when_the_session_is_to_start(workspace: Path) -> None:
    with shell(shell_policy(workspace, allowed_executables=("sh", "cat"))) as middleware, pytest.raises(ExecutableDenied):
        told(middleware, "true")


def test_no_session_starts_where_the_kernel_does_not_hold_what_a_shell_could_do(workspace: Path) -> None:
    with shell(shell_policy(workspace, confinement=Confinement.off())) as middleware, pytest.raises(Denied):
        told(middleware, "true")


def test_only_variables_that_requests_may_set_reach_a_session(workspace: Path) -> None:
    policy = shell_policy(workspace, environment=environment_with(request_names=("COLOUR",)))
    with shell(policy, env={"COLOUR": "red"}) as middleware:
        assert told(middleware, "echo $COLOUR; env | grep -c FABLE_EXEC_LAUNCH")[0].content.startswith("red\n0\n")
    with shell(policy, env={"LD_PRELOAD": "x"}) as middleware, pytest.raises((Denied, InvalidRequest)):
        told(middleware, "true")


def test_a_directory_outside_of_the_workspace_is_refused_with_the_one_to_give(workspace: Path, tmp_path: Path) -> None:
    with shell(shell_policy(workspace), root=tmp_path) as middleware, pytest.raises(InvalidRequest, match="workspace_root"):
        told(middleware, "true")


def test_sessions_run_at_the_same_time(workspace: Path) -> None:
    heard: dict[int, str] = {}
    with shell(shell_policy(workspace)) as middleware:

        def talk(number: int) -> None:
            heard[number] = told(middleware, f"X={number}", "sleep 0.2", "echo $X")[2].content

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert heard == {number: f"{number}\n" for number in range(4)}


def test_calls_of_one_turn_go_into_their_session_one_after_the_other(workspace: Path) -> None:
    from langchain.agents import create_agent

    turn = [("shell", {"command": f"before=${{before}}{number}; echo {number}"}) for number in range(4)]
    with shell(shell_policy(workspace)) as middleware:
        agent = create_agent(scripted_model([turn, ("shell", {"command": "echo $before"})]), middleware=[middleware])
        *heard, after = told_by(agent.invoke({"messages": [("user", "go")]}))
    assert [each.content for each in heard] == [f"{number}\n" for number in range(4)]
    assert sorted(after.content.strip()) == list("0123")


def test_an_awaited_agent_has_a_session_too_and_may_ask_for_a_new_one(workspace: Path) -> None:
    from langchain.agents import create_agent

    given: list[dict[str, Any]] = [{"command": "X=grün; echo $X"}, {"restart": True}, {"command": "echo ${X-new}"}]
    with shell(shell_policy(workspace)) as middleware:
        agent = create_agent(scripted_model([("shell", each) for each in given]), middleware=[middleware])
        heard = told_by(asyncio.run(agent.ainvoke({"messages": [("user", "go")]})))
    assert [each.content for each in heard] == ["grün\n", "Shell session restarted.", "new\n"]


def test_a_cancelled_run_leaves_nothing_once_langchain_has_let_go_of_the_session(workspace: Path) -> None:
    async def cancelled() -> None:
        running = asyncio.ensure_future(agent_with(middleware, ["sleep 3421"]).ainvoke({"messages": [("user", "go")]}))
        while not asleep("3421"):
            await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with shell(shell_policy(workspace), command_timeout=6.0) as middleware:
        asyncio.run(cancelled())  # waits for the thread in which LangChain waits for its timeout
        gc.collect()
        assert not asleep("3421")


def test_the_example_runs_and_every_protection_holds() -> None:
    program = [sys.executable, "examples/langchain_shell.py"]
    done = subprocess.run(program, cwd=PROJECT, env=os.environ | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fable in /" in done.stdout


def test_the_framework_is_loaded_by_its_own_adapter_alone() -> None:
    program = "import sys, fable_exec, fable_exec.adapters; print([n for n in sys.modules if n.startswith('lang')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
