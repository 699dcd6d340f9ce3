"""What `import fable_exec` and the doors cost over a bare interpreter: best and median of fresh interpreters, in milliseconds."""

from __future__ import annotations

import statistics
import subprocess
import sys

ROUNDS = 20
STATEMENTS = (
    "pass",
    "import fable_exec",
    "from fable_exec import ExecutionBroker, BrokerPolicy",
    "import fable_exec.server",
    "import fable_exec.client",
)


def measure(statement: str) -> list[float]:
    program = f"import time; start = time.perf_counter(); {statement}; print(1000 * (time.perf_counter() - start))"
    return [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]


def main() -> None:
    print(f"{'statement':55} {'best':>7} {'median':>7}")
    for statement in STATEMENTS:
        times = measure(statement)
        print(f"{statement:55} {min(times):7.1f} {statistics.median(times):7.1f}")


if __name__ == "__main__":
    main()
