"""One attempt as data: a small program, the bait it goes for, and how its effect is seen from outside."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from benchmarks.escapes.scene import Scene

__all__ = ["Attempt", "Effect", "Registry", "printed", "won"]

Effect = Callable[["Scene", str], bool]
Setup = Callable[["Scene"], None]


def won(scene: Scene, output: str) -> bool:
    """The program says that the kernel gave it what it asked for; used where nothing else could show it."""
    return f"WON:{scene.token}" in output


def printed(scene: Scene, output: str) -> bool:
    """The secret came out, plain or encoded."""
    secret = scene.secret
    return any(form in output for form in (secret, secret.encode().hex(), base64.b64encode(secret.encode()).decode()))


@attrs.frozen(kw_only=True)
class Attempt:
    """See the module.

    Args:
        code: Python for the driver (`S` holds the scene's facts; see driver.py for the verbs).
        prepare: lays the bait, in the host, after the first command has run.
        during: runs in the host while the program runs; they meet through files in the attempt's directory.
        effect: judged in the host after the command has ended.
        between, then: a second program, in a later command, and what the host does before it.
        alone: needs a command of its own.
        locked: runs with the workspace read-only.
        no_control: why it is not run unconfined. It is tried all the same, and told apart in the report.
        weaker: documented as possible without namespaces.
    """

    name: str
    group: str
    code: str
    effect: Effect
    prepare: Setup | None = None
    during: Setup | None = None
    between: Setup | None = None
    then: str = ""
    alone: bool = False
    locked: bool = False
    no_control: str = ""
    weaker: bool = False
    seconds: float = 6.0


class Registry:
    """Attempts in the order in which they were added; names are unique."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}

    def add(self, group: str, name: str, code: str, effect: Effect = won, **more: object) -> None:
        """Put down one attempt."""
        full = f"{group}: {name}"
        if full in self.attempts:
            raise ValueError(f"two attempts are called {full!r}")
        self.attempts[full] = Attempt(name=full, group=group, code=code, effect=effect, **more)  # type: ignore[arg-type]  # fields of an attempt, passed on as given
