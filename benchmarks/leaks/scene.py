"""What an executor is given, and who of it is still alive when its call returns."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import attrs

from benchmarks.leaks.executors import Run

__all__ = ["CHILDREN", "LATE_SECONDS", "Seen", "perform"]

CHILDREN = {"same_group": "15.1", "own_session": "15.2", "double_fork": "15.3"}
"""How each child of the scene is made, and how long it sleeps: by that number it is found again."""

LATE_SECONDS = 0.5
"""How long after its timeout a call is late. Who waits for the children finds none at its return, however long they lived."""

SETTLING_SECONDS = 0.1
"""How long after a call's return what it has killed may still be on its way out."""

# The word that is printed does not stand in the text, which an error may repeat.
_TEXT = "echo ke''pt; sleep {same_group} & setsid sleep {own_session} & (setsid sh -c 'sleep {double_fork} &' &) ; sleep 9"


@attrs.frozen
class Seen:
    """One call with a timeout.

    `alive` names those of CHILDREN that ran after it returned, or, where they would have ended by themselves until then, when it
    was late.
    """

    returned_seconds: float
    alive: tuple[str, ...]
    output_kept: bool


def perform(run: Run, timeout_seconds: float) -> Seen:
    """Give `run` a command that starts three children and does not end by itself, once everything has been loaded."""
    run("echo warm", 10)
    seen: list[set[str]] = []
    late = threading.Timer(timeout_seconds + LATE_SECONDS, lambda: seen.append(_sleepers()))
    late.start()
    began = time.monotonic()
    output = run(_TEXT.format(**CHILDREN), timeout_seconds)
    returned = time.monotonic() - began
    late.cancel()
    time.sleep(SETTLING_SECONDS)
    asleep = seen[0] if returned + SETTLING_SECONDS >= min(map(float, CHILDREN.values())) else _sleepers()
    return Seen(returned, tuple(name for name, number in CHILDREN.items() if number in asleep), "kept" in output)


def _sleepers() -> set[str]:
    """The numbers that running `sleep` processes of this PID namespace were given. One that has ended has no command line."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            program, *arguments = path.read_text().rstrip("\0").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if program == "sleep":
            found |= set(arguments)
    return found
