"""What the pydantic-ai backend does, without pydantic-ai: its rules for arguments, links and errors, over real brokers."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import (
    BrokerGone,
    BrokerPolicy,
    Confinement,
    FrameTooLarge,
    InvalidRequest,
    Limits,
    PathDenied,
    PathNotFound,
    PathPermission,
    WritesLocked,
)
from fable_exec.adapters import AgentWorkspace
from fable_exec.adapters.pydantic_ai_operations import PydanticAiOperations
from tests.adapters.places import DOORS_BELOW_THE_FACADE, shell_policy, within
from tests.cli.typed import is_running
from tests.doors import DOORS, environment_with
from tests.hosts import unique_sleep
from tests.waiting import until

CONFINED = pytest.mark.requires_ability("confinement")


def told(policy: BrokerPolicy, body: Callable[[PydanticAiOperations], Awaitable[Any]], **more: Any) -> Any:
    return within(policy, lambda workspace: body(PydanticAiOperations(workspace)), **more)


@CONFINED
@pytest.mark.parametrize("door", DOORS_BELOW_THE_FACADE)
def test_how_a_command_ended_is_a_result(door: str, workspace: Path) -> None:
    async def body(backend: PydanticAiOperations) -> None:
        done = await backend.run("printf out; printf err >&2; exit 7", is_text=True)
        assert (done.status, done.stdout_text, done.stderr_text) == (7, "out", "err")
        assert (await backend.run(["sh", "-c", "read value || printf eof"])).stdout_text == "eof"
        assert (await backend.run(["sh", "-c", 'printf "%s" "$1"', "sh", " $() `x` grün; "])).stdout_text == " $() `x` grün; "
        assert (await backend.run(["sh", "-c", "printf '\\377'"])).stdout_text == "\ufffd"
        assert (await backend.run(["sh", "-c", "kill -15 $$"])).status == 143
        assert (await backend.run(["no-such-program-here"])).status == 127
        denied = await backend.run(["ls"])
        assert (denied.status, "allow-list" in denied.stderr_text) == (126, True)
        assert (await backend.run(["pwd"], cwd=str(workspace / "none"))).status == 0

    (workspace / "sub").mkdir()
    with pytest.raises(FileNotFoundError):
        told(shell_policy(workspace, allowed_executables=("sh", "pwd")), body, door=door)


@CONFINED
def test_a_command_ends_with_what_it_left_behind_and_does_not_wait_for_it(workspace: Path) -> None:
    marker = f"7{time.time_ns() % 10**9}"

    async def body(backend: PydanticAiOperations) -> None:
        done = await backend.run(["sh", "-c", f"sleep {marker} & printf done"])
        assert (done.status, done.stdout_text) == (0, "done")

        assert not is_running(marker)

    told(shell_policy(workspace), body)


@CONFINED
def test_limits_say_themselves_and_keep_what_came_before(workspace: Path) -> None:
    async def body(backend: PydanticAiOperations) -> None:
        late = await backend.run(["sh", "-c", "echo before; sleep 60"], timeout=1.5)
        assert (late.timed_out, late.stdout_text) == (True, "before\n")
        much = await backend.run("yes | head -c 100000", is_text=True)
        assert (much.truncated, len(much.stdout) <= 1000) == (True, True)
        for timeout in (0, -1, math.nan, math.inf):
            with pytest.raises(ValueError):
                await backend.run(["true"], timeout=timeout)

    told(shell_policy(workspace, max_output_bytes=1000), body)


@CONFINED
def test_a_cancelled_command_is_dead_before_the_cancellation_goes_on(workspace: Path) -> None:
    marker = f"7{time.time_ns() % 10**9}"

    async def body(backend: PydanticAiOperations) -> None:
        running = asyncio.ensure_future(backend.run(f"sleep {marker} & sleep {marker}", is_text=True))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_running(marker)

    told(shell_policy(workspace), body)


@CONFINED
def test_commands_run_at_the_same_time(workspace: Path) -> None:
    async def body(backend: PydanticAiOperations) -> None:
        done = await asyncio.gather(*(backend.run(f"sleep 0.2; echo {number}", is_text=True) for number in range(8)))
        assert [each.stdout_text for each in done] == [f"{number}\n" for number in range(8)]

    told(shell_policy(workspace), body)


def test_arguments_that_do_not_fit_are_errors_of_the_caller(workspace: Path) -> None:
    async def body(backend: PydanticAiOperations) -> None:
        for wrong in ({"command": "true"}, {"command": ["true"], "is_text": True}):
            with pytest.raises(TypeError):
                await backend.run(**wrong)
        for path in ("relative", ""):
            for act in (backend.read_bytes, backend.stat, backend.list_dir, backend.make_dir, backend.exists, backend.realpath):
                with pytest.raises(ValueError):
                    await act(path)
        with pytest.raises(ValueError):
            await backend.run(["true"], cwd="relative")
        with pytest.raises(PathDenied):
            await backend.run(["true"], cwd="/")
        longest = backend.workspace.policy.limits.max_timeout_seconds
        with pytest.raises(ValueError):
            await backend.run(["true"], timeout=longest + 1)

    told(shell_policy(workspace), body)
    with pytest.raises(InvalidRequest, match="view"):
        told(shell_policy(workspace), body, view="root")


def test_shell_text_and_variables_are_refused_as_results(workspace: Path) -> None:
    async def body(backend: PydanticAiOperations) -> None:
        assert (await backend.run("echo hi", is_text=True)).status == 126
        assert (await backend.run(["true"], env={"LD_PRELOAD": "x"})).status in (2, 126)

    environment = environment_with(request_names=("COLOUR",))
    told(shell_policy(workspace, confinement=Confinement.off(), environment=environment), body)


def test_files_are_bytes_and_errors_are_builtin(workspace: Path) -> None:
    at = str(workspace)
    large = b"\x00workspace\xff" * 300_000

    async def body(backend: PydanticAiOperations) -> None:
        await backend.write_bytes(f"{at}/nested/ünï.bin", large)
        assert await backend.read_bytes(f"{at}/nested/ünï.bin") == large
        await backend.make_dir(f"{at}/a/b")
        await backend.make_dir(f"{at}/a/b")
        assert [(each.name, each.path, each.is_dir, each.size) for each in await backend.list_dir(at)] == [
            ("a", f"{at}/a", True, None),
            ("nested", f"{at}/nested", True, None),
        ]
        found = await backend.stat(f"{at}/nested/ünï.bin")
        assert (found.name, found.is_dir, found.size) == ("ünï.bin", False, len(large))
        for act in (backend.read_bytes, backend.stat, backend.list_dir, backend.remove):
            with pytest.raises(FileNotFoundError):
                await act(f"{at}/missing")
        with pytest.raises(IsADirectoryError):
            await backend.read_bytes(f"{at}/a")
        with pytest.raises(IsADirectoryError):
            await backend.write_bytes(f"{at}/a", b"")
        with pytest.raises(NotADirectoryError):
            await backend.list_dir(f"{at}/nested/ünï.bin")
        for act in (backend.make_dir, lambda path: backend.write_bytes(path, b"")):
            with pytest.raises(NotADirectoryError):
                await act(f"{at}/nested/ünï.bin/child")
        with pytest.raises(FileExistsError):
            await backend.make_dir(f"{at}/nested/ünï.bin")
        with pytest.raises(PermissionError):
            await backend.read_bytes("/etc/hostname")
        await backend.remove(f"{at}/nested")
        assert not await backend.exists(f"{at}/nested")

    told(shell_policy(workspace, max_output_bytes=1 << 22), body, unlocked=True)


def test_over_a_spawned_broker_a_write_has_to_fit_into_a_frame(workspace: Path) -> None:
    async def body(backend: PydanticAiOperations) -> None:
        with pytest.raises(FrameTooLarge, match="max_frame_bytes"):
            await backend.write_bytes(f"{workspace}/file", b"x" * 70_000)
        await backend.write_bytes(f"{workspace}/file", b"x" * 30_000)

    told(shell_policy(workspace, limits=Limits(max_frame_bytes=1 << 16)), body, unlocked=True, door="asyncio_spawned")
    assert (workspace / "file").stat().st_size == 30_000


def test_while_writes_are_locked_every_change_is_refused(workspace: Path) -> None:
    async def body(backend: PydanticAiOperations) -> None:
        path = f"{workspace}/file"
        for act in (backend.make_dir(f"{workspace}/new"), backend.write_bytes(path, b"new"), backend.remove(path)):
            with pytest.raises(WritesLocked):
                await act

    (workspace / "file").write_text("old")
    told(shell_policy(workspace), body)
    assert (workspace / "file").read_text() == "old"


def test_the_workspace_and_what_it_lies_in_are_not_removed_by_whatever_name(workspace: Path) -> None:
    at, above = str(workspace), str(workspace.parent)
    (workspace / "sub").mkdir()
    (workspace / "file").write_text("x")
    for name, leads_to in {"self": ".", "up": "..", "top": at, "above": above}.items():
        (workspace / name).symlink_to(leads_to)
    names = sorted(os.listdir(at))
    by_names = (at, f"{at}/", f"{at}/.", f"{at}//", above, f"{above}/", "/", "//", "/.", "/..")
    by_dots = (f"{at}/sub/..", f"{at}/..", f"{at}/none/..", f"{at}/file/..", f"{at}/../{workspace.name}")
    by_links = (f"{at}/up/{workspace.name}", f"{at}/above/{workspace.name}/", f"{at}/self/..", f"{at}/top/sub/..", f"{at}/up/..")

    async def body(backend: PydanticAiOperations) -> None:
        for path in (*by_names, *by_dots, *by_links):
            with pytest.raises(InvalidRequest, match="remove what is in the workspace"):
                await backend.remove(path)
            assert sorted(os.listdir(at)) == names, path
        for path in ("/etc", f"{at}x", f"{above}/other", f"{at}/up/other"):
            with pytest.raises(PathDenied):
                await backend.remove(path)
        for path in ("", ".", "sub"):
            with pytest.raises(ValueError, match="absolute"):
                await backend.remove(path)
        for link in (f"{at}/up/", f"{at}/top/.", f"{at}/self/../{workspace.name}/above", f"{at}/self"):
            await backend.remove(link)
        assert sorted(os.listdir(at)) == ["file", "sub"]

    told(shell_policy(workspace), body, unlocked=True)


@CONFINED
@pytest.mark.parametrize("door", DOORS_BELOW_THE_FACADE)
def test_a_removed_workspace_is_told_and_is_not_an_empty_one(door: str, workspace: Path) -> None:
    at, marker = str(workspace), unique_sleep()

    async def body(backend: PydanticAiOperations) -> None:
        assert await backend.working_dir() == at
        ending = asyncio.ensure_future(backend.run(f"sleep {marker}", is_text=True, timeout=2))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        shutil.rmtree(at)
        with pytest.raises(PathNotFound, match="workspace-gone"):
            await ending  # by its deadline; that its directory went is no reason for it to end
        for act in (
            backend.working_dir(), backend.exists(at), backend.exists(f"{at}/x"), backend.realpath(at), backend.list_dir(at),
            backend.read_bytes(f"{at}/x"), backend.remove(f"{at}/x"), backend.write_bytes(f"{at}/x", b""),
            backend.run(["true"]), backend.run("true", is_text=True),
        ):  # fmt: skip
            with pytest.raises(PathNotFound, match="workspace-gone"):
                await act

    told(shell_policy(workspace), body, door=door, unlocked=True)


@CONFINED
@pytest.mark.parametrize("door", DOORS_BELOW_THE_FACADE)
def test_a_broker_that_is_closed_ends_what_runs_and_says_that_it_is_gone(door: str, workspace: Path) -> None:
    marker = unique_sleep()

    async def act() -> None:
        async with DOORS[door](shell_policy(workspace)) as broker:
            backend = PydanticAiOperations(AgentWorkspace(broker))
            ending = asyncio.ensure_future(backend.run(["sleep", marker]))
            assert await asyncio.to_thread(until, lambda: is_running(marker))
            await broker.close()
            with pytest.raises(BrokerGone):
                await ending
            assert not is_running(marker)
            for gone in (backend.working_dir(), backend.exists(str(workspace)), backend.run(["true"])):
                with pytest.raises(BrokerGone):
                    await gone

    asyncio.run(act())


def test_a_file_that_nobody_may_write_to_stays_as_it_is(workspace: Path) -> None:
    for name, mode in {"read-only": 0o444, "closed": 0o000, "mine": 0o200}.items():
        (workspace / name).write_text("old")
        (workspace / name).chmod(mode)
    (workspace / "link").symlink_to("read-only")

    async def body(backend: PydanticAiOperations) -> None:
        for name in ("read-only", "closed", "link"):
            with pytest.raises(PathPermission, match="not writable"):
                await backend.write_bytes(f"{workspace}/{name}", b"new")
        await backend.write_bytes(f"{workspace}/mine", b"new")

    told(shell_policy(workspace), body, unlocked=True)
    for name, content in {"read-only": "old", "closed": "old", "mine": "new"}.items():
        (workspace / name).chmod(0o600)
        assert (workspace / name).read_text() == content


def test_what_is_no_regular_file_is_refused_without_waiting(workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    with pytest.raises(OSError):
        told(shell_policy(workspace), lambda backend: backend.read_bytes(f"{workspace}/fifo"))


def test_paths_lead_through_links_within_the_workspace_and_no_further(workspace: Path, tmp_path: Path) -> None:
    at = str(workspace)
    (tmp_path / "secret").write_text("s")
    (workspace / "target").mkdir()
    (workspace / "target/file").write_text("old")
    for name, leads_to in {
        "link": f"{at}/target", "file": "target/file", "loop": "loop", "out": str(tmp_path), "dangling": "nowhere",
    }.items():  # fmt: skip
        (workspace / name).symlink_to(leads_to)
    awkward = os.fsdecode(b"odd\xff")
    (workspace / awkward).symlink_to(awkward * 2)

    async def body(backend: PydanticAiOperations) -> None:
        assert await backend.read_bytes(f"{at}/link/file") == b"old"
        await backend.write_bytes(f"{at}/file", b"new")
        assert (workspace / "file").is_symlink() and (workspace / "target/file").read_text() == "new"
        assert {each.name: (each.is_dir, each.size) for each in await backend.list_dir(at)} == {
            "target": (True, None), "link": (True, None), "file": (False, 3),
            "loop": (False, None), "out": (False, None), "dangling": (False, None), awkward: (False, None),
        }  # fmt: skip
        assert (await backend.stat(f"{at}/link")).is_dir
        assert not await backend.exists(f"{at}/dangling")
        assert not await backend.exists(f"{at}/loop")
        with pytest.raises(PermissionError):
            await backend.read_bytes(f"{at}/out/secret")
        await backend.remove(f"{at}/link")
        assert not (workspace / "link").is_symlink() and (workspace / "target").is_dir()
        assert (await backend.list_dir(f"{at}/target"))[0].path == f"{at}/target/file"

    told(shell_policy(workspace), body, unlocked=True)


def test_a_workspace_of_the_other_view_is_refused(workspace: Path) -> None:
    async def body(agent_workspace: AgentWorkspace) -> None:
        with pytest.raises(InvalidRequest):
            PydanticAiOperations(agent_workspace)

    within(shell_policy(workspace), body, view="root")
