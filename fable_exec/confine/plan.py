"""From what is wanted and what the host supports to a plan: pure data that the launcher program performs step by step.

The launcher knows each step by its name and refuses unknown ones.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from typing import Any, Literal

import attrs

from fable_exec.outcome import Applied, Observed

LaunchMode = Literal["auto", "slots", "namespace", "plain"]
"""What a policy may ask for."""
LauncherMode = Literal["slots", "namespace", "plain", "kept"]
"""What a launcher has, see docs/reference/launcher.md; "kept" is one supervised job with namespaces and an init of its own."""
Step = tuple[Any, ...]
ResourceLimit = tuple[str, int, int]
"""Name, soft limit, hard limit."""
WatchedLimit = tuple[str, int]
"""Name, and the most that the whole tree of a command may have."""

_PRIVATE = "{private}"
PRIVATE_ENVIRONMENT = (("HOME", "{private}/home"), ("TMPDIR", "{private}/tmp"), ("TMPPREFIX", "{private}/tmp/zsh"))
"""zsh puts what here-documents hold below TMPPREFIX, /tmp/zsh where nothing is set, and never asks for TMPDIR (zshparam(1))."""
_SLOTS_AHEAD = 2
_INSTRUCTION_BYTES = 8  # struct sock_filter


@attrs.frozen(kw_only=True)
class Plan:
    """How commands of one kind are launched.

    Args:
        mode: where each command is put.
        namespaces: those that the launcher gets, empty in plain mode.
        slot_namespaces: those that each slot gets on top.
        stage: steps of process 1 of the namespaces; slot: of each slot's init; launcher: of the launcher itself.
        command_limits: what each command gets between fork and exec.
        watched_limits: what the launcher's watchdog ends a command for.
        environment: variables that depend on the plan; "{private}" stands for the launcher's private directory.
        observer: what the observer of refusals is told; None where nobody observes.
        applied: what this gives, protection by protection.
        workspace: the directory that commands work in; the steps that need it name it themselves.
    """

    mode: LauncherMode
    namespaces: tuple[str, ...] = ()
    slot_namespaces: tuple[str, ...] = ()
    stage: tuple[Step, ...] = ()
    slot: tuple[Step, ...] = ()
    launcher: tuple[Step, ...] = ()
    command_limits: tuple[ResourceLimit, ...] = ()
    watched_limits: tuple[WatchedLimit, ...] = ()
    environment: tuple[tuple[str, str], ...] = PRIVATE_ENVIRONMENT
    observer: dict[str, Any] | None = None
    applied: tuple[Applied, ...] = ()
    workspace: str = ""

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of what the launcher is to do: launchers are kept by it."""
        return hashlib.sha256(json.dumps(self.to_wire("{private}"), sort_keys=True).encode()).hexdigest()

    @property
    def observed(self) -> Observed:
        """Which refusals of commands are told."""
        if self.observer is None:
            return Observed.OFF
        return Observed.READS if self.observer["reads"] else Observed.CHANGES

    def to_wire(self, private: str) -> dict[str, Any]:
        """The plan as the launcher program reads it; `private` is the absolute path of its private directory."""
        environment = {name: _placed(value, private) for name, value in self.environment}
        return {
            "mode": self.mode,
            "namespaces": self.namespaces,
            "slot_namespaces": self.slot_namespaces,
            "slots_ahead": _SLOTS_AHEAD,
            "command_limits": self.command_limits,
            "watched_limits": self.watched_limits,
            "observer": _placed(self.observer, private),
            "environment": {**environment, "TEMP": environment["TMPDIR"], "TMP": environment["TMPDIR"]},
            **{
                name: [[_placed(word, private) for word in step] for step in getattr(self, name)]
                for name in ("stage", "slot", "launcher")
            },
        }

    def explain(self) -> str:
        """The plan for a person, one line a step and one a protection."""
        lines = [f"launch mode: {self.mode}", f"namespaces: {', '.join(self.namespaces) or 'none'}"]
        for name, steps in (("stage", self.stage), ("slot", self.slot), ("launcher", self.launcher)):
            lines += [f"{name}: {_step_shown(step)}" for step in steps]
        lines += [f"command: {name} {soft} {hard}" for name, soft, hard in self.command_limits]
        lines += [f"watchdog: {name} {most}" for name, most in self.watched_limits]
        lines += [f"observer: {_shown(self.observer)}"] if self.observer is not None else []
        lines += [
            f"{each.protection}: {each.state} by {each.means or 'nothing'}{f' ({each.reason})' if each.reason else ''}"
            for each in self.applied
        ]
        return "\n".join(lines)


def _step_shown(step: Step) -> str:
    """A step for a person: modes as chmod(1) has them."""
    return f"umask {step[1]:04o}" if step[0] == "umask" else " ".join(map(_shown, step))


def _shown(word: Any) -> str:
    """A word of a step for a person: a filter by its size and digest, a ruleset in one line."""
    if not isinstance(word, dict):
        return str(word)
    if "program" in word:
        size = len(base64.b64decode(word["program"])) // _INSTRUCTION_BYTES
        return f"{word['architecture']}, {size} instructions, sha256 {hashlib.sha256(word['program'].encode()).hexdigest()[:16]}"
    return json.dumps(word, sort_keys=True)


def _placed(word: Any, private: str) -> Any:
    """`word` with the private directory put in; lists and tables are searched too."""
    if isinstance(word, str):
        return private + word[len(_PRIVATE) :] if word.startswith(_PRIVATE) else word  # paths of the host begin with "/"
    if isinstance(word, dict):
        return {name: _placed(each, private) for name, each in word.items()}
    return [_placed(each, private) for each in word] if isinstance(word, (list, tuple)) else word
