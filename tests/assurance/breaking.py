"""Deliberate breaks of the real rules, one for each built-in invariant: changed where the rule stands, for everybody who asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from fable_exec import decision, writelock
from fable_exec.confine import Support, applied
from fable_exec.lifecycle import (
    Action,
    Judged,
    LeaderExited,
    Phase,
    Row,
    Started,
    StopRequested,
    TerminalReason,
    is_restarted,
    table,
    terminal_reason,
)
from fable_exec.policy import BrokerPolicy, Confinement
from tests.assurance import hosts

__all__ = ["BROKER_BREAKS", "TABLE_BREAKS", "Break"]


@attrs.frozen
class Break:
    """What is broken, under which policy on which host that shows."""

    act: Callable[[pytest.MonkeyPatch], None]
    policy: BrokerPolicy = attrs.field(factory=hosts.policy)
    support: Support = hosts.CAPABLE


def writes_pass_while_locked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision, "_WRITE_LOCKED", decision._WRITE)


def every_path_is_in_scope(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision, "_within", lambda target, scope: True)


def interpreters_pass_while_locked(patch: pytest.MonkeyPatch) -> None:
    real = decision._decide_command

    def broken(policy: Any, unlocked: bool, kernel_readonly: bool, facts: Any) -> decision.Decision:
        if decision.is_interpreter(facts.name):
            return decision._COMMAND_READ_ONLY
        return real(policy, unlocked, kernel_readonly, facts)

    patch.setattr(decision, "_decide_command", broken)


def any_token_is_right(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writelock, "_is_right", lambda supplied, digest: True)


def no_command_has_a_deadline(patch: pytest.MonkeyPatch) -> None:
    def broken(limits: Any, timeout_seconds: Any, idle_timeout_seconds: Any) -> tuple[float, None]:
        return 1e6, None

    patch.setattr(decision.deadlines_of, "__code__", broken.__code__)


def nothing_need_be_listed(patch: pytest.MonkeyPatch) -> None:
    real = decision._decide_command

    def broken(policy: Any, unlocked: bool, kernel_readonly: bool, facts: Any) -> decision.Decision:
        return real(policy, unlocked, kernel_readonly, attrs.evolve(facts, listed=True, missing="", unchanged=True))

    patch.setattr(decision, "_decide_command", broken)


def strict_is_not_insisted_on(patch: pytest.MonkeyPatch) -> None:
    def broken(applied: Any, support: Any, launch: Any) -> None:
        return None

    patch.setattr(applied.refuse_unmet, "__code__", broken.__code__)


def nothing_is_swept(patch: pytest.MonkeyPatch) -> None:
    strict_is_not_insisted_on(patch)
    patch.setattr(applied, "_LATER_FILES_SWEPT", applied.State("unavailable", "", "broken"))


def _unmet(protection: str, **more: Any) -> Break:
    return Break(strict_is_not_insisted_on, hosts.policy(confinement=hosts.only(protection, **more)), hosts.NOTHING)


BROKER_BREAKS: Mapping[str, Break] = {
    "locked-writes": Break(writes_pass_while_locked),
    "locked-interpreters": Break(interpreters_pass_while_locked, hosts.policy(confinement=Confinement.off())),
    "scoped-unlock": Break(every_path_is_in_scope),
    "unlock-authenticated": Break(any_token_is_right),
    "running-ends": Break(no_command_has_a_deadline),
    "listed-only": Break(nothing_need_be_listed),
    "host-writes": _unmet("host_writes"),
    "host-metadata": _unmet("host_metadata"),
    "host-reads": _unmet("host_reads"),
    "network": _unmet("network"),
    "host-sockets": _unmet("host_sockets"),
    "other-processes": _unmet("other_processes"),
    "later-files": Break(nothing_is_swept, hosts.policy(confinement=hosts.only("later_files")), hosts.NOTHING),
    "kernel-surface": _unmet("kernel_surface"),
}


def _row(key: tuple[Any, Any], row: Row) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(table, "TRANSITIONS", {**table.TRANSITIONS, key: row})


def restarted_without_proof(patch: pytest.MonkeyPatch) -> None:
    def broken(facts: Any, attempt: int, most: int) -> bool:
        return terminal_reason(facts) is TerminalReason.CRASHED and attempt <= most

    patch.setattr(is_restarted, "__code__", broken.__code__)


TABLE_BREAKS: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "terminal-reached": _row((Phase.RUNNING, StopRequested), Row(Phase.ENDING, (Action.TERMINATE,))),
    "terminal-final": _row((Phase.EXITED, LeaderExited), Row(Phase.JUDGING, (Action.JUDGE,))),
    "signal-identity": _row((Phase.ACCEPTED, StopRequested), Row(Phase.ENDING, (Action.TERMINATE, Action.BEGIN_GRACE))),
    "recorded-first": _row((Phase.ACCEPTED, Started), Row(Phase.RUNNING, (Action.OPEN_GATE,))),
    "one-outcome": _row((Phase.JUDGING, Judged), Row(Phase.EXITED)),
    "proved-restart": restarted_without_proof,
}
"""For each invariant of supervised executions."""
