"""What a request costs before anything is done: may it, what would its command line do, and the line that is kept of that."""

from __future__ import annotations

import json
import os

from benchmarks.figure import MICROSECONDS, Figure, at_most
from benchmarks.measuring import interleaved, timed
from benchmarks.setting import Setting
from fable_exec.argrules import ArgumentRules
from fable_exec.audit import AuditLog
from fable_exec.decision import CommandFacts, decide

ARGV = ["git", "status", "--short"]
FACTS = {"action": "execute_command", "command": ARGV, "allowed": True, "policy_digest": "a" * 64}
REPEATS = 100
WRITE = "json.dumps and write(2)"


def measure(setting: Setting) -> list[Figure]:
    policy, rules, facts = setting.policy(), ArgumentRules.builtin(), CommandFacts(name="git", listed=True, unchanged=True)
    rounds, directory = setting.rounds(100), setting.workspace()
    bare = os.open(directory / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with AuditLog(directory / "audit.jsonl") as log:
        found = interleaved(
            [
                timed("decide", lambda: decide(policy, False, False, facts), REPEATS),
                timed("judge", lambda: rules.judge(ARGV), REPEATS),
                timed("append", lambda: log.append("decision", **FACTS), REPEATS),
                timed(WRITE, lambda: os.write(bare, json.dumps(FACTS).encode() + b"\n"), REPEATS),
            ],
            rounds,
        )
    os.close(bare)
    return [
        Figure(
            key="decisions.decide", title="a decision on a command", unit=MICROSECONDS,
            ours=found["decide"], target=at_most(0.000005),
        ),
        Figure(
            key="decisions.judge", title="a judgement of `git status --short` by the argument rules", unit=MICROSECONDS,
            ours=found["judge"], target=at_most(0.000020),
        ),
        Figure(
            key="decisions.append", title="a line of the audit log, chained, not synced", unit=MICROSECONDS,
            ours=found["append"], reference=found[WRITE], reference_name=WRITE, target=at_most(0.000050),
        ),
    ]  # fmt: skip
