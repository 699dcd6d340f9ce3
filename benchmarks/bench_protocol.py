"""What reading a request and writing an answer cost, beside json.loads and json.dumps alone.

Run it alone: ``python benchmarks/bench_protocol.py``. Every figure is the best of five runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from fable_exec import protocol
from fable_exec.frames import encode_frame
from fable_exec.outcome import Applied, Captured, EndedBy, Outcome

CODE = 'def f(x):\n    return [x["a"], {"b": 1}]\n'
REQUESTS = {
    "probe": {"id": 1, "action": "probe"},
    "execute_command": {"id": 1, "action": "execute_command", "command": ["python", "-c", "print(1)"], "timeout_seconds": 5},
    "write_file, 900 KiB of text": {"action": "write_file", "path": "a", "content": "x" * 900 * 1024},
    "write_file, 900 KiB of code": {"action": "write_file", "path": "a", "content": CODE * (900 * 1024 // len(CODE))},
}
OUTPUTS = {"6 bytes": b"hello\n", "1 MB of text": b"x" * 1_000_000, "1 MB of zeros": bytes(1_000_000)}


def microseconds(action: Callable[[], object], seconds: float = 0.2) -> float:
    """The best mean of five runs of about `seconds` each."""
    started = time.perf_counter()
    action()
    rounds = max(1, int(seconds / 5 / max(time.perf_counter() - started, 1e-7)))
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(rounds):
            action()
        best = min(best, (time.perf_counter() - started) / rounds)
    return best * 1e6


def result_with(output: bytes) -> protocol.CommandResult:
    """A result as a command that printed `output` gives it."""
    applied = tuple(Applied(f"protection-{number}", "strict", "active", "landlock") for number in range(10))
    outcome = Outcome(ended_by=EndedBy.EXITED, exit_code=0, stdout=Captured(head=output), applied=applied)
    return protocol.CommandResult.of(outcome, command=("/usr/bin/python3",), cwd=".", policy_digest="0" * 64)


def main() -> None:
    """Measure and print."""
    print(f"{'reading a request':<32} {'decode_line us':>15} {'json.loads us':>14}")
    for name, members in REQUESTS.items():
        line = encode_frame(members)
        ours = microseconds(lambda line=line: protocol.decode_line(line))  # type: ignore[misc]
        print(f"{name:<32} {ours:>15.1f} {microseconds(lambda line=line: json.loads(line)):>14.1f}")  # type: ignore[misc]
    print(f"\n{'writing a result with':<32} {'encode_result us':>15} {'to a line us':>14}")
    for name, output in OUTPUTS.items():
        result = result_with(output)
        wire = protocol.encode_result(result)
        ours = microseconds(lambda result=result: protocol.encode_result(result))  # type: ignore[misc]
        print(f"{name:<32} {ours:>15.1f} {microseconds(lambda wire=wire: encode_frame(wire)):>14.1f}")  # type: ignore[misc]


if __name__ == "__main__":
    main()
