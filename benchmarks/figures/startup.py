"""From nothing: the import over a bare interpreter, a spawned broker to its first answer, a broker to its first command."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.figure import MILLISECONDS, Figure, at_most
from benchmarks.lines import OUR_SERVER, environment, server_command, started
from benchmarks.measuring import Contestant, interleaved, timed
from benchmarks.peers import ENGINE, ENGINE_SERVER
from benchmarks.setting import Setting
from fable_exec import BrokerClient, ExecutionBroker

IMPORTS = {
    "import fable_exec": "import.package",
    "from fable_exec import ExecutionBroker, BrokerPolicy": "import.broker",
    "from fable_exec import BrokerClient, BrokerPolicy": "import.client",
    "import fable_exec.server": "import.server",
}
ENGINE_IMPORT = f"import {ENGINE_SERVER}"
LAZY = "Names are loaded at their first use, so this is not yet all that a broker needs: see beside it."
ECHO = "import sys, json\nprint(json.dumps(json.loads(sys.stdin.readline())), flush=True)\nsys.stdin.read()"


def measure(setting: Setting) -> list[Figure]:
    return [*_imports(setting), *_first_answers(setting), _first_command(setting)]


def _imports(setting: Setting) -> list[Figure]:
    """Whole fresh processes, so that what Python itself does at start counts for both."""
    there = environment()

    def run(statement: str, python: str = sys.executable) -> None:
        subprocess.run([python, "-c", statement], check=True, env=there, stdin=subprocess.DEVNULL)

    contestants = [timed(statement, lambda statement=statement: run(statement)) for statement in ("pass", *IMPORTS)]  # type: ignore[misc]  # a lambda with defaults has no type
    if setting.peers.has(ENGINE):
        contestants.append(timed("peer's pass", lambda: run("pass", setting.peers.python)))
        contestants.append(timed(ENGINE, lambda: run(ENGINE_IMPORT, setting.peers.python)))
    found = interleaved(contestants, setting.rounds(40), warm_up=1)
    beside = {
        "bare `python -c pass`, the whole process": found["pass"],
        "all that a broker needs, over bare Python": found["from fable_exec import ExecutionBroker, BrokerPolicy"].minus(
            found["pass"]
        ),
    }
    engine = found[ENGINE].minus(found["peer's pass"]) if ENGINE in found else None
    return [
        Figure(
            key=key,
            title=f"`{statement}`, over bare Python",
            unit=MILLISECONDS,
            ours=found[statement].minus(found["pass"]),
            target=at_most(0.080) if key == "import.package" else None,
            peer=engine if key in ("import.package", "import.broker") else None,
            others=beside if key == "import.package" else {},
            note=LAZY if key == "import.package" else "",
        )
        for statement, key in IMPORTS.items()
    ]


def _first_answers(setting: Setting) -> list[Figure]:
    line = b'{"action": "probe"}\n'
    workspace = setting.workspace()
    policy = setting.policy()

    def client() -> None:
        BrokerClient(policy).close()

    contestants = [
        _to_first_answer("ours", server_command(sys.executable, OUR_SERVER, workspace), line),
        _to_first_answer("echo", [sys.executable, "-c", ECHO], line),
        timed("client", client),
    ]
    if setting.peers.has(ENGINE):
        contestants.append(_to_first_answer(ENGINE, server_command(setting.peers.python, ENGINE_SERVER, workspace), line))
    found = interleaved(contestants, setting.rounds(30), warm_up=1)
    return [
        Figure(
            key="spawn.probe",
            title="spawn the broker to its first probe",
            unit=MILLISECONDS,
            ours=found["ours"],
            reference=found["echo"],
            reference_name="spawn the JSON echo child to its first answer",
            target=at_most(0.200),
            peer=found.get(ENGINE),
        ),
        Figure(key="spawn.client", title="BrokerClient, made and closed", unit=MILLISECONDS, ours=found["client"]),
    ]


def _to_first_answer(name: str, argv: list[str], line: bytes) -> Contestant:
    """Clocked from before the spawn to the answer; the end of the child does not count."""

    def act() -> float:
        start = time.perf_counter()
        with started(argv) as child:
            child.ask(line)
            return time.perf_counter() - start

    return Contestant(name, act)


def _first_command(setting: Setting) -> Figure:
    """With it comes the launcher program; the second command finds it running."""
    policy = setting.policy()

    def first() -> None:
        with ExecutionBroker(policy) as broker:
            broker.execute_command(["true"])

    found = interleaved([timed("first", first)], setting.rounds(30), warm_up=1)
    return Figure(
        key="first_command",
        title="a broker, its first `true`, and its end, in process",
        unit=MILLISECONDS,
        ours=found["first"],
    )
