"""How trees end under confinement: also where the filter of plain mode is on the launcher that has to end them."""

from __future__ import annotations

from pathlib import Path

from fable_exec.protocol import Output
from tests.confinement.places import confined, in_modes

ORPHANED_LATE = """
import os, signal
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()
held = bytearray(b"x") * (512 << 20)
print("ready", flush=True)
while True:
    signal.pause()
"""
"""The leader takes long to die, for all the memory it has to give back; its child is the launcher's only after that."""


@in_modes()
def test_a_child_that_is_orphaned_late_ends_with_the_rest(mode: str, workspace: Path) -> None:
    with confined(workspace, mode) as broker:
        for _ in range(3):
            with broker.start_command(("python3", "-c", ORPHANED_LATE)) as started:
                for event in started.events():
                    if isinstance(event, Output):
                        started.cancel()
                result = started.wait()
            assert result is not None
            end = next(each for each in result.confinement if each.protection == "whole_tree_end")
            assert (result.outcome.value, end.state) == ("cancelled", "active"), end.reason
