"""What files that run later cost a command: 300 pinned ones, or as many that commands made, beside a workspace with none."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.figure import MILLISECONDS, Figure, at_most
from benchmarks.measuring import interleaved, timed
from benchmarks.setting import Setting
from fable_exec import Confinement, ConfinementUnavailable, ExecutionBroker

FULL_FILES = 300
NONE, PINNED, OF_COMMANDS = "none", "pinned", "made by commands"
_MAKE = (
    'for each in $(seq "$1"); do mkdir -p r$((each / 10))/$each/objects r$((each / 10))/$each/refs; '
    "echo 'ref: refs/heads/main' > r$((each / 10))/$each/HEAD; echo '[core]' > r$((each / 10))/$each/config; done"
)


def measure(setting: Setting) -> list[Figure]:
    files = setting.size(FULL_FILES)
    try:
        brokers = {
            NONE: setting.broker(confinement=Confinement.strict()),
            PINNED: _with_pins(setting, files),
            OF_COMMANDS: _with_repositories(setting, files),
        }
    except ConfinementUnavailable as error:
        print(f"  pins: skipped: {error}")
        return []
    contestants = [timed(name, partial(broker.execute_command, ["true"])) for name, broker in brokers.items()]
    found = interleaved(contestants, setting.rounds(400), warm_up=5)
    return [
        Figure(
            key=f"pins.{name.replace(' ', '_')}",
            title=f"what {files} later files, {name}, add to a command",
            unit=MILLISECONDS,
            ours=found[name].minus(found[NONE]),
            target=at_most(0.0003) if name == PINNED else None,
            others={"the command": found[name], "the command without any": found[NONE]},
        )
        for name in (PINNED, OF_COMMANDS)
    ]


def _with_pins(setting: Setting, files: int) -> ExecutionBroker:
    workspace = setting.workspace()
    for number in range(files):
        _write(workspace / f"packages/group-{number // 10}/{number}/.envrc")
    return setting.broker(confinement=Confinement.strict(), workspace=workspace)


def _with_repositories(setting: Setting, files: int) -> ExecutionBroker:
    broker = setting.broker(confinement=Confinement.strict(), allowed_executables=("true", "sh"))
    made = broker.execute_command(["sh", "-c", _MAKE, "sh", str(files)])
    assert made.success, made.stderr
    return broker


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n")
