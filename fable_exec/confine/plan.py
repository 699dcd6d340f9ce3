"""From what is wanted and what the host supports to a plan: pure data that the launcher program performs step by step.

File and network protections will add steps here; the launcher knows each step by its name and refuses unknown ones.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any, Literal

import attrs

from ..errors import ConfinementUnavailable
from ..outcome import Applied
from .support import Support, explain_errno

LaunchMode = Literal["auto", "slots", "namespace", "plain"]
Step = tuple[Any, ...]

_PRIVATE_ENVIRONMENT = (("HOME", "{private}/home"), ("TMPDIR", "{private}/tmp"))
_COMMAND_UMASK = 0o022
_SLOTS_AHEAD = 2
_BASE_NAMESPACES = ("mount", "pid", "ipc", "uts")
_LAUNCHER_STEPS: tuple[Step, ...] = (
    ("umask", _COMMAND_UMASK),
    ("no_core_files",),
    ("no_new_privileges",),
)


@attrs.frozen(kw_only=True)
class Plan:
    """How commands of one kind are launched.

    Args:
        mode: "slots", "namespace" or "plain", see docs/explanation/design.md.
        namespaces: those that the launcher gets, empty in plain mode.
        slot_namespaces: those that each slot gets on top.
        stage: steps of process 1 of the namespaces; slot: of each slot's init; launcher: of the launcher itself.
        environment: variables that depend on the plan; "{private}" stands for the launcher's private directory.
        applied: what this gives, protection by protection.
    """

    mode: Literal["slots", "namespace", "plain"]
    namespaces: tuple[str, ...] = ()
    slot_namespaces: tuple[str, ...] = ()
    stage: tuple[Step, ...] = ()
    slot: tuple[Step, ...] = ()
    launcher: tuple[Step, ...] = ()
    environment: tuple[tuple[str, str], ...] = _PRIVATE_ENVIRONMENT
    applied: tuple[Applied, ...] = ()

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON: launchers are kept by it."""
        return hashlib.sha256(json.dumps(attrs.asdict(self), sort_keys=True).encode()).hexdigest()

    def to_wire(self, private: str) -> dict[str, Any]:
        """The plan as the launcher program reads it; `private` is the absolute path of its private directory."""
        environment = {name: _placed(value, private) for name, value in self.environment}
        return {
            "mode": self.mode,
            "namespaces": self.namespaces,
            "slot_namespaces": self.slot_namespaces,
            "slots_ahead": _SLOTS_AHEAD,
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
            lines += [f"{name}: {' '.join(str(word) for word in step)}" for step in steps]
        lines += [
            f"{each.protection}: {each.state} by {each.means or 'nothing'}{f' ({each.reason})' if each.reason else ''}"
            for each in self.applied
        ]
        return "\n".join(lines)


def _placed(word: Any, private: str) -> Any:
    """`word` with the private directory put in; lists and tables are searched too."""
    if isinstance(word, str):
        return word.replace("{private}", private)
    if isinstance(word, dict):
        return {name: _placed(each, private) for name, each in word.items()}
    return [_placed(each, private) for each in word] if isinstance(word, (list, tuple)) else word


def compile_plan(launch: LaunchMode, support: Support) -> Plan:
    """The plan for `launch` on a host with `support`; "auto" takes the strongest mode there is.

    Raises:
        ConfinementUnavailable: the mode was asked for by name and this host cannot do it.
    """
    missing = _missing(support)
    if launch == "auto":
        launch = next(mode for mode in ("slots", "namespace", "plain") if not missing[mode])
    if missing[launch]:
        raise ConfinementUnavailable(
            f'launch mode "{launch}" cannot be had here: {missing[launch]}', protection="whole_tree_end", reason=missing[launch]
        )
    if launch == "slots":
        return _slots(support)
    return _fresh_namespace(support) if launch == "namespace" else _plain(missing["slots"] or "asked for by policy")


def _missing(support: Support) -> dict[str, str]:
    """By mode: why it cannot be had; empty when it can."""
    namespaces = "" if support.namespaces else f"no namespaces ({explain_errno(support.user_namespaces)})"
    own_proc = f"no /proc of its own ({explain_errno(support.own_proc)})" if support.own_proc else ""
    return {"slots": namespaces or own_proc, "namespace": namespaces, "plain": ""}


def _namespaces(support: Support) -> tuple[str, ...]:
    return ("user", *_BASE_NAMESPACES) if support.user_namespaces == 0 else _BASE_NAMESPACES


def _slots(support: Support) -> Plan:
    return Plan(
        mode="slots",
        namespaces=_namespaces(support),
        slot_namespaces=("mount", "pid"),
        stage=(("private_mounts",), ("mount_proc",)),
        slot=(("private_mounts",), ("mount_proc",), ("no_new_privileges",), ("drop_capabilities",)),
        launcher=(*_LAUNCHER_STEPS, ("no_root_privileges",), ("keep_launcher_capabilities",)),
        applied=(
            Applied("whole_tree_end", "strict", "active", "PID namespace with an init of its own"),
            Applied("other_processes", "degradable", "active", "PID namespace with its own /proc"),
        ),
    )


def _fresh_namespace(support: Support) -> Plan:
    own_proc: tuple[Step, ...] = () if support.own_proc else (("mount_proc",),)
    reason = "/proc shows the processes of this launcher's other commands" if own_proc else "/proc is the host's"
    return Plan(
        mode="namespace",
        namespaces=_namespaces(support),
        stage=(("private_mounts",), *own_proc),
        launcher=(*_LAUNCHER_STEPS, ("no_root_privileges",), ("keep_launcher_capabilities",)),
        applied=(
            Applied("whole_tree_end", "strict", "active", "PID namespace whose init is the command"),
            Applied("other_processes", "degradable", "degraded", "PID namespace", reason),
        ),
    )


def _plain(why: str) -> Plan:
    return Plan(
        mode="plain",
        launcher=_LAUNCHER_STEPS,
        applied=(
            Applied(
                "whole_tree_end",
                "strict",
                "degraded",
                "subreaper",
                f"a command could end its own subreaper; no PID namespace: {why}",
            ),
            Applied("other_processes", "degradable", "unavailable", "", why),
        ),
    )
