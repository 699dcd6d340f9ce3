"""Start and wait in an event loop, which watches descriptors; only what may take long before a request goes out is a thread's.

Whoever cancels one of these stops waiting, no execution, and leaves nothing in the loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fable_exec.errors import BrokerGone, LaunchFailed
from fable_exec.supervisor.waiting import KeeperWatch, pauses

if TYPE_CHECKING:
    from fable_exec.executions.spec import ExecutionSpec
    from fable_exec.supervisor.execution import Execution
    from fable_exec.supervisor.starting import Starts
    from fable_exec.supervisor.zygote import Waiting

__all__ = ["ended_within", "started"]

_LONGEST_SECONDS = 10.0**9
"""asyncio cannot wait until infinity."""


async def ended_within(watch: KeeperWatch, seconds: float) -> bool:
    """As `KeeperWatch.wait`."""
    try:
        async with asyncio.timeout(min(seconds, _LONGEST_SECONDS)):
            if watch.descriptor is not None:
                await _readable(watch.descriptor)
            for pause in pauses():
                if watch.wait(0):
                    break
                await asyncio.sleep(pause)
    except TimeoutError:
        return False
    return True


async def started(starts: Starts, spec: ExecutionSpec, execution_id: str) -> Execution:
    """As `Starts.start`."""
    found = starts.existing(spec, execution_id)
    if found is None:
        await asyncio.to_thread(starts.admit, spec)
        found = await _begun(starts, spec, execution_id)
    return found


async def _begun(starts: Starts, spec: ExecutionSpec, execution_id: str, *, is_last: bool = False) -> Execution:
    try:
        waiting = await _ask_in_thread(starts, spec, execution_id)
        with waiting.channel:
            await _answer_to(waiting)
            return starts.kept(waiting.answer(), execution_id)
    except (BrokerGone, LaunchFailed) as error:
        found = starts.after(error, spec, execution_id, is_last)
    return found or await _begun(starts, spec, execution_id, is_last=True)


async def _ask_in_thread(starts: Starts, spec: ExecutionSpec, execution_id: str) -> Waiting:
    asking = asyncio.ensure_future(asyncio.to_thread(starts.ask, spec, execution_id))
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        await asyncio.wait({asking})  # it cannot be stopped; what it opened must not be left behind
        if asking.exception() is None:
            asking.result().channel.close()
        raise


async def _answer_to(waiting: Waiting) -> None:
    try:
        async with asyncio.timeout(waiting.patience_seconds):
            await _readable(waiting.channel.fileno())
    except TimeoutError:
        raise waiting.too_late() from None


async def _readable(descriptor: int) -> None:
    """Wait until `descriptor` can be read. Whoever cancels this leaves nothing in the loop."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def come() -> None:
        if not came.done():
            came.set_result(None)

    loop.add_reader(descriptor, come)
    try:
        await came
    finally:
        loop.remove_reader(descriptor)
