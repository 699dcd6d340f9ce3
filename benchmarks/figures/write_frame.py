"""A write_file request through the pipe of a spawned broker: parsed, checked, written durably, answered."""

from __future__ import annotations

import json
import sys

from benchmarks import raw
from benchmarks.figure import MILLISECONDS, Figure, times
from benchmarks.lines import OUR_SERVER, echo_child, result_of, served_broker, writing_child
from benchmarks.measuring import interleaved, timed
from benchmarks.peers import ENGINE, ENGINE_SERVER
from benchmarks.setting import CODE, Setting

KIB = 1024
SIZES = ((64 * KIB, 200), (900 * KIB, 60))


def measure(setting: Setting) -> list[Figure]:
    return [figure for size_bytes, rounds in SIZES for figure in _measure(setting, size_bytes, setting.rounds(rounds))]


def frame_of(size_bytes: int) -> tuple[bytes, bytes]:
    """A write_file line of about `size_bytes`, and its content."""
    content = CODE * (size_bytes // len(json.dumps(CODE)[1:-1]))
    return json.dumps({"action": "write_file", "path": "written", "content": content}).encode() + b"\n", content.encode()


def _measure(setting: Setting, size_bytes: int, rounds: int) -> list[Figure]:
    line, content = frame_of(size_bytes)
    path = str(setting.workspace() / "written")
    server = setting.enter(served_broker(sys.executable, OUR_SERVER, setting.workspace()))
    echo, writer = setting.enter(echo_child()), setting.enter(writing_child(path))

    def echo_then_write() -> None:
        echo.ask(line)
        raw.durable_write(path, content)

    contestants = [
        timed("ours", lambda: server.ask(line)),
        timed("echo and write", echo_then_write),
        timed("writing child", lambda: writer.ask(line)),
    ]
    result_of(server.ask(line))
    if setting.peers.has(ENGINE):
        engine = setting.enter(served_broker(setting.peers.python, ENGINE_SERVER, setting.workspace()))
        result_of(engine.ask(line))
        contestants.append(timed(ENGINE, lambda: engine.ask(line)))
    found = interleaved(contestants, rounds)
    size = f"{size_bytes // KIB} KiB"
    return [
        Figure(
            key=f"write_frame.{size_bytes // KIB}k",
            title=f"write_file frame of {size}, spawned broker",
            unit=MILLISECONDS,
            ours=found["ours"],
            reference=found["echo and write"],
            reference_name="JSON echo of the frame + raw durable write",
            target=times(2.0),
            peer=found.get(ENGINE),
            others={"a child that parses the frame, writes durably, and answers shortly": found["writing child"]},
            note="The content is code: every line has quotes and a newline that JSON escapes.",
        )
    ]
