"""What the tools for OpenAI's Agents SDK do, without the SDK, over real brokers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Confinement
from fable_exec.adapters.openai_agents_operations import OpenAiAgentsOperations
from tests.adapters.places import DOORS_BELOW_THE_FACADE, shell_policy, within
from tests.cli.typed import PROJECT, is_running
from tests.waiting import until

CONFINED = pytest.mark.requires_ability("confinement")


def told(policy: BrokerPolicy, body: Callable[[OpenAiAgentsOperations], Awaitable[Any]], **more: Any) -> Any:
    return within(policy, lambda workspace: body(OpenAiAgentsOperations(workspace)), **more)


def replaced(text: str, diff: str) -> str:
    """A diff of the form "old>new", as the SDK's are in what matters here: it fits, or is a ValueError."""
    old, new = diff.split(">")
    if old not in text:
        raise ValueError("Invalid Context")
    return text.replace(old, new) if old else new


@CONFINED
@pytest.mark.parametrize("door", DOORS_BELOW_THE_FACADE)
def test_commands_run_one_after_the_other_and_none_after_one_that_ran_out_of_time(door: str, workspace: Path) -> None:
    async def body(tools: OpenAiAgentsOperations) -> None:
        first, second = await tools.run(["echo grün; echo err >&2; exit 3", "kill -15 $$"])
        assert (first.stdout, first.stderr, first.exit_code) == ("grün\n", "err\n", 3)
        assert second.exit_code == 143
        done, late = await tools.run(["true", "echo before; sleep 60", "touch after"], timeout_ms=600)
        assert (done.exit_code, late.exit_code, late.stdout) == (0, None, "before\n")
        (locked,) = await tools.run(["echo x >new"])
        assert locked.exit_code and "Read-only" in locked.stderr

    told(shell_policy(workspace), body, door=door)


@CONFINED
def test_output_is_cut_in_its_middle_or_ends_the_command(workspace: Path) -> None:
    async def body(tools: OpenAiAgentsOperations) -> None:
        (cut,) = await tools.run(["printf 'Anfang%0100dEnde' 0"], max_output_length=60)
        assert len(cut.stdout) <= 60 and (cut.stdout[:8], cut.stdout[-6:]) == ("Anfang00", "00Ende")
        assert "\n[... 85 characters left out ...]\n" in cut.stdout
        for most in (-3, 0, 10):
            (cut,) = await tools.run(["printf '%0100d' 0"], max_output_length=most)
            assert cut.stdout == "0" * max(most, 0)
        (much,) = await tools.run(["yes | head -c 100000"])
        assert much.exit_code == 137

    told(shell_policy(workspace, max_output_bytes=1000), body)


@CONFINED
def test_what_is_cut_leaves_the_short_outputs_whole_and_is_together_not_too_long(workspace: Path) -> None:
    async def body(tools: OpenAiAgentsOperations) -> None:
        first, second = await tools.run(["printf '%0900d' 0; echo short >&2", "printf '%0900d' 1"], max_output_length=400)
        assert (first.stderr, second.stderr) == ("short\n", "")
        assert len(first.stdout) == len(second.stdout) == 197
        assert second.stdout.endswith("1") and "left out" in first.stdout

    told(shell_policy(workspace), body)


def test_what_is_refused_is_a_status_and_a_sentence(workspace: Path) -> None:
    async def body(tools: OpenAiAgentsOperations) -> None:
        (refused,) = await tools.run(["echo hi"])
        assert (refused.exit_code, "allow-list cannot see inside" in refused.stderr) == (126, True)
        (malformed,) = await tools.run(["echo hi"], timeout_ms=-1)
        assert malformed.exit_code in (2, 126)

    told(shell_policy(workspace, confinement=Confinement.off()), body)


@CONFINED
def test_a_cancelled_call_is_dead_before_the_cancellation_goes_on_and_calls_run_at_the_same_time(workspace: Path) -> None:
    marker = f"7{time.time_ns() % 10**9}"

    async def body(tools: OpenAiAgentsOperations) -> None:
        running = asyncio.ensure_future(tools.run([f"sleep {marker} & sleep {marker}", "touch after"]))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        both = await asyncio.gather(*(tools.run([f"echo {number}"]) for number in range(4)))
        assert [outputs[0].stdout for outputs in both] == [f"{number}\n" for number in range(4)]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_running(marker)

    told(shell_policy(workspace), body, unlocked=True)
    assert list(workspace.iterdir()) == []


