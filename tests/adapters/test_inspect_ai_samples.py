"""The directories of samples, without inspect-ai: one for each, found again where it was left, and gone with its sample."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from fable_exec.adapters.inspect_ai_directories import PREFIX, SampleDirectory
from fable_exec.adapters.inspect_ai_operations import InspectOperations
from tests.adapters.inspect_samples import CONFINED, began, within
from tests.cli.typed import is_running


@CONFINED
def test_a_sample_is_removed_with_what_its_commands_took_their_rights_to_away(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o500)

    async def body(sample: InspectOperations) -> str:
        await sample.execute(["sh", "-c", f"mkdir -p a/b; touch a/b/c; ln -s {kept} a/link; ln -s {kept} link; chmod 0 a/b a"])
        return sample.workspace.root

    assert not Path(within(body)).exists()
    assert kept.stat().st_mode & 0o777 == 0o500


def test_a_directory_that_is_in_use_is_told_from_one_that_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    used = SampleDirectory.make()
    left = tmp_path / f"{PREFIX}left"
    (left / "below").mkdir(parents=True)
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path)
    (tmp_path / f"{PREFIX}file").touch()
    (tmp_path / "another").mkdir()
    assert [found.path for found in SampleDirectory.left("no-such")] == []
    (found,) = SampleDirectory.left(left.name)
    assert (found.path, found.name) == (str(left), left.name)
    assert list(SampleDirectory.left()) == []  # whoever looks has it
    found.remove()
    assert not left.exists()
    used.remove()
    assert sorted(os.listdir(tmp_path)) == ["another", f"{PREFIX}file", f"{PREFIX}link"]


def test_descriptors_of_samples_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        made = SampleDirectory.make()
        assert list(SampleDirectory.left()) == []
        made.remove()
    assert len(os.listdir("/proc/self/fd")) == before


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
def test_what_still_runs_when_its_sample_is_closed_is_ended_and_says_so() -> None:
    marker = f"7{time.time_ns() % 10**9}"

    async def body(sample: InspectOperations) -> None:
        running = await began(sample, marker)
        await sample.close()
        assert not is_running(marker)
        assert ((await running).reason, (await running).status) == ("broker_lost", 125)

    within(body)
