"""What a policy names and this host does not have: no fault, since it may come, but likely a slip. Looked for, never judged."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fable_exec.broker.arguments import ArgumentJudge
from fable_exec.executables import AllowedExecutables
from fable_exec.pathguard.reasons import shown
from fable_exec.policy import BrokerPolicy

__all__ = ["absent_here", "absent_programs"]


_WITHOUT = {"runtime_read_paths": "get nothing of it", "runtime_write_paths": "cannot be started"}


def absent_here(policy: BrokerPolicy, arguments: ArgumentJudge) -> Iterator[tuple[str, str]]:
    """What is not there besides programs, as (place in the policy, what that means)."""
    for name in ("runtime_read_paths", "runtime_write_paths"):
        for index, path in enumerate(getattr(policy.confinement, name)):
            if not os.path.exists(path):
                yield f"confinement.{name}[{index}]", f"{shown(path)} is not there, so commands {_WITHOUT[name]}"
    for index, path in enumerate(policy.environment.path or ()):
        if not os.path.isdir(path):
            yield f"environment.path[{index}]", f"{shown(path)} is no directory, so no program is found in it"
    for index, name in arguments.without_rules():
        yield f"argument_rules.tools[{index}]", f"no rule is for a tool of the name {shown(name)}"


def absent_programs(policy: BrokerPolicy, executables: AllowedExecutables) -> Iterator[tuple[str, str]]:
    """The entries of the allow-list that mean no file, in the same way."""
    for index, entry in enumerate(policy.allowed_executables):
        if entry in executables.missing:
            yield f"allowed_executables[{index}]", f"{shown(entry)} cannot be run: {executables.missing[entry]}"
