"""Agents in sandboxes of OpenAI's Agents SDK, whose model reads from a script: its tools, its runs, and what they leave.

Where the SDK is not installed this is skipped. The sessions by themselves are tried by test_openai_agents_sandbox_sessions.py.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fable_exec.testing.leaks import nothing_left
from tests.adapters.openai_sandboxes import TERMINALS, agent_of, client_of, manifest_of, run_to_the_end, said, sandbox_run, within
from tests.adapters.scripted_agents import quiet, sandbox_patch, told, tool_call
from tests.cli.typed import PROJECT, is_running
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = [pytest.mark.requires_ability("openai_agents"), pytest.mark.requires_ability("confinement")]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@TERMINALS
def test_an_agent_works_with_the_tools_of_the_sdk(place: Path, tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-eins\n+größer\n*** Add File: deep/b.txt\n+zwei\n*** End Patch\n"
    moved = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: c.txt\n@@\n-größer\n+drei\n"
    moved += "*** Delete File: deep/b.txt\n*** End Patch\n"
    ran, going_on, rest, asked, got, unknown, patched, read, renamed, listed, _, image = run_to_the_end(
        client_of(place),
        tmp_path,
        [tool_call("exec_command", cmd="cat a.txt; echo schön >&2; exit 4")],
        [tool_call("exec_command", cmd="echo first; sleep 1; echo last", yield_time_ms=300)],
        [tool_call("write_stdin", session_id=2, yield_time_ms=20_000)],
        [tool_call("exec_command", cmd="read x; echo got $x", tty=True, yield_time_ms=300)],
        [tool_call("write_stdin", session_id=3, chars="ü\n", yield_time_ms=5000)],
        [tool_call("write_stdin", session_id=99)],
        [sandbox_patch(patch)],
        [tool_call("exec_command", cmd="pwd; cat *.txt b.txt", workdir="deep")],
        [sandbox_patch(moved)],
        [tool_call("exec_command", cmd="cat c.txt; find . -type f", shell="bash")],
        [tool_call("exec_command", cmd=f"echo {PIXEL} | base64 -d >pixel.png")],
        [tool_call("view_image", path="pixel.png")],
        default_manifest=manifest_of(None, **{"a.txt": "eins\n"}),
    )
    assert "exited with code 4" in ran and sorted(said(ran).splitlines()) == ["eins", "schön"]
    assert "session ID 2" in going_on and said(going_on) == "first\n"
    assert "exited with code 0" in rest and said(rest) == "last\n"
    assert "session ID 3" in asked and "got ü" in got
    assert "not found: 99" in unknown
    assert patched == "Updated a.txt\nCreated deep/b.txt"
    assert said(read).startswith(f"{place}/") and said(read).endswith("/deep\nzweizwei")
    assert renamed == "Updated a.txt\nMoved a.txt to c.txt\nDeleted deep/b.txt"
    assert said(listed) == "drei\n./c.txt\n"
    assert base64.b64decode(image[0]["image_url"].partition(",")[2]) == base64.b64decode(PIXEL)
    assert list(place.iterdir()) == []


def test_what_is_denied_is_told_to_the_model_and_the_run_goes_on(place: Path, tmp_path: Path) -> None:
    written, net, shell, patched, outside = run_to_the_end(
        client_of(place),
        tmp_path,
        [tool_call("exec_command", cmd=f"touch /etc/x; ls {tmp_path}; cat /etc/shadow")],
        [tool_call("exec_command", cmd="python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'")],
        [tool_call("exec_command", cmd="true", shell="/bin/zsh")],
        [sandbox_patch("*** Begin Patch\n*** Add File: ../x\n+x\n*** End Patch")],
        [tool_call("exec_command", cmd="true", workdir="/etc")],
    )
    assert "Read-only file system" in written and "root:" not in written
    assert "refused" in net and "exited with code 1" in net
    assert "exited with code 126" in shell and "allow-list" in shell
    assert "must not escape root" in patched
    assert outside.startswith("Invalid workdir")


def test_what_an_agent_left_running_ends_with_its_run(place: Path, tmp_path: Path) -> None:
    marker = unique_sleep()
    (ran,) = run_to_the_end(
        client_of(place),
        tmp_path,
        [tool_call("exec_command", cmd=f"setsid sleep {marker} & sleep {marker}", yield_time_ms=300)],
    )
    assert "running with session ID 1" in ran
    assert not is_running(marker) and list(place.iterdir()) == []


@pytest.mark.parametrize("streamed", [False, True])
def test_a_cancelled_run_leaves_nothing_running_and_no_directory(streamed: bool, place: Path, tmp_path: Path) -> None:
    from agents import Runner

    marker = unique_sleep()

    async def act() -> None:
        agent = agent_of([tool_call("exec_command", cmd=f"setsid sleep {marker} & sleep {marker}", yield_time_ms=30_000)])
        config = sandbox_run(client_of(place), tmp_path)
        if streamed:
            result = Runner.run_streamed(agent, "go", run_config=config)
            running = asyncio.ensure_future(to_its_end(result))
        else:
            running = asyncio.ensure_future(Runner.run(agent, "go", run_config=config))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        if streamed:
            result.cancel()
        else:
            running.cancel()
        await asyncio.wait({running})
        assert streamed or running.cancelled()
        assert not is_running(marker)
        assert list(place.iterdir()) == []

    with nothing_left():
        asyncio.run(act())


async def to_its_end(result: Any) -> None:
    async for _ in result.stream_events():
        pass


def test_a_run_that_waits_for_an_approval_is_continued_from_its_serialized_state(place: Path, tmp_path: Path) -> None:
    from agents import Runner, RunState
    from agents.sandbox.capabilities import Shell

    def ask_first(tools: Any) -> None:
        async def is_dangerous(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
            return "dangerous" in arguments["cmd"]

        tools.exec_command.needs_approval = is_dangerous

    async def act() -> list[Any]:
        client = client_of(place)
        agent = agent_of(
            [tool_call("exec_command", cmd="echo eins >file; chmod 755 file; ln -s file link")],
            [tool_call("exec_command", cmd="cat link; stat -c %a file; echo dangerous")],
            default_manifest=manifest_of(),
            capabilities=[Shell(configure_tools=ask_first)],
        )
        asked = await Runner.run(agent, "go", run_config=sandbox_run(client, tmp_path))
        assert len(asked.interruptions) == 1 and list(place.iterdir()) == []
        state = await RunState.from_json(agent, asked.to_state().to_json())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state, run_config=sandbox_run(client_of(place), tmp_path))
        return [item["output"] for item in told(result)]

    with nothing_left():
        *_, read = asyncio.run(act())
    assert said(read) == "eins\n755\ndangerous\n"
    assert list(place.iterdir()) == []


def test_the_default_shell_reads_no_profile_and_one_that_the_model_names_does(place: Path, tmp_path: Path) -> None:
    kind = "shopt -q login_shell && echo login || echo plain"
    ours, named = run_to_the_end(
        client_of(place, {"allowed_executables": ["bash"]}),
        tmp_path,
        [tool_call("exec_command", cmd=kind)],
        [tool_call("exec_command", cmd=kind, shell="bash")],
    )
    assert (said(ours).strip(), said(named).strip()) == ("plain", "login")


def test_runs_share_a_live_session_and_do_not_end_it(place: Path, tmp_path: Path) -> None:
    from agents import Runner
    from agents.sandbox import SandboxRunConfig

    async def body(session: Any) -> None:
        for turn, want in (("echo eins >>file; cat file", "eins\n"), ("echo zwei >>file; cat file", "eins\nzwei\n")):
            agent = agent_of([tool_call("exec_command", cmd=turn)])
            result = await Runner.run(agent, "go", run_config=quiet(sandbox=SandboxRunConfig(session=session)))
            assert said(told(result)[0]["output"]) == want
        assert await session.running()

    within(client_of(place), body)


def test_agents_at_the_same_time_have_sessions_of_their_own(place: Path, tmp_path: Path) -> None:
    from agents import Runner

    client = client_of(place)

    async def one(number: int) -> str:
        agent = agent_of([tool_call("exec_command", cmd=f"echo {number} >>file; sleep 0.3; cat file")])
        result = await Runner.run(agent, "go", run_config=sandbox_run(client, tmp_path))
        return said(told(result)[0]["output"])

    async def act() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(3)))

    with nothing_left():
        assert asyncio.run(act()) == ["0\n", "1\n", "2\n"]
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("lazy", [False, True])
def test_skills_are_where_the_sdk_puts_them(lazy: bool, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.sandbox.capabilities import Shell, Skills
    from agents.sandbox.capabilities.skills import LocalDirLazySkillSource
    from agents.sandbox.entries import LocalDir

    (tmp_path / "skills" / "knitting").mkdir(parents=True)
    (tmp_path / "skills" / "knitting" / "SKILL.md").write_text("---\nname: knitting\ndescription: knits\n---\nKnit.\n")
    monkeypatch.chdir(tmp_path)
    source = LocalDir(src=Path("skills"))
    skills = Skills(lazy_from=LocalDirLazySkillSource(source=source)) if lazy else Skills(from_=source)
    turns = [[tool_call("load_skill", skill_name="knitting")]] if lazy else []
    *_, read = run_to_the_end(
        client_of(place),
        tmp_path,
        *turns,
        [tool_call("exec_command", cmd="tail -n 1 .agents/knitting/SKILL.md")],
        capabilities=[skills, Shell()],
    )
    assert said(read) == "Knit.\n"


def test_a_read_only_session_is_set_up_and_then_written_by_nobody(place: Path, tmp_path: Path) -> None:
    ran, patched = run_to_the_end(
        client_of(place, read_only=True),
        tmp_path,
        [tool_call("exec_command", cmd="cat a; echo x >a; touch $TMPDIR/x && echo private")],
        [sandbox_patch("*** Begin Patch\n*** Update File: a\n@@\n-eins\n+zwei\n*** End Patch")],
        default_manifest=manifest_of(a="eins\n"),
    )
    assert {"eins", "private"} <= set(said(ran).splitlines()) and "Read-only file system" in ran
    assert "locked" in patched


def test_an_agent_that_is_to_run_as_somebody_else_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run_as"):
        run_to_the_end(client_of(place), tmp_path, run_as="somebody")
    assert list(place.iterdir()) == []


def test_the_example_runs_and_every_protection_holds() -> None:
    program = [sys.executable, "examples/openai_agents_sandbox.py"]
    done = subprocess.run(program, cwd=PROJECT, env=os.environ | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("every protection held\n")
