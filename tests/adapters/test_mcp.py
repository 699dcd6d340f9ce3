"""The MCP server as a client of the official SDK sees it: in process in both protocols, and the same over standard streams."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fable_exec import Confinement
from fable_exec.cli.program import COMMANDS
from fable_exec.testing.leaks import children, open_descriptors
from fable_exec.testing.processes import alive_with
from tests.adapters.mcp_peers import Peer, in_process, over_stdio
from tests.adapters.places import shell_policy
from tests.cli.typed import PROJECT, environment, is_running
from tests.doors import policy_for
from tests.waiting import until

pytestmark = [pytest.mark.requires_ability("mcp"), pytest.mark.requires_ability("confinement")]

MAX_OUTPUT_BYTES = 20_000

SETTLED = 10
"""After so many calls everything that is opened once is open."""
Body = Callable[[Peer], Awaitable[None]]
BODIES: dict[str, Body] = {}


def body(function: Body) -> Body:
    """Something that every kind of connection must keep."""
    BODIES[function.__name__] = function
    return function


def sleeping() -> str:
    """A number of seconds that no other test sleeps."""
    return f"7{time.time_ns() % 10**9}"


@body
async def tools_are_listed_with_schemas_and_annotations(peer: Peer) -> None:
    tools = {tool.name: tool for tool in (await peer.client.list_tools()).tools}
    assert set(tools) == {
        *("execute_command", "run_shell", "describe_workspace", "read_file", "write_file", "append_file", "edit_file"),
        *("list_directory", "stat_path", "make_directory", "move_path", "remove_path", "search_files", "find_files"),
    }
    for tool in tools.values():
        assert tool.title and tool.description and tool.input_schema["additionalProperties"] is False
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert "lock" not in tool.name and "token" not in str(tool.input_schema)
    hints = {name: tool.annotations for name, tool in tools.items()}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == {
        *("describe_workspace", "read_file", "list_directory", "stat_path", "search_files", "find_files")
    }
    assert hints["execute_command"].destructive_hint and not hints["execute_command"].open_world_hint
    assert hints["write_file"].idempotent_hint and not hints["append_file"].destructive_hint


@body
async def commands_answer_with_what_became_of_them(peer: Peer) -> None:
    (peer.directory / "sub").mkdir(exist_ok=True)
    said = await peer.call("execute_command", command=["cat"], stdin="grün €\n", cwd="sub")
    assert (said["reason"], said["status"], said["stdout"], said["cwd"]) == ("exited", 0, "grün €\n", "sub")
    failed = await peer.call("execute_command", command=["bash", "-c", "echo no >&2; exit 7"])
    assert (failed["status"], failed["exit_code"], failed["stderr"]) == (7, 7, "no\n")
    killed = await peer.call("run_shell", text="kill -15 $$")
    assert (killed["reason"], killed["status"], killed["signal"], killed["exit_code"]) == ("signaled", 143, 15, None)
    refused = await peer.call("run_shell", text="echo x > /etc/fable-exec-test")
    assert [each["target"] for each in refused["refusals"]] == ["/etc/fable-exec-test"]


@body
async def what_was_said_before_a_timeout_is_there(peer: Peer) -> None:
    late = await peer.call("run_shell", text="echo partial; sleep 60", timeout_seconds=1.5)
    assert (late["reason"], late["status"], late["stdout"]) == ("timed_out", 124, "partial\n")
    idle = await peer.call("run_shell", text="echo partial; sleep 60", idle_timeout_seconds=1.5)
    assert (idle["reason"], idle["status"]) == ("idle_timed_out", 124)


@body
async def output_beyond_the_limit_is_told_as_that(peer: Peer) -> None:
    loud = await peer.call("execute_command", command=["python3", "-c", "print('x' * 1_000_000)"])
    assert (loud["reason"], loud["truncated"], len(loud["stdout"])) == ("output_limited", True, MAX_OUTPUT_BYTES)
    assert loud["stdout_omitted_bytes"] > 0


@body
async def refusals_are_results_that_the_model_can_read(peer: Peer) -> None:
    assert "executable-denied: " in await peer.refused("execute_command", command=["ls"])
    assert "not found" in await peer.refused("execute_command", command=["no-such-program-anywhere"])
    assert "path-denied: " in await peer.refused("read_file", path="../secret")
    assert "path-denied: " in await peer.refused("read_file", path="/etc/passwd")
    assert "not-found: " in await peer.refused("read_file", path="missing")
    assert "denied: " in await peer.refused("execute_command", command=["echo"], env={"LD_PRELOAD": "x"})


@body
async def locked_means_that_nothing_is_written(peer: Peer) -> None:
    await peer.lock()
    assert not (await peer.call("describe_workspace"))["writes_enabled"]
    assert "writes-locked: " in await peer.refused("write_file", path="made", content="x")
    assert "writes-locked: " in await peer.refused("remove_path", path="sub")
    assert (await peer.call("run_shell", text="echo x > made"))["status"] != 0
    assert not (peer.directory / "made").exists()


@body
async def files_are_worked_on(peer: Peer) -> None:
    await peer.unlock()
    root = str(peer.directory)
    assert (await peer.call("describe_workspace"))["writes_enabled"]
    written = await peer.call("write_file", path="größe/a.py", content="ein grüner\nBaum\n")
    assert written["path"] == f"{root}/größe/a.py" and written["created"]
    read = await peer.call("read_file", path=written["path"])
    assert (read["content"], read["encoding"], read["content_hash"]) == ("ein grüner\nBaum\n", "utf-8", written["content_hash"])
    assert (await peer.call("read_file", path="größe/a.py", max_bytes=7))["content"] == "ein gr"  # the ü is cut in two
    await peer.call("edit_file", path="größe/a.py", old="grüner", new="roter", expected_hash=written["content_hash"])
    assert "conflict: " in await peer.refused("write_file", path="größe/a.py", content="", expected_hash="0" * 64)
    assert (await peer.call("append_file", path="größe/a.py", content="end"))["appended_bytes"] == 3
    raw = bytes(range(256))
    await peer.call("write_file", path="raw", content=base64.b64encode(raw).decode(), encoding="base64")
    assert (peer.directory / "raw").read_bytes() == raw
    back = await peer.call("read_file", path="raw")
    assert (back["encoding"], base64.b64decode(back["content"])) == ("base64", raw)
    for wrong in ("!", "é"):
        assert "not base64" in await peer.refused("write_file", path="raw", content=wrong, encoding="base64")
    assert (await peer.call("search_files", query="Baum"))["matches"][0]["line"] == 2
    assert (await peer.call("find_files", pattern="**/*.py"))["matches"] == [written["path"]]
    assert (await peer.call("make_directory", path="d/e"))["created"]
    assert (await peer.call("move_path", source="raw", destination="d/raw"))["destination"] == f"{root}/d/raw"
    assert (await peer.call("stat_path", path="d/raw"))["size_bytes"] == 256
    assert [each["name"] for each in (await peer.call("list_directory", path="d"))["entries"]] == ["e", "raw"]
    assert (await peer.call("remove_path", path="d", recursive=True))["removed"] == 3
    await peer.lock()


@body
async def a_name_that_is_not_utf8_is_told_and_ends_nothing(peer: Peer) -> None:
    awkward = Path(os.fsdecode(os.fsencode(peer.directory) + b"/other\xff"))
    awkward.write_text("within\n")
    awkward.chmod(0o600)
    assert "other\ufffd" in {each["name"] for each in (await peer.call("list_directory"))["entries"]}
    assert (await peer.call("find_files", pattern="other*"))["matches"] == [f"{peer.directory}/other\ufffd"]
    assert (await peer.call("search_files", query="within"))["matches"][0]["path"] == f"{peer.directory}/other\ufffd"
    awkward.unlink()


@body
async def a_big_file_arrives_whole_and_is_read_in_part(peer: Peer) -> None:
    await peer.unlock()
    content = "".join(f"{number:07}\n" for number in range(200_000))
    written = await peer.call("write_file", path="big", content=content)
    assert written["content_hash"] == hashlib.sha256(content.encode()).hexdigest()
    part = await peer.call("read_file", path="big")
    assert (part["truncated"], part["content_hash"], part["total_bytes"]) == (True, None, len(content))
    assert content.startswith(part["content"]) and len(part["content"]) == MAX_OUTPUT_BYTES
    await peer.lock()


@body
async def calls_that_are_not_of_their_form_are_told_what_is_wrong(peer: Peer) -> None:
    for name, arguments, words in (
        ("execute_command", {}, ["command"]),
        ("execute_command", {"command": "echo hi"}, ["command"]),
        ("execute_command", {"command": []}, ["command"]),
        ("execute_command", {"command": ["echo", 1]}, ["command.1"]),
        ("execute_command", {"command": ["echo"], "unlock": True, "timeout_seconds": -1}, ["unlock", "timeout_seconds"]),
        ("execute_command", {"command": ["echo\0"]}, ["command"]),
        ("read_file", {"path": ""}, ["path"]),
        ("read_file", {"path": ["a"]}, ["path"]),
        ("write_file", {"path": "a", "content": "x", "encoding": "utf-16"}, ["encoding"]),
        ("search_files", {"query": "a\nb"}, ["query"]),
        ("find_files", {"pattern": "../*"}, ["pattern"]),
        ("unlock_writes", {"token": "x"}, ["no tool", "execute_command"]),
        ("describe_workspace", {str(number): "x" * 1000 for number in range(100)}, ["more"]),
    ):
        text = await peer.refused(name, **arguments)
        assert text.startswith("invalid-request: ") and all(word in text for word in words), text
    assert (await peer.call("execute_command", command=["echo", "well"]))["stdout"] == "well\n"


@body
async def progress_comes_at_most_ten_times_a_second_and_grows(peer: Peer) -> None:
    told: list[tuple[float, float, str]] = []

    async def hear(progress: float, _: float | None, message: str | None) -> None:
        told.append((time.monotonic(), progress, message or ""))

    script = (
        "for i in $(seq 60); do printf '%200s\\n' $i; done; sleep 0.3; for i in 1 2 3; do echo last; sleep 0.02; done; sleep 0.2"
    )
    begun = time.monotonic()
    result = await peer.client.call_tool("run_shell", {"text": script}, progress_callback=hear)
    seconds = time.monotonic() - begun
    assert not result.is_error
    assert 2 <= len(told) <= 10 * seconds + 2
    assert [progress for _, progress, _ in told] == sorted({progress for _, progress, _ in told})
    assert all(len(message) <= 1000 for _, _, message in told)
    assert "last" in told[-1][2]


@body
async def a_cancelled_call_ends_the_tree(peer: Peer) -> None:
    marker = sleeping()
    call = asyncio.ensure_future(peer.client.call_tool("run_shell", {"text": f"setsid sleep {marker} & sleep {marker}"}))
    assert await asyncio.to_thread(until, lambda: is_running(marker))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(until, lambda: not is_running(marker))
    assert (await peer.call("execute_command", command=["echo", "on"]))["stdout"] == "on\n"


@body
async def calls_may_overlap(peer: Peer) -> None:
    numbers = range(16)
    calls = [peer.call("execute_command", command=["echo", str(number)]) for number in numbers]
    assert [each["stdout"] for each in await asyncio.gather(*calls)] == [f"{number}\n" for number in numbers]


OVER_BOTH = ("tools_are_listed", "commands_answer", "refusals_are", "progress_comes", "a_cancelled_call")


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, mode) for name in BODIES for mode in ("auto", "legacy") if mode == "auto" or name.startswith(OVER_BOTH)],
)
def test_in_process(name: str, mode: str, workspace: Path) -> None:
    async def act() -> None:
        async with in_process(shell_policy(workspace, max_output_bytes=MAX_OUTPUT_BYTES), mode=mode) as peer:
            await BODIES[name](peer)

    asyncio.run(act())


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.deep)])
def test_everything_over_standard_streams(mode: str, workspace: Path) -> None:
    async def act() -> None:
        async with over_stdio(shell_policy(workspace, max_output_bytes=MAX_OUTPUT_BYTES), mode=mode) as peer:
            for each in BODIES.values():
                await each(peer)

    before = children()
    asyncio.run(act())
    assert children() <= before


def many_calls(policy: Any, number: int, connected: Callable[..., Any]) -> None:
    async def act() -> None:
        async with connected(policy) as peer:
            for at in range(number):
                if at == SETTLED:
                    before = set(open_descriptors()), threading.active_count()
                answer = await peer.call("execute_command", command=["echo", str(at)])
                assert answer["stdout"] == f"{at}\n"
                assert (await peer.call("stat_path", path="."))["kind"] == "directory"
            assert (set(open_descriptors()), threading.active_count()) == before

    asyncio.run(act())


def test_one_connection_serves_many_calls(workspace: Path) -> None:
    many_calls(shell_policy(workspace), 15, in_process)


@pytest.mark.deep
@pytest.mark.parametrize("connected", [in_process, over_stdio])
def test_one_connection_serves_a_thousand_calls(connected: Callable[..., Any], workspace: Path) -> None:
    many_calls(shell_policy(workspace), 500, connected)


def test_no_more_calls_run_at_once_than_the_policy_lets_be_in_flight(workspace: Path) -> None:
    from fable_exec import Limits

    marker = sleeping()
    policy = shell_policy(workspace, limits=Limits(max_in_flight=2))

    async def act() -> None:
        async with in_process(policy) as peer:
            script = f"sleep 0.2{marker} & wait"
            calls = [asyncio.ensure_future(peer.call("run_shell", text=script)) for _ in range(5)]
            most = 0
            while not all(call.done() for call in calls):
                most = max(most, await asyncio.to_thread(running, f"0.2{marker}"))
            await asyncio.gather(*calls)
            assert 1 <= most <= 2

    asyncio.run(act())


def running(marker: str) -> int:
    """How many `sleep MARKER` there are."""
    return len(alive_with(f"sleep\0{marker}\0"))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_roots_of_a_client_that_do_not_hold_the_workspace_refuse_every_call(mode: str, workspace: Path) -> None:
    import mcp_types as types

    async def outcome(*roots: Path) -> str:
        async def list_roots(_: Any) -> Any:
            return types.ListRootsResult(roots=[types.Root(uri=root.as_uri()) for root in roots])

        async with in_process(shell_policy(workspace), mode=mode, list_roots_callback=list_roots) as peer:
            if roots and not any(workspace.is_relative_to(root.resolve()) for root in roots):
                assert "do not hold the workspace" in await peer.refused("write_file", path="a", content="x")
                return await peer.refused("stat_path", path=".")
            return str((await peer.call("stat_path", path="."))["kind"])

    async def act() -> None:
        assert await outcome(workspace) == await outcome(Path("/srv/other"), workspace.parent) == "directory"
        assert await outcome() == "directory"
        linked = workspace.parent / "linked"
        linked.symlink_to(workspace)
        assert await outcome(linked) == "directory"
        assert (await outcome(workspace.parent / "other")).startswith("denied: ")

    asyncio.run(act())


def test_a_client_that_declares_roots_and_does_not_tell_them_is_refused(workspace: Path) -> None:
    import mcp_types as types

    async def list_roots(_: Any) -> Any:
        return types.ErrorData(code=-32603, message="no")

    async def act() -> None:
        async with in_process(shell_policy(workspace), mode="legacy", list_roots_callback=list_roots) as peer:
            assert "did not tell them" in await peer.refused("execute_command", command=["echo"])

    asyncio.run(act())


def test_shell_text_is_offered_only_with_a_shell_and_runs_only_confined(workspace: Path) -> None:
    async def act() -> None:
        async with in_process(policy_for(workspace, allowed_executables=("echo",))) as peer:
            assert "run_shell" not in {tool.name for tool in (await peer.client.list_tools()).tools}
        async with in_process(shell_policy(workspace, confinement=Confinement.off())) as peer:
            assert (await peer.refused("run_shell", text="true")).startswith("shell-denied: ")

    asyncio.run(act())


def test_in_the_other_view_the_workspace_is_the_root(workspace: Path) -> None:
    (workspace / "a").write_text("text")

    async def act() -> None:
        async with in_process(shell_policy(workspace), view="root") as peer:
            assert (await peer.call("read_file", path="/a"))["path"] == "/a"
            assert (await peer.call("describe_workspace"))["workspace"] == "/"

    asyncio.run(act())


def test_a_defect_of_ours_tells_the_peer_nothing_of_its_inside(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from fable_exec.adapters import AgentWorkspace

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("an inner secret")

    monkeypatch.setattr(AgentWorkspace, "stat", broken)

    async def act() -> str:
        async with in_process(shell_policy(workspace)) as peer:
            return await peer.refused("stat_path", path=".")

    with caplog.at_level(logging.ERROR):
        text = asyncio.run(act())
    assert text.startswith("internal-error: ") and "secret" not in text
    assert "an inner secret" in caplog.text


def test_making_a_server_changes_nothing_of_the_process(workspace: Path) -> None:
    program = (
        "import asyncio, logging, signal, sys, warnings\n"
        "from fable_exec import AsyncExecutionBroker, BrokerPolicy\n"
        "from fable_exec.adapters.mcp import build_server\n"
        "state = lambda: ([signal.getsignal(each) for each in range(1, 32)], list(warnings.filters), logging.getLogger().level)\n"
        "before = state()\n"
        "build_server(AsyncExecutionBroker(BrokerPolicy(workspace=sys.argv[1], allowed_executables=('true',))))\n"
        "assert not logging.getLogger().handlers\n"
        "assert before == state()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(workspace)], check=True)


def test_the_command_is_listed() -> None:
    assert "mcp" in COMMANDS


def test_the_example_without_a_model_does_what_it_says() -> None:
    example = PROJECT / "examples" / "mcp_client.py"
    finished = subprocess.run([sys.executable, str(example)], env=environment(), capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr
    assert "cancelled: True" in finished.stdout and "executable-denied" in finished.stdout
