"""The facade over both asyncio doors: three call shapes, refusals, cancellation, files under two views."""

from __future__ import annotations

import asyncio
import errno
import re
import time
from pathlib import Path
from typing import Any, cast

import pytest

from fable_exec import (
    Confinement,
    Conflict,
    Denied,
    EndedBy,
    ExecutableDenied,
    InvalidRequest,
    LaunchFailed,
    PathDenied,
    PathError,
    PathNotFound,
    PathRules,
    Protections,
    ShellDenied,
    WritesLocked,
)
from fable_exec.adapters import (
    AgentWorkspace,
    CommandDenial,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    RunRequest,
    status_of,
    walking,
)
from tests.adapters.places import ASYNC_DOORS, shell_policy, within
from tests.bounds import BUSY_SECONDS
from tests.cli.typed import is_running
from tests.doors import policy_for
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("confinement")


def said(events: list[Any], stream: str) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, CommandOutput) and event.stream == stream)


@pytest.mark.parametrize("door", ASYNC_DOORS)
def test_a_command_runs_to_its_end_and_its_result_says_everything(door: str, workspace: Path) -> None:
    async def body(ws: AgentWorkspace) -> None:
        result = await ws.run(RunRequest(["cat"], stdin="grün €".encode()))
        assert (result.stdout, status_of(result), result.success) == ("grün €", 0, True)
        answers = await asyncio.gather(*(ws.run(RunRequest(["echo", str(number)])) for number in range(12)))
        assert [each.stdout for each in answers] == [f"{number}\n" for number in range(12)]

    within(shell_policy(workspace), body, door=door)


@pytest.mark.parametrize("door", ASYNC_DOORS)
def test_events_come_in_order_with_offsets_and_refusals_before_the_end(door: str, workspace: Path) -> None:
    script = "printf one; printf err >&2; printf two; echo x > /etc/fable-exec-test"

    async def body(ws: AgentWorkspace) -> None:
        streamed = [event async for event in ws.stream(RunRequest(script))]
        heard: list[Any] = []
        result = await ws.run(RunRequest(script), heard.append)
        for events in (streamed, heard):
            assert isinstance(events[0], CommandStarted) and isinstance(events[-1], CommandFinished)
            assert said(events, "stdout") == b"onetwo" and said(events, "stderr").startswith(b"err")
            denials = [event.denial for event in events if isinstance(event, CommandDenial)]
            assert [each.path for each in denials] == ["/etc/fable-exec-test"]
            for stream in ("stdout", "stderr"):
                at = 0
                for event in events:
                    if isinstance(event, CommandOutput) and event.stream == stream:
                        assert event.offset == at
                        at += len(event.data)
        assert heard[-1].result == result

    within(shell_policy(workspace), body, door=door)


@pytest.mark.parametrize(
    ("door", "shape", "bound_seconds"),
    [
        *(("asyncio", shape, BUSY_SECONDS) for shape in ("run", "run with events", "stream", "stream closed early")),
        *(("asyncio_spawned", shape, BUSY_SECONDS) for shape in ("run", "stream closed early")),
        *(pytest.param(door, "run", 1.0, marks=[pytest.mark.deep, pytest.mark.alone]) for door in ("asyncio", "asyncio_spawned")),
    ],
)
def test_a_cancelled_call_ends_the_tree_before_it_goes_on(door: str, shape: str, bound_seconds: float, workspace: Path) -> None:
    marker = f"7{time.time_ns() % 10**9}"
    request = RunRequest(f"setsid sleep {marker} & echo ready; sleep {marker}")

    async def streaming(ws: AgentWorkspace) -> None:
        async for _ in ws.stream(request):
            pass

    async def body(ws: AgentWorkspace) -> float:
        if shape == "stream closed early":
            events = ws.stream(request)
            while not isinstance(await anext(events), CommandOutput):
                pass
            assert await asyncio.to_thread(until, lambda: is_running(marker))
            begun = time.monotonic()
            await events.aclose()
            return time.monotonic() - begun
        calls = {"run": lambda: ws.run(request), "run with events": lambda: ws.run(request, lambda _: None)}
        task = asyncio.ensure_future(calls.get(shape, lambda: streaming(ws))())
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begun

    async def and_look(ws: AgentWorkspace) -> tuple[float, bool]:
        return await body(ws), is_running(marker)

    seconds, alive = within(shell_policy(workspace), and_look, door=door)
    assert not alive and seconds < bound_seconds


