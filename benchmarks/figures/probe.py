"""The round trip of the smallest request to a spawned broker, beside a child that only parses and echoes JSON."""

from __future__ import annotations

import sys

from benchmarks.figure import MICROSECONDS, Figure, times
from benchmarks.lines import OUR_SERVER, echo_child, served_broker
from benchmarks.measuring import interleaved, timed
from benchmarks.peers import ENGINE, ENGINE_SERVER
from benchmarks.setting import Setting

PROBE = b'{"action": "probe"}\n'


def measure(setting: Setting) -> list[Figure]:
    echo = setting.enter(echo_child())
    server = setting.enter(served_broker(sys.executable, OUR_SERVER, setting.workspace()))
    client = setting.client()
    answer = server.ask(PROBE)
    contestants = [
        timed("ours", lambda: server.ask(PROBE)),
        timed("client", client.probe),
        timed("echo", lambda: echo.ask(PROBE)),
        timed("echo of the answer", lambda: echo.ask(answer)),
    ]
    if setting.peers.has(ENGINE):
        engine = setting.enter(served_broker(setting.peers.python, ENGINE_SERVER, setting.workspace()))
        contestants.append(timed(ENGINE, lambda: engine.ask(PROBE)))
    found = interleaved(contestants, setting.rounds(2000), warm_up=20)
    return [
        Figure(
            key="probe",
            title="probe round trip, spawned broker",
            unit=MICROSECONDS,
            ours=found["ours"],
            reference=found["echo"],
            reference_name="JSON echo child in Python",
            target=times(2.5),
            peer=found.get(ENGINE),
            others={"the echo child, given a line as long as the answer": found["echo of the answer"]},
        ),
        Figure(
            key="probe.client",
            title="probe by BrokerClient, typed result",
            unit=MICROSECONDS,
            ours=found["client"],
            reference=found["echo"],
            reference_name="JSON echo child in Python",
        ),
    ]
