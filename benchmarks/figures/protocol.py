"""Reading a request into its type and writing a result, beside json.loads and json.dumps alone."""

from __future__ import annotations

import json

from benchmarks.figure import MICROSECONDS, Figure
from benchmarks.figures.write_frame import frame_of
from benchmarks.measuring import interleaved, timed
from benchmarks.setting import Setting
from fable_exec import protocol
from fable_exec.frames import encode_frame
from fable_exec.outcome import Applied, Captured, EndedBy, Outcome

KIB = 1024
SHORT, LONG = 200, 1
"""Repeats in one sample: what takes microseconds is not timed alone."""
REQUESTS = (
    ("probe", encode_frame({"id": 1, "action": "probe"}), SHORT),
    ("execute_command", encode_frame({"id": 1, "action": "execute_command", "command": ["python", "-c", "print(1)"]}), SHORT),
    ("write_file of 900 KiB", frame_of(900 * KIB)[0], LONG),
)
OUTPUTS = (
    ("6 bytes of output", b"hello\n", SHORT),
    ("1 MB of text", b"x" * 1_000_000, LONG),
    ("1 MB of zeros", bytes(1_000_000), LONG),
)


def measure(setting: Setting) -> list[Figure]:
    return [*_reading(setting), *_writing(setting)]


def _reading(setting: Setting) -> list[Figure]:
    figures = []
    for name, line, repeats in REQUESTS:
        contestants = [
            timed("ours", lambda line=line: protocol.decode_line(line), repeats),  # type: ignore[misc]  # a lambda with defaults has no type
            timed("json", lambda line=line: json.loads(line), repeats),  # type: ignore[misc]  # as above
        ]
        found = interleaved(contestants, setting.rounds(100))
        figures.append(
            Figure(
                key=f"protocol.read.{name.replace(' ', '_')}",
                title=f"decode_line, {name}",
                unit=MICROSECONDS,
                ours=found["ours"],
                reference=found["json"],
                reference_name="json.loads",
            )
        )
    return figures


def _writing(setting: Setting) -> list[Figure]:
    figures = []
    for name, output, repeats in OUTPUTS:
        result = result_with(output)
        wire = protocol.encode_result(result)
        contestants = [
            timed("ours", lambda result=result: encode_frame(protocol.encode_result(result)), repeats),  # type: ignore[misc]  # a lambda with defaults has no type
            timed("json", lambda wire=wire: json.dumps(wire), repeats),  # type: ignore[misc]  # as above
        ]
        found = interleaved(contestants, setting.rounds(50))
        figures.append(
            Figure(
                key=f"protocol.write.{name.replace(' ', '_')}",
                title=f"a command's result to a line, {name}",
                unit=MICROSECONDS,
                ours=found["ours"],
                reference=found["json"],
                reference_name="json.dumps of the finished answer",
            )
        )
    return figures


def result_with(output: bytes) -> protocol.CommandResult:
    """A result as a command that printed `output` gives it."""
    applied = tuple(Applied(f"protection-{number}", "strict", "active", "landlock") for number in range(10))
    outcome = Outcome(ended_by=EndedBy.EXITED, exit_code=0, stdout=Captured(head=output), applied=applied)
    return protocol.CommandResult.of(outcome, command=("/usr/bin/python3",), cwd=".", policy_digest="0" * 64)
