"""Programs that the inspect-ai sandbox keeps for the tools of a sample, without inspect-ai: one of each, until it is closed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from fable_exec.adapters.inspect_ai_operations import InspectOperations
from tests.adapters.inspect_samples import CONFINED, within
from tests.cli.typed import is_running
from tests.waiting import until


@CONFINED
def test_what_a_kept_command_leaves_goes_on_until_the_sample_is_closed() -> None:
    marker = f"7{time.time_ns() % 10**9}"
    starting = ["sh", "-c", f"echo start >> starts; cat starts; echo err >&2; setsid sleep {marker} &"]

    async def body(sample: InspectOperations) -> None:
        kept = await sample.keep(starting)
        assert (kept.status, kept.stdout, kept.stderr) == (0, b"start\n", b"err\n")
        await sample.execute(["sh", "-c", "true"])
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        assert await sample.keep(starting) == kept  # it is there
        await sample._broker.cancel_command(kept.handle)
        while (await sample._broker.read_command(kept.handle, 1)).running:
            pass
        assert not is_running(marker)
        assert (await sample.keep(starting)).stdout == b"start\nstart\n"  # it was not
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        await sample.close()
        assert not is_running(marker)

    within(body)


@CONFINED
def test_a_start_that_fails_leaves_nothing_and_is_tried_again() -> None:
    marker = f"7{time.time_ns() % 10**9}"
    starting = ["sh", "-c", f"[ -e able ] || {{ sleep {marker} & exit 3; }}"]

    async def body(sample: InspectOperations) -> None:
        assert (await sample.keep(starting)).status == 3
        assert await asyncio.to_thread(until, lambda: not is_running(marker))
        await sample.write("able", "")
        assert (await sample.keep(starting)).status == 0

    within(body)


@CONFINED
def test_a_start_goes_on_for_the_sample_when_nobody_waits_for_it_any_more() -> None:
    marker = f"7{time.time_ns() % 10**9}"
    starting = ["sh", "-c", f"sleep {marker} & while [ ! -e go ]; do sleep 0.01; done; echo went"]

    async def body(sample: InspectOperations) -> None:
        waiting = asyncio.ensure_future(sample.keep(starting))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await sample.write("go", "")
        assert (await sample.keep(starting)).stdout == b"went\n"
        never = asyncio.ensure_future(sample.keep(["sh", "-c", f"sleep {marker}"]))
        await asyncio.sleep(0)
        never.cancel()
        await sample.close()
        assert await asyncio.to_thread(until, lambda: not is_running(marker))

    within(body)


@CONFINED
def test_one_program_is_kept_once_however_many_ask_at_a_time(tmp_path: Path) -> None:
    async def body(sample: InspectOperations) -> None:
        starting = ["sh", "-c", "echo started >> starts"]
        await asyncio.gather(*(sample.keep(starting) for _ in range(5)))
        assert await sample.read("starts") == b"started\n"
        assert (await sample.keep(["no-such-program-here"])).status == 127

    within(body)
