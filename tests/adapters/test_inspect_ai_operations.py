"""What the inspect-ai sandbox does, without inspect-ai: a directory for each sample, and its rules for errors."""

from __future__ import annotations

import asyncio
import importlib.util
import time
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import PolicyError
from fable_exec.adapters.inspect_ai_operations import InspectOperations
from tests.cli.typed import PROJECT, is_running
from tests.waiting import until

CONFINED = pytest.mark.requires_ability("confinement")


def within(body: Callable[[InspectOperations], Awaitable[Any]], document: str | None = None) -> Any:
    async def act() -> Any:
        sample = await InspectOperations.open(document)
        try:
            return await body(sample)
        finally:
            await sample.close()

    return asyncio.run(act())


@CONFINED
def test_how_a_command_ended_is_a_result() -> None:
    async def body(sample: InspectOperations) -> None:
        done = await sample.execute(["sh", "-c", "echo grün; echo err >&2; exit 70"])
        assert (done.status, done.stdout.decode(), done.stderr) == (70, "grün\n", b"err\n")
        assert (await sample.execute(["sh", "-c", "kill -15 $$"])).status == 143
        assert (await sample.execute(["no-such-program-here"])).status == 127
        assert (await sample.execute(["python3", "-c", "print(input())"], stdin="schön\n")).stdout.decode() == "schön\n"
        late = await sample.execute(["sh", "-c", "echo before; sleep 60"], timeout=1)
        assert (late.timed_out, late.stdout) == (True, b"before\n")
        with pytest.raises(PermissionError):
            await sample.execute(["/etc/passwd"])
        with pytest.raises(PermissionError, match="somebody"):
            await sample.execute(["sh", "-c", "true"], user="somebody")

    within(body)


@CONFINED
def test_commands_and_files_share_the_directory_of_the_sample() -> None:
    async def body(sample: InspectOperations) -> str:
        root = sample.workspace.root
        await sample.write("deep/✨.file", "great #content\r\n")
        assert await sample.read("deep/✨.file") == b"great #content\r\n"
        assert (await sample.execute(["sh", "-c", "pwd; ls"])).stdout.decode() == f"{root}\ndeep\n"
        assert (await sample.execute(["sh", "-c", "cat *"], cwd="deep")).stdout == b"great #content\r\n"
        assert (await sample.execute(["sh", "-c", "pwd"], cwd=f"{root}/deep")).stdout.decode() == f"{root}/deep\n"
        await sample.write(f"{root}/binary", b"\xc3\x28" * 2_500_000)
        assert await sample.read("binary") == b"\xc3\x28" * 2_500_000
        await sample.execute(["sh", "-c", "chmod a-w binary"])
        with pytest.raises(PermissionError, match="binary"):
            await sample.write("binary", "this won't stick")
        with pytest.raises(FileNotFoundError, match="nonexistent"):
            await sample.read("nonexistent")
        with pytest.raises(IsADirectoryError, match="directory"):
            await sample.read("deep")
        with pytest.raises(IsADirectoryError, match="directory"):
            await sample.write("deep", "x")
        with pytest.raises(PermissionError):
            await sample.read("/etc/hostname")
        return root

    assert not Path(within(body)).exists()


@CONFINED
def test_a_document_bounds_what_a_sample_may(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('allowed_executables = ["sh"]\nmax_output_bytes = 1000\n')

    async def body(sample: InspectOperations) -> None:
        with pytest.raises(PermissionError):
            await sample.execute(["python3", "-c", ""])
        much = await sample.execute(["sh", "-c", "yes | head -c 100000"])
        assert (much.truncated, len(much.stdout)) == (True, 1000)
        await sample.write("large", b"x" * 2000)
        with pytest.raises(OSError, match="2000 bytes"):
            await sample.read("large")

    within(body, str(tmp_path / "policy.toml"))


@pytest.mark.parametrize("line", ['workspace = "/srv"', f'write_token_digest = "{"0" * 64}"', "colour = 1"])
def test_a_document_that_says_what_is_the_samples_own_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(line)
    with pytest.raises(PolicyError):
        within(lambda _: asyncio.sleep(0), str(tmp_path / "policy.toml"))


@CONFINED
def test_samples_run_at_the_same_time_and_apart() -> None:
    async def one(number: int) -> str:
        sample = await InspectOperations.open()
        try:
            await sample.write("number", str(number))
            return (await sample.execute(["sh", "-c", "sleep 0.2; ls; cat number"])).stdout.decode()
        finally:
            await sample.close()

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(3)))

    assert asyncio.run(all_of_them()) == [f"number\n{number}" for number in range(3)]


@CONFINED
def test_a_cancelled_command_is_dead_before_the_cancellation_goes_on() -> None:
    marker = f"7{time.time_ns() % 10**9}"

    async def body(sample: InspectOperations) -> None:
        running = await began(sample, marker)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_running(marker)

    within(body)


@CONFINED
def test_what_still_runs_when_its_sample_is_closed_is_ended_and_says_so() -> None:
    marker = f"7{time.time_ns() % 10**9}"

    async def body(sample: InspectOperations) -> None:
        running = await began(sample, marker)
        await sample.close()
        assert not is_running(marker)
        assert ((await running).reason, (await running).status) == ("broker_lost", 125)

    within(body)


async def began(sample: InspectOperations, marker: str) -> asyncio.Future[Any]:
    running = asyncio.ensure_future(sample.execute(["sh", "-c", f"sleep {marker} & sleep {marker}"]))
    assert await asyncio.to_thread(until, lambda: is_running(marker))
    return running


def test_the_entry_point_names_the_adapter() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["inspect_ai"].values()
    assert importlib.util.find_spec("fable_exec.adapters") is not None
    assert (PROJECT / (module.replace(".", "/") + ".py")).exists()
