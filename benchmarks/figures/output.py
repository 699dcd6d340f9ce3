"""A command that prints 100 MB: what it costs to have it pass the cap, or be kept, beside reading and discarding it."""

from __future__ import annotations

import os
import shutil
import subprocess

from benchmarks.figure import MILLISECONDS, Figure, times
from benchmarks.measuring import interleaved, timed
from benchmarks.peers import ENGINE
from benchmarks.setting import Setting

FULL_BYTES = 100_000_000
CAP_BYTES = 1_000_000
HEAD = shutil.which("head") or "/usr/bin/head"


def measure(setting: Setting) -> list[Figure]:
    size_bytes = setting.size(FULL_BYTES, least=3 * CAP_BYTES)
    command = ["head", "-c", str(size_bytes), "/dev/zero"]
    capped = setting.broker(max_output_bytes=CAP_BYTES)
    roomy = setting.broker(max_output_bytes=2 * size_bytes)
    piped = [HEAD, *command[1:]]
    contestants = [
        timed("truncate", lambda: capped.execute_command(command, on_output_limit="truncate")),
        timed("kill", lambda: capped.execute_command(command, on_output_limit="kill")),
        timed("keep", lambda: roomy.execute_command(command)),
        timed("discard", lambda: read_and_discard(piped)),
        timed("read and keep", lambda: subprocess.run(piped, capture_output=True, check=True)),
    ]
    engine = {"workspace": str(setting.workspace()), "command": command}
    contestants += [
        type(each)(f"{ENGINE} {name}", each.act)
        for name, cap in (("kill", CAP_BYTES), ("keep", 2 * size_bytes))
        for each in setting.peer(ENGINE, "engine_execute", **engine, max_output_bytes=cap)
    ]
    found = interleaved(contestants, setting.rounds(15), warm_up=1)
    shown = f"{size_bytes // 1_000_000} MB of output"
    rows = (
        ("truncate", f"{shown}, 1 MB cap, head and tail kept (truncate)", "discard", "read and discard", True),
        ("kill", f"{shown}, 1 MB cap, ended at the cap (kill)", "discard", "read and discard", True),
        ("keep", f"{shown}, all of it kept", "read and keep", "subprocess.run(capture_output=True)", False),
    )
    return [
        Figure(
            key=f"output.{name}",
            title=title,
            unit=MILLISECONDS,
            ours=found[name],
            reference=found[reference],
            reference_name=reference_name,
            target=times(2.0) if bound else None,
            peer=found.get(f"{ENGINE} {name}"),
            note="The command never gets to print the rest, so this is not a comparison of throughput." if name == "kill" else "",
        )
        for name, title, reference, reference_name, bound in rows
    ]


def read_and_discard(argv: list[str]) -> None:
    """64 KiB at a time, the size of a pipe."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        while os.read(descriptor, 1 << 16):
            pass