def test_a_patch_is_made_whole_or_the_file_stays_as_it_was(workspace: Path) -> None:
    large = "ü" * 300_000

    async def body(tools: OpenAiAgentsOperations) -> None:
        assert (await tools.create("deep/file", f">{large}", replaced)).made
        assert (workspace / "deep/file").read_text() == large
        again = await tools.create("deep/file", ">other", replaced)
        assert (again.made, "there already" in again.output) == (False, True)
        assert (await tools.update("deep/file", f"{large}>eins zwei", replaced)).made
        assert (await tools.update("deep/file", "zwei>zwei", replaced, move_to="other/deeper/file")).made
        assert (await tools.update("other/deeper/file", "zwei>drei", replaced, move_to="moved")).made
        assert (workspace / "moved").read_text() == "eins drei" and not (workspace / "deep/file").exists()
        unfit = await tools.update("moved", "absent>x", replaced)
        assert (unfit.made, "does not fit" in unfit.output) == (False, True)
        (workspace / "bytes").write_bytes(b"\xff")
        for refused in (
            await tools.update("bytes", "x>y", replaced),
            await tools.update("missing", "x>y", replaced),
            await tools.update("moved", "eins>\ud800", replaced),
            *[
                await tools.update("moved", "eins>zwei", replaced, move_to=to)
                for to in ("bytes", "bytes/below", "../out", "deep")
            ],
            await tools.create("/etc/file", ">x", replaced),
            await tools.delete("deep/none"),
        ):
            assert not refused.made and refused.output
        assert (workspace / "moved").read_text() == "eins drei"
        assert (await tools.delete("moved")).made and not (workspace / "moved").exists()

    told(shell_policy(workspace), body, unlocked=True)


def test_of_all_who_create_a_file_at_the_same_time_one_does(workspace: Path) -> None:
    async def body(tools: OpenAiAgentsOperations) -> list[bool]:
        tried = await asyncio.gather(*(tools.create("deep/file", f">{number}", replaced) for number in range(8)))
        return [each.made for each in tried]

    made = told(shell_policy(workspace), body, unlocked=True)
    assert made.count(True) == 1 and (workspace / "deep" / "file").read_text() == str(made.index(True))
    assert [path.name for path in (workspace / "deep").iterdir()] == ["file"]


def test_what_may_not_be_created_is_refused_by_its_own_name(workspace: Path) -> None:
    async def body(tools: OpenAiAgentsOperations) -> None:
        for path in (".git/hooks/pre-commit", "deep/CON"):
            refused = await tools.create(path, ">x", replaced)
            assert (refused.made, f"'{path}'" in refused.output) == (False, True), refused

    told(shell_policy(workspace), body, unlocked=True)
    assert not (workspace / ".git").exists() and list((workspace / "deep").iterdir()) == []


def test_a_file_that_was_changed_meanwhile_is_left_as_it_is(workspace: Path) -> None:
    (workspace / "file").write_text("old")

    def meanwhile(text: str, diff: str) -> str:
        (workspace / "file").write_text("theirs")
        return replaced(text, diff)

    async def body(tools: OpenAiAgentsOperations) -> None:
        for to in (None, "moved"):
            assert (await tools.update("file", "old>new", meanwhile, move_to=to)).output.startswith("conflict: ")
            assert [each.name for each in workspace.iterdir()] == ["file"] and (workspace / "file").read_text() == "theirs"
            (workspace / "file").write_text("old")

    told(shell_policy(workspace), body, unlocked=True)


def test_while_writes_are_locked_no_patch_is_made(workspace: Path) -> None:
    (workspace / "file").write_text("old")

    async def body(tools: OpenAiAgentsOperations) -> None:
        for patched in (
            await tools.create("new", ">x", replaced),
            await tools.update("file", "old>new", replaced),
            await tools.delete("file"),
        ):
            assert (patched.made, patched.output.startswith("writes-locked: ")) == (False, True)

    told(shell_policy(workspace), body)
    assert [path.read_text() for path in workspace.iterdir()] == ["old"]


PROGRAM = """
import sys
import fable_exec, fable_exec.adapters
from fable_exec import AsyncExecutionBroker, BrokerPolicy
from fable_exec.adapters import AgentWorkspace, archives, openai_agents_operations, openai_agents_sandbox_operations, owned
print(sorted({name.partition(".")[0] for name in sys.modules} & {"agents", "openai", "pydantic", "pydantic_core", "httpx"}))
for adapter in ("openai_agents", "openai_agents_sandbox"):
    sys.modules["agents"] = None
    try:
        __import__(f"fable_exec.adapters.{adapter}")
    except fable_exec.ExtraMissing as error:
        print(error.extra)
"""


def test_only_the_adapters_load_the_sdk_and_say_what_brings_it() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert told.stdout == "[]\nopenai-agents\nopenai-agents\n"