def test_what_was_said_before_a_deadline_or_a_limit_is_there(workspace: Path) -> None:
    async def body(ws: AgentWorkspace) -> None:
        late = await ws.complete(RunRequest("echo partial; sleep 60", timeout_seconds=1.5))
        assert (late.status, late.stdout, late.timed_out, late.reason) == (124, b"partial\n", True, "timed_out")
        loud = await ws.complete(RunRequest(["python3", "-c", "print('x' * 100_000)"]))
        assert (loud.status, loud.truncated, loud.reason, len(loud.stdout)) == (137, True, "output_limited", 5000)
        cut = await ws.complete(RunRequest(["python3", "-c", "print('x' * 100_000)"], on_output_limit="truncate"))
        assert (cut.status, cut.truncated) == (0, True) and "bytes omitted]" in cut.stdout_text

    within(shell_policy(workspace, max_output_bytes=5000), body)


@pytest.mark.parametrize("door", ASYNC_DOORS)
def test_refusals_raise_or_become_a_status(door: str, workspace: Path) -> None:
    async def body(ws: AgentWorkspace) -> None:
        for request, kind, status in (
            (RunRequest(["ls"]), ExecutableDenied, 126),
            (RunRequest(["/usr/bin/ls"]), ExecutableDenied, 126),
            (RunRequest(["/nowhere/at-all"]), ExecutableDenied, 126),
            (RunRequest(["no-such-program-anywhere"]), LaunchFailed, 127),
            (RunRequest(["echo"], env={"LD_PRELOAD": "x"}), Denied, 126),
            (RunRequest(["echo"], cwd="../elsewhere"), PathDenied, 126),
            (RunRequest(["echo"], cwd="/elsewhere"), PathDenied, 126),
            (RunRequest(["echo"], timeout_seconds=-1), InvalidRequest, 2),
            (RunRequest([]), InvalidRequest, 2),
            (RunRequest(["echo"], cwd=workspace), InvalidRequest, 2),  # type: ignore[arg-type]  # that is the fault
            (RunRequest(["echo"], cwd="missing"), PathNotFound, 125),
        ):
            with pytest.raises(kind) as caught:
                await ws.run(request)
            told = await ws.complete(request)
            assert told.status == status, request
            assert (told.stderr_text, told.reason) == (f"{caught.value}\n", caught.value.code)
            assert told.result is None and told.stdout == b""

    within(shell_policy(workspace), body, door=door)


def test_what_is_no_listener_is_refused_before_anything_runs(workspace: Path) -> None:
    async def body(ws: AgentWorkspace) -> None:
        with pytest.raises(InvalidRequest, match="on_event"):
            await ws.run(RunRequest(["echo"]), 7)  # type: ignore[arg-type]  # that is the fault

    within(shell_policy(workspace), body)


@pytest.mark.parametrize("door", ASYNC_DOORS)
def test_shell_text_runs_only_where_the_kernel_holds_what_it_could_do(door: str, workspace: Path) -> None:
    text = RunRequest("echo $((6 * 7)) | cat")

    async def runs(ws: AgentWorkspace) -> None:
        assert (await ws.run(text)).stdout == "42\n"

    async def is_denied(ws: AgentWorkspace) -> None:
        with pytest.raises(ShellDenied) as caught:
            await ws.run(text)
        assert caught.value.protection
        assert (await ws.complete(text)).status == 126
        assert (await ws.run(RunRequest(["echo", "still"]))).stdout == "still\n"

    async def has_no_shell(ws: AgentWorkspace) -> None:
        with pytest.raises(ExecutableDenied, match="needs sh or bash"):
            await ws.run(text)

    within(shell_policy(workspace), runs, door=door)
    within(shell_policy(workspace, confinement=Confinement.off()), is_denied, door=door)
    within(policy_for(workspace, allowed_executables=("echo",)), has_no_shell, door=door)


@pytest.mark.parametrize("name", ["host_writes", "host_reads", "network", "kernel_surface", "workspace_writes"])
def test_one_protection_less_is_no_shell_text(name: str, workspace: Path) -> None:
    policy = shell_policy(workspace, confinement=Confinement(protections=Protections(**cast("Any", {name: "off"}))))

    async def body(ws: AgentWorkspace) -> None:
        with pytest.raises(ShellDenied) as caught:
            await ws.run(RunRequest("true"))
        assert caught.value.protection == name

    within(policy, body, unlocked=True)


