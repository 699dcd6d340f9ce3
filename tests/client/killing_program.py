"""Runs in a pid box: kills a host, or the broker that it spawned, at random moments while commands run; prints what was left.

argv: the workspace, what to kill ("host" or "broker"), how the broker is had ("in_process" or "spawned"), how many times, a seed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

HOST = """
import sys, threading
from fable_exec import BrokerClient, BrokerPolicy, EnvironmentPolicy, ExecutionBroker
import hashlib
policy = BrokerPolicy(
    workspace=sys.argv[1], allowed_executables=("bash", "sleep", "true"), write_token_digest=hashlib.sha256(b"t").hexdigest(),
    environment=EnvironmentPolicy(path=("/usr/bin", "/bin")),
)
broker = (BrokerClient if sys.argv[2] == "spawned" else ExecutionBroker)(policy)
broker.unlock_writes("t")
broker.execute_command(["true"])
TREE = "trap '' TERM HUP; setsid sleep 1000 & (setsid bash -c 'sleep 1000 & sleep 1000' &); sleep 1000"
def work():
    while True:
        try:
            broker.execute_command(["bash", "-c", TREE], timeout_seconds=0.4)
            broker.write_file("a", "x")
        except Exception:
            return
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
print(getattr(broker, "pid", 0), flush=True)
for thread in threads:
    thread.join()
print("the broker is gone", flush=True)
"""


def others() -> dict[int, str]:
    """Every process of the box but this one and those above it."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) > os.getpid():
            try:
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    found[int(name)] = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:80]
            except OSError:
                continue
    return found


def left_after(seconds: float) -> dict[int, str]:
    deadline = time.monotonic() + seconds
    while (left := others()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def once(workspace: str, victim: str, door: str, chance: random.Random, seconds: float) -> dict[int, str]:
    host = subprocess.Popen([sys.executable, "-c", HOST, workspace, door], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    broker = int(host.stdout.readline())
    time.sleep(chance.uniform(0, 0.9))
    os.kill(host.pid if victim == "host" else broker, signal.SIGKILL)
    if victim == "broker":
        assert host.stdout.readline() == "the broker is gone\n"
    host.wait()
    host.stdout.close()
    return left_after(seconds)


def main() -> None:
    workspace, victim, door, times, seed, seconds = sys.argv[1:]
    chance = random.Random(seed)
    for number in range(int(times)):
        left = once(workspace, victim, door, chance, float(seconds))
        if left:
            print(f"round {number}: {left}")
            sys.exit(1)
    leftovers = [name for name in os.listdir(os.environ.get("TMPDIR", "/tmp")) if name.startswith("fable-exec-")]
    print(f"{times} times nothing left, {len(leftovers)} private directories")


if __name__ == "__main__":
    main()
