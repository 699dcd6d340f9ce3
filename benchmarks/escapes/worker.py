"""Attack one system, as one user, and print what came of each attempt as JSON.

Everything that is asked of the host happens in this process: baits, listeners, the judging of effects.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.escapes.attempt import Attempt
from benchmarks.escapes.groups import all_attempts
from benchmarks.escapes.scene import Host, Scene
from benchmarks.escapes.systems import PYTHON, Skipped, opened
from benchmarks.escapes.world import is_inside

__all__ = ["attack", "main"]

_BATCH = 60


class Assault:
    """One system under all attempts."""

    def __init__(self, system: Any, name: str, host: Host, attempts: Iterable[Attempt]) -> None:
        self.system, self.name, self.host = system, name, host
        self.results: dict[str, dict[str, Any]] = {}
        self.scenes: dict[str, Scene] = {}
        self._count = 0
        host.traits.update(system.traits)
        for attempt in attempts:
            reason = self._not_here(attempt)
            if reason:
                self.results[attempt.name] = {"skipped": reason}
            else:
                self.scenes[attempt.name] = Scene(host, len(self.scenes))
        self.attempts = [each for each in attempts if each.name in self.scenes]

    def _not_here(self, attempt: Attempt) -> str:
        return attempt.no_control if self.name == "control" else ""

    def run(self) -> None:
        """Everything: unlocked together, unlocked alone, second commands, locked."""
        together = [each for each in self.attempts if not each.alone and not each.locked]
        for start in range(0, len(together), _BATCH):
            self._batch(together[start : start + _BATCH])
        for attempt in self.attempts:
            if attempt.alone:
                self._batch([attempt])
        locked = [each for each in self.attempts if each.locked]
        for start in range(0, len(locked), _BATCH):
            self._batch(locked[start : start + _BATCH])

    def _batch(self, attempts: list[Attempt]) -> None:
        self._started = time.monotonic()
        ready = [each for each in attempts if self._prepared(each)]
        outputs = self._perform(ready, {each.name: each.code for each in ready})
        for attempt in ready:
            if len(ready) > 1 and attempt.name not in outputs:  # one of them ended the driver; which, shows when each has its own
                outputs |= self._perform([attempt], {attempt.name: attempt.code})
        second = [each for each in ready if each.then]
        for attempt in second:
            if attempt.between:
                attempt.between(self.scenes[attempt.name])
        if second:
            outputs |= self._perform(second, {each.name: each.then for each in second})
        if any(each.alone for each in ready) and ready[0].group in ("the launcher itself",):
            self._check_health()
        for attempt in ready:
            self._judge(attempt, outputs.get(attempt.name))
        if self.host.broken:
            self.system.reopen()
        self.host.broken = ""

    def _prepared(self, attempt: Attempt) -> bool:
        scene = self.scenes[attempt.name]
        try:
            if attempt.prepare:
                attempt.prepare(scene)
        except Exception as error:
            self.results[attempt.name] = {"skipped": f"bait: {error}"[:200]}
            return False
        return True

    def _perform(self, attempts: list[Attempt], codes: dict[str, str]) -> dict[str, str]:
        if not attempts:
            return {}
        self._count += 1
        batch = self.host.private / f"batch{self._count}.json"
        batch.write_text(
            json.dumps(
                [
                    {
                        "name": each.name,
                        "code": codes[each.name],
                        "facts": self.scenes[each.name].facts(),
                        "seconds": each.seconds,
                    }
                    for each in attempts
                ]
            )
        )
        helpers = [
            threading.Thread(target=each.during, args=(self.scenes[each.name],), daemon=True) for each in attempts if each.during
        ]
        for helper in helpers:
            helper.start()
        seconds = sum(each.seconds for each in attempts) + 10
        try:
            output = self.system.run(
                [PYTHON, str(self.host.private / "driver.py"), str(batch)], locked=attempts[0].locked, seconds=min(seconds, 110)
            )
        except Exception as error:
            output = ""
            self.host.broken = f"the command could not be run: {type(error).__name__}: {error}"[:300]
        for helper in helpers:
            helper.join(10)
        return self._decoded(output)

    def _decoded(self, output: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in output.splitlines():
            with suppress(ValueError, AttributeError):
                found |= {name: base64.b64decode(text).decode(errors="replace") for name, text in json.loads(line).items()}
        return found

    def _check_health(self) -> None:
        """Whether the next command runs; a launcher that is gone must have been replaced by then."""
        try:
            output = self.system.run([PYTHON, "-c", "print('healthy')"], locked=False, seconds=20)
            self.host.broken = "" if "healthy" in output else "the next command printed nothing"
        except Exception as error:
            self.host.broken = f"the next command could not be run: {type(error).__name__}: {error}"[:300]

    def _judge(self, attempt: Attempt, output: str | None) -> None:
        scene = self.scenes[attempt.name]
        try:
            escaped = bool(attempt.effect(scene, output or ""))
        except Exception as error:
            self.results[attempt.name] = {"escaped": False, "output": f"judging: {type(error).__name__}: {error}"[:300]}
            return
        text = (output if output is not None else "(no answer)").strip()[-400:]
        took = round(time.monotonic() - self._started, 2)
        self.results[attempt.name] = {
            "took": took,
            "escaped": escaped,
            "output": text,
            "broken": self.host.broken,
            "ran": output is not None,
        }


def attack(name: str, attempts: list[Attempt]) -> dict[str, Any]:
    """Results by attempt; "skipped" with the reason when the system cannot run here."""
    root = Path("/var/tmp/run")  # it goes away with the world: nothing here removes anything
    root.mkdir(mode=0o755)
    host = Host(root)
    os.environ["HOME"] = str(host.home)
    host.copy_repository(host.workspace)
    _leave_open(host)
    started = time.monotonic()
    try:
        with opened(name, host) as system:
            assault = Assault(system, name, host, attempts)
            assault.run()
            seconds = round(time.monotonic() - started, 1)
            return {"system": name, "seconds": seconds, "compiler": host.compiled, "results": assault.results}
    except Skipped as reason:
        return {"system": name, "skipped": str(reason)}
    finally:
        host.close()


def _leave_open(host: Host) -> None:
    """What an embedding process may leave inheritable: files, a directory (also as standard input), a connection."""
    os.dup2(os.open(host.root, os.O_RDONLY | os.O_DIRECTORY), 0)
    (host.root / "inherited").write_text("")
    (host.root / "inherited-secret").write_text(f"inherited-{os.urandom(8).hex()}")
    connection = socket.create_connection(host.listeners["tcp"].socket.getsockname())
    opened_here = (
        os.open(host.root, os.O_RDONLY | os.O_DIRECTORY),
        os.open(host.root / "inherited", os.O_RDWR | os.O_APPEND),
        os.open(host.root / "inherited-secret", os.O_RDONLY),
        connection.detach(),
    )
    for descriptor in opened_here:
        os.set_inheritable(descriptor, True)


def main() -> int:
    """Print one line of JSON."""
    if not is_inside():
        sys.exit("attempts are made in a world of their own only: python -m benchmarks.escapes")
    parser = argparse.ArgumentParser()
    parser.add_argument("system")
    parser.add_argument("--only", default="", help="a part of a name or group")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    attempts = [each for each in all_attempts() if options.only in each.name]
    print("\n" + json.dumps(attack(options.system, attempts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