@pytest.mark.parametrize(("door", "view"), [("asyncio", "host"), ("asyncio", "root"), ("asyncio_spawned", "root")])
def test_files_are_worked_on_by_the_names_of_the_view(door: str, view: str, workspace: Path) -> None:
    async def body(ws: AgentWorkspace) -> None:
        def at(path: str) -> str:
            return f"{ws.root.rstrip('/')}/{path}" if path else ws.root

        written = await ws.write_bytes(at("src/größe/a.py"), "ein grüner\nBaum\n".encode())
        assert (written.path, written.created) == (at("src/größe/a.py"), True)
        assert await ws.read_bytes("src/größe/a.py") == await ws.read_bytes(written.path)
        with pytest.raises(Conflict):
            await ws.write_bytes(written.path, b"", expected_hash="0" * 64)
        await ws.edit(written.path, "grüner", "roter")
        await ws.append(written.path, b"end\n")
        assert (workspace / "src/größe/a.py").read_text() == "ein roter\nBaum\nend\n"
        assert [entry.name for entry in (await ws.list_dir(at("src"))).entries] == ["größe"]
        assert (await ws.list_dir(at(""))).path == ws.root
        assert (await ws.stat(written.path)).kind == "file"
        assert [each.path for each in (await ws.grep("Baum", at(""))).matches] == [written.path]
        assert (await ws.make_dir(at("new/deep"))).created
        moved = await ws.move(written.path, at("new/b.py"))
        assert (moved.source, moved.destination) == (written.path, at("new/b.py"))
        assert await ws.exists(moved.destination) and not await ws.exists(written.path) and not await ws.exists(at("new/b.py/x"))
        assert await ws.realpath(at("new//./b.py".replace("./", ""))) == at("new/b.py")
        assert (await ws.remove(at("new"), recursive=True)).path == at("new")
        assert (await ws.run(RunRequest(["bash", "-c", "pwd"], cwd=at("src")))).stdout == f"{workspace}/src\n"

    within(shell_policy(workspace), body, door=door, view=view, unlocked=True)


@pytest.mark.parametrize("view", ["host", "root"])
def test_paths_that_leave_the_workspace_are_refused_in_either_view(view: str, workspace: Path) -> None:
    beside = workspace.parent / f"{workspace.name}-beside"
    beside.mkdir()
    (beside / "secret").write_text("s")
    (workspace / "link").symlink_to(beside)

    async def body(ws: AgentWorkspace) -> None:
        root = ws.root.rstrip("/")
        names = [f"{root}/../{beside.name}/secret", "../x", f"{root}/link/secret", "link/secret"]
        if view == "host":
            names += [str(beside / "secret"), "/etc/passwd", "/"]
        for name in names:
            for act in (ws.read_bytes, ws.exists, ws.make_dir, ws.realpath):
                with pytest.raises(PathDenied):
                    await act(name)
        with pytest.raises(PathDenied) as caught:
            await ws.realpath("link")
        assert caught.value.reason == "symlink"
        if view == "root":
            assert not await ws.exists("/etc/passwd")  # that is a name below the workspace
        assert (await ws.glob("**")).matches == (f"{root}/link",)

    within(shell_policy(workspace), body, view=view, unlocked=True)
    assert (beside / "secret").read_text() == "s"


@pytest.mark.parametrize("door", ASYNC_DOORS)
def test_in_a_workspace_that_is_gone_no_name_is_said_to_be_free(door: str, workspace: Path) -> None:
    async def body(ws: AgentWorkspace) -> None:
        assert not await ws.exists("name")
        workspace.rmdir()
        for path in ("name", "."):
            with pytest.raises(PathNotFound) as caught:
                await ws.exists(path)
            assert caught.value.reason == "workspace-gone"

    within(shell_policy(workspace), body, door=door)


def test_while_locked_nothing_is_written(workspace: Path) -> None:
    (workspace / "a").write_text("as it was")

    async def body(ws: AgentWorkspace) -> None:
        for act in (ws.write_bytes("b", b""), ws.edit("a", "as", "AS"), ws.remove("a"), ws.make_dir("d"), ws.append("a", b"x")):
            with pytest.raises(WritesLocked):
                await act
        with pytest.raises(WritesLocked):
            await ws.move("a", "b")
        told = await ws.complete(RunRequest("echo x > b"))
        assert told.status not in (0, 126) and told.result is not None  # the kernel says it to the shell

    within(shell_policy(workspace), body)
    assert [(each.name, each.read_text()) for each in workspace.iterdir()] == [("a", "as it was")]


