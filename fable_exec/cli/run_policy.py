"""The policy of one `run`: the file's, completed and overruled by flags. And whether the program asked for is there at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from fable_exec.decision import words_for_a_shell
from fable_exec.errors import ExecutableDenied, LaunchFailed, PolicyError
from fable_exec.executables import passed_over, trusted_path
from fable_exec.policy import BrokerPolicy, Confinement, read_document, read_json

__all__ = ["UNLOCK_TOKEN", "RunRules", "check_is_there", "givers", "run_policy"]

UNLOCK_TOKEN = "--unlocked"
"""What `--unlocked` unlocks with. No secret: the broker of `run` has no admin channel, so only this process can say it. It is
fixed, so that the same command line has the same policy digest."""


@attrs.frozen(kw_only=True)
class RunRules:
    """What the flags say about the policy. None and empty: not said."""

    workspace: str | None = None
    file: str | None = None
    variable: str | None = None
    """Of our environment, instead of a file."""
    allow: tuple[str, ...] = ()
    environment: Mapping[str, str] = attrs.field(factory=dict)
    unlocked: bool = False
    confinement: str | None = None


def run_policy(rules: RunRules, program: str) -> BrokerPolicy:
    """The policy to run `program` under. Without a file it allows exactly that, and output beyond the cap ends nothing.

    Raises:
        PolicyError: with every fault. ExecutableDenied: the program's name is of a form that is never run.
    """
    given = _given_document(rules)
    document: dict[str, Any] = {"on_output_limit": "truncate"} if given is None else given
    allowed = rules.allow or (() if given is not None else (_nameable(program),))
    if allowed:
        document["allowed_executables"] = list(allowed)
    if rules.workspace is not None:
        document["workspace"] = rules.workspace
    if rules.environment:
        document["environment"] = _with_variables(document.get("environment"), rules.environment)
    if rules.unlocked:
        document["write_token_digest"] = hashlib.sha256(UNLOCK_TOKEN.encode()).hexdigest()
    if rules.confinement is not None:
        document["confinement"] = attrs.asdict(Confinement.named(rules.confinement))
    return BrokerPolicy.from_mapping(document, given_by=givers(rules))


def _given_document(rules: RunRules) -> dict[str, Any] | None:
    if rules.file is not None:
        return read_document(rules.file)
    if rules.variable is None:
        return None
    text = os.environ.pop(rules.variable, None)  # whatever a policy inherits from us, the command does not get it
    if text is None:
        raise PolicyError.of([("--policy-env", f"the variable {rules.variable:.100} is not set")])
    return read_json(text)


def check_is_there(policy: BrokerPolicy, program: str) -> None:
    """Tell a listed program that is missing, or no program, from one that is refused; that is left to the broker.

    Raises:
        LaunchFailed: of the stage "exec", with ENOENT or EACCES.
    """
    entry = _entry_of(policy, program)
    if entry is None or _found(policy, entry) is not None:
        return
    if _found(policy, entry, mode=os.F_OK) is not None or os.path.isdir(entry):
        raise LaunchFailed(f"{program}: not executable", stage="exec", errno=errno.EACCES)
    hint = passed_over(entry, policy, os.environ)
    told = f"{program}: not found{hint and f' ({hint})'}{words_for_a_shell(program)}"
    raise LaunchFailed(told, stage="exec", errno=errno.ENOENT)


def _entry_of(policy: BrokerPolicy, program: str) -> str | None:
    """What the policy's list says about a program of that name."""
    return {os.path.basename(entry): entry for entry in policy.allowed_executables}.get(os.path.basename(program))


def _found(policy: BrokerPolicy, entry: str, mode: int = os.F_OK | os.X_OK) -> str | None:
    return shutil.which(entry, mode=mode, path=os.pathsep.join(trusted_path(policy, os.environ)))


def givers(rules: RunRules) -> dict[str, str]:
    """The flags that gave what stands at these places of the policy, for those that did."""
    flags = {f"environment.set.{name}": f"--env {name}" for name in rules.environment}
    if rules.workspace is not None:
        flags["workspace"] = "--workspace"
    if rules.allow:
        flags["allowed_executables"] = "--allow"
    elif rules.file is None and rules.variable is None:
        flags["allowed_executables"] = "the program to run"
    return flags


def _nameable(program: str) -> str:
    if os.sep in program and not Path(program).is_absolute():
        raise ExecutableDenied(
            f"a program is named by its bare name or its absolute path, not by {program}{words_for_a_shell(program)}"
        )
    return program


def _with_variables(section: Any, given: Mapping[str, str]) -> Any:
    """The environment table of a document with `given` among the variables that are set; a faulty one is left to be judged."""
    section = {} if section is None else section
    if not isinstance(section, dict) or not isinstance(section.get("set") or {}, dict):
        return section
    return {**section, "set": {**(section.get("set") or {}), **given}}
