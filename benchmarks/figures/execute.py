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
RUN = "subprocess.run(capture_output=True)"
ON_LOOP = "asyncio.create_subprocess_exec + communicate"


def measure(setting: Setting) -> list[Figure]:
    return [_in_process(setting), *_other_doors(setting), *_modes(setting)]


def _in_process(setting: Setting) -> Figure:
    broker = setting.broker()
    contestants = [
        timed("ours", lambda: broker.execute_command(["true"])),
        timed(RUN, raw.run_captured),
        timed("os.posix_spawn", raw.posix_spawn),
    ]
    spawn = setting.enter(raw.compiled_spawners(1))
    if spawn is not None:
        contestants.append(Contestant("posix_spawn in C", lambda: spawn(1)))
    contestants += setting.peer(ENGINE, "engine_execute", workspace=str(setting.workspace()), command=["true"])
    contestants += setting.peer("plumbum", "plumbum_run")
    found = interleaved(contestants, setting.rounds(400))
    return Figure(
        key="execute.true",
        title="execute `true`, in process",
        unit=MILLISECONDS,
        ours=found["ours"],
        reference=found[RUN],
        reference_name=RUN,
        target=times(1.7, stretch=1.4),
        peer=found.get(ENGINE),
        others={name: found[name] for name in ("os.posix_spawn", "posix_spawn in C", "plumbum") if name in found},
    )


def _other_doors(setting: Setting) -> list[Figure]:
    client, loop = setting.client(), setting.enter(asyncio.Runner())
    on_loop = AsyncExecutionBroker(setting.policy())
    contestants = [
        timed("spawned broker", lambda: client.execute_command(["true"])),
        timed("asyncio", lambda: loop.run(on_loop.execute_command(["true"]))),
        timed(RUN, raw.run_captured),
        timed(ON_LOOP, lambda: loop.run(raw.run_on_loop())),
    ]
    try:
        found = interleaved(contestants, setting.rounds(200))
    finally:
        loop.run(on_loop.close())
    return [
        Figure(
            key=f"execute.true.{door.split()[0]}",
            title=f"execute `true`, {door}",
            unit=MILLISECONDS,
            ours=found[door],
            reference=found[reference],
            reference_name=reference,
        )
        for door, reference in (("spawned broker", RUN), ("asyncio", ON_LOOP))
    ]


def _modes(setting: Setting) -> list[Figure]:
    """Each way to launch that this host has; `auto` takes the first."""
    contestants = [timed(RUN, raw.run_captured)]
    for mode in MODES:
        broker = setting.broker(launch=mode)
        try:
            broker.execute_command(["true"])
        except (ConfinementUnavailable, LaunchFailed):
            continue
        contestants.append(timed(mode, lambda broker=broker: broker.execute_command(["true"])))  # type: ignore[misc]  # a lambda with defaults has no type
    found = interleaved(contestants, setting.rounds(200))
    return [
        Figure(
            key=f"execute.true.{mode}",
            title=f"execute `true`, launch = {mode}",
            unit=MILLISECONDS,
            ours=found[mode],
            reference=found[RUN],
            reference_name=RUN,
        )
        for mode in MODES
        if mode in found
    ]