def test_a_file_larger_than_one_read_is_not_given_in_part(workspace: Path) -> None:
    (workspace / "big").write_bytes(b"x" * 5001)
    (workspace / "fits").write_bytes(b"y" * 5000)

    async def body(ws: AgentWorkspace) -> None:
        assert await ws.read_bytes("fits") == b"y" * 5000
        with pytest.raises(PathError, match=r"5001 bytes.*5000") as caught:
            await ws.read_bytes("big")
        assert (caught.value.reason, caught.value.errno) == ("too-large", errno.EFBIG)

    within(shell_policy(workspace, max_output_bytes=5000), body)


GLOBS = [
    ("*", {"a.py", "src", ".env"}),
    ("*.py", {"a.py"}),
    ("**/*.py", {"a.py", "src/b.py", "src/deep/c.py"}),
    ("src/**", {"src", "src/b.py", "src/deep", "src/deep/c.py", "src/deep/d.txt"}),
    ("src/*/*.txt", {"src/deep/d.txt"}),
    ("**/deep/**/*.py", {"src/deep/c.py"}),
    ("nothing/*", set()),
    ("[ab].py", {"a.py"}),
    ("**/*.{py,txt}", {"a.py", "src/b.py", "src/deep/c.py", "src/deep/d.txt"}),
    ("{src/{b,x},a}.py", {"a.py", "src/b.py"}),
    ("{a}.py", set()),
]


@pytest.mark.parametrize(("pattern", "expected"), GLOBS, ids=[pattern for pattern, _ in GLOBS])
def test_glob_finds_what_fits(pattern: str, expected: set[str], workspace: Path) -> None:
    (workspace / "src/deep").mkdir(parents=True)
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/deep/d.txt", ".env"):
        (workspace / name).touch()

    async def body(ws: AgentWorkspace) -> None:
        found = await ws.glob(pattern)
        assert set(found.matches) == {f"{workspace}/{name}" for name in expected} and not found.truncated
        if len(expected) > 1:
            assert (await ws.glob(pattern, max_matches=1)).truncated
        refused = (("../*", None), ("{a,../*}", None), ("{a,b}" * 7, None), (None, None), ("*", 0), ("*", -1), ("*", True))
        for wrong, most in refused:
            with pytest.raises(InvalidRequest):
                await ws.glob(wrong, max_matches=most)  # type: ignore[arg-type]  # that is the fault

    within(shell_policy(workspace), body)


def test_glob_leaves_protected_directories_out(workspace: Path) -> None:
    (workspace / "private").mkdir()
    (workspace / "private/key").touch()
    policy = shell_policy(workspace, paths=PathRules(protected=("private",)))

    async def body(ws: AgentWorkspace) -> None:
        assert not [each for each in (await ws.glob("**/*")).matches if each.endswith("key")]

    within(policy, body)


def test_glob_looks_into_so_many_directories_and_says_that_there_are_more(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "_MAX_DIRECTORIES", 4)
    for number in range(3):
        (workspace / f"{number}").mkdir()

    async def body(ws: AgentWorkspace) -> None:
        found = await ws.glob("**/*")
        assert (len(found.matches), found.truncated) == (3, False)
        (workspace / "3").mkdir()
        assert (await ws.glob("**/*")).truncated

    within(shell_policy(workspace), body)


def test_a_view_that_is_none_is_refused(workspace: Path) -> None:
    async def body(ws: AgentWorkspace) -> None:
        raise AssertionError("there is none")

    with pytest.raises(InvalidRequest, match="view"):
        within(shell_policy(workspace), body, view="elsewhere")


def test_the_facade_has_no_word_for_unlocking() -> None:
    from fable_exec.adapters import BlockingAgentWorkspace

    for kind in (AgentWorkspace, BlockingAgentWorkspace):
        assert [name for name in dir(kind) if re.search("lock_|unlock", name) and not name.startswith("_")] == []


def test_a_slow_reader_holds_the_command_up_and_not_the_memory(workspace: Path) -> None:
    flood = ["python3", "-c", "import sys\nfor _ in range(3000): sys.stdout.write('x' * 4096)"]

    async def body(ws: AgentWorkspace) -> None:
        total = 0
        async for event in ws.stream(RunRequest(flood, on_output_limit="truncate")):
            if isinstance(event, CommandOutput):
                if not total:
                    await asyncio.sleep(0.2)
                total += len(event.data)
            elif isinstance(event, CommandFinished):
                assert event.result.outcome is EndedBy.EXITED
        assert total == 3000 * 4096

    within(shell_policy(workspace), body)
