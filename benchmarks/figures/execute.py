"""One `true` after the other: through the broker, beside subprocess.run, posix_spawn and what else runs commands in Python."""

from __future__ import annotations

import asyncio

from benchmarks import raw
from benchmarks.figure import MILLISECONDS, Figure, times
from benchmarks.measuring import Contestant, interleaved, timed
from benchmarks.peers import ENGINE
from benchmarks.setting import Setting
from fable_exec import AsyncExecutionBroker, ConfinementUnavailable, LaunchFailed

MODES = ("slots", "namespace", "plain")


def measure(setting: Setting) -> list[Figure]:
    return [*_side_by_side(setting), *_modes(setting)]


def _side_by_side(setting: Setting) -> list[Figure]:
    broker, client = setting.broker(), setting.client()
    loop = setting.enter(asyncio.Runner())
    on_loop = AsyncExecutionBroker(setting.policy())
    contestants = [
        timed("ours", lambda: broker.execute_command(["true"])),
        timed("spawned", lambda: client.execute_command(["true"])),
        timed("asyncio", lambda: loop.run(on_loop.execute_command(["true"]))),
        timed("subprocess.run", raw.run_captured),
        timed("asyncio subprocess", lambda: loop.run(raw.run_on_loop())),
        timed("os.posix_spawn", raw.posix_spawn),
    ]
    spawn = setting.enter(raw.compiled_spawners(1))
    if spawn is not None:
        contestants.append(Contestant("posix_spawn in C", lambda: spawn(1)))
    contestants += setting.peer(ENGINE, "engine_execute", workspace=str(setting.workspace()), command=["true"])
    contestants += setting.peer("plumbum", "plumbum_run")
    try:
        found = interleaved(contestants, setting.rounds(300))
    finally:
        loop.run(on_loop.close())
    shown = ("asyncio subprocess", "os.posix_spawn", "posix_spawn in C", "plumbum")
    return [
        Figure(
            key="execute.true",
            title="execute `true`, in process",
            unit=MILLISECONDS,
            ours=found["ours"],
            reference=found["subprocess.run"],
            reference_name="subprocess.run(capture_output=True)",
            target=times(1.7, stretch=1.4),
            peer=found.get(ENGINE),
            others={name: found[name] for name in shown if name in found},
        ),
        Figure(
            key="execute.true.spawned",
            title="execute `true`, spawned broker",
            unit=MILLISECONDS,
            ours=found["spawned"],
            reference=found["subprocess.run"],
            reference_name="subprocess.run(capture_output=True)",
        ),
        Figure(
            key="execute.true.asyncio",
            title="execute `true`, asyncio",
            unit=MILLISECONDS,
            ours=found["asyncio"],
            reference=found["asyncio subprocess"],
            reference_name="asyncio.create_subprocess_exec + communicate",
        ),
    ]


def _modes(setting: Setting) -> list[Figure]:
    """Each way to launch that this host has; `auto` takes the first."""
    contestants = [timed("subprocess.run", raw.run_captured)]
    for mode in MODES:
        broker = setting.broker(launch=mode)
        try:
            broker.execute_command(["true"])
        except (ConfinementUnavailable, LaunchFailed):
            continue
        contestants.append(timed(mode, lambda broker=broker: broker.execute_command(["true"])))  # type: ignore[misc]
    found = interleaved(contestants, setting.rounds(200))
    return [
        Figure(
            key=f"execute.true.{mode}",
            title=f"execute `true`, launch = {mode}",
            unit=MILLISECONDS,
            ours=found[mode],
            reference=found["subprocess.run"],
            reference_name="subprocess.run(capture_output=True)",
        )
        for mode in MODES
        if mode in found
    ]
