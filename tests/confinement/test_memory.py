"""What starts and ends a command keeps its memory to itself, also where the command can see it."""

from __future__ import annotations

from pathlib import Path

from tests.confinement.places import confined, in_modes

_OPENED = """
import os
for process in os.listdir("/proc"):
    if not process.isdigit() or process == os.readlink("/proc/self"):
        continue
    for name in ("mem", "maps", "environ", "fd/0"):
        try:
            command = open(f"/proc/{process}/cmdline").read()[:80]  # the kernel's own threads have none, and no memory
            if command:
                open(f"/proc/{process}/{name}", "rb", 0).close()
                print(process, command, name)
        except OSError:
            pass
print("looked at", sum(map(str.isdigit, os.listdir("/proc"))))
"""


@in_modes()
def test_a_command_reads_no_memory_but_its_own(workspace: Path, mode: str) -> None:
    with confined(workspace, mode, unlocked=True) as broker:
        broker.execute_command(["true"])  # a worker that has run something is no more open than a new one
        found = broker.execute_command(["python3", "-c", _OPENED]).stdout.splitlines()
    assert [line.split()[0] for line in found] == ["looked"], found
    assert int(found[-1].split()[-1]) >= 1
