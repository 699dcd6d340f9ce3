"""From a specification to what a keeper carries out: policy, executable, plan and environment, all decided in the host.

What cannot be had is part of the request too, as its launch error: an execution that was asked for has a record of its end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from fable_exec.confine import FileView, Plan, compile_kept_plan, refuse_unmet
from fable_exec.errors import ConfinementUnavailable, ExecutableDenied, InvalidRequest, PolicyError
from fable_exec.executables import AllowedExecutables, Executable, resolve_executables
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.names import RUNNER_LOG_NAME, SPEC_NAME, SUPERVISOR_LOG_NAME
from fable_exec.executions.proofterms import ProofTerms
from fable_exec.executions.spec import ExecutionSpec
from fable_exec.keeper.bounds import Bounds
from fable_exec.keeper.requests import KeepRequest, LaterFiles, plan_of_job
from fable_exec.keeper.surroundings import is_apart, is_passed, place_of_runtime, runtime_environment
from fable_exec.laterfiles import standard_place
from fable_exec.policy import BrokerPolicy, merge
from fable_exec.runner import Command, WorkspaceIdentity
from fable_exec.runner.zygote import temporary_directory
from fable_exec.runtimes import runtime_paths, system_links
from fable_exec.supervisor.proving import Proofs
from fable_exec.supervisor.zygote import KeeperZygote

if TYPE_CHECKING:
    from fable_exec.seatbelt import HostBoundary

__all__ = ["policy_of", "request_to_keep"]

_DEFAULT_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def policy_of(spec: ExecutionSpec) -> BrokerPolicy:
    """The policy of the specification, else one that allows exactly its program; of a boundary the one that it compiles to.

    A policy that is given with a boundary only narrows it (`policy.merge`).

    Raises:
        PolicyError: it has faults, the workspace lies in no root of the boundary, or no policy is within both.
    """
    given = spec.policy
    if spec.boundary is None:
        return given or BrokerPolicy(workspace=spec.workspace, allowed_executables=(spec.argv[0],))
    from fable_exec import bounded  # few have a boundary

    allowed = (spec.argv[0],) if given is None else given.allowed_executables
    compiled = bounded.policy_of(spec.boundary, spec.workspace, allowed_executables=allowed)
    if compiled.workspace != spec.workspace:
        words = f"the workspace {ascii(str(spec.workspace))[:400]} has become a link since it was named; name where it leads"
        raise InvalidRequest(words)
    return compiled if given is None else merge(compiled, given)


def request_to_keep(
    spec: ExecutionSpec, execution_id: str, root: Path, identity: WorkspaceIdentity, zygote: KeeperZygote, proofs: Proofs
) -> KeepRequest:
    """The whole request.

    Raises:
        PolicyError, ExecutableDenied: the policy has faults, or does not allow the program: nothing is accepted.
        InvalidRequest: what the proof has to be makes no sense.
        BrokerGone: the zygote is gone.
    """
    policy = policy_of(spec)
    directory = ExecutionDirectory.of(root, execution_id)
    user, group = identity.command_owner()
    # A job of another user than its keeper's could not enter the execution's directory.
    runtime = place_of_runtime(directory.path, None if user == os.geteuid() else temporary_directory())
    defined = {**_defined(spec, policy, directory), "runtime_directory": str(runtime)}
    whose = {"user": user, "group": group, "workspace": identity.to_wire()}
    common = {
        **whose,
        "root": str(root),
        "execution_id": execution_id,
        "defined": defined,
        "spec_text": spec.spec_text,
        "policy_failure_codes": sorted(spec.policy_failure_codes),
        "proof": None if spec.proof_terms is None else _checked(spec.proof_terms, spec.workspace).to_wire(),
        "bounds": Bounds(**{name: getattr(spec, name) for name in _BOUNDS}),
        **{name: getattr(spec, name) for name in _TERMS},
    }
    try:
        means = _means(spec, policy, directory, runtime, whose, zygote, proofs)
    except ConfinementUnavailable as error:
        return KeepRequest(**common, launch_error=f"confinement: {identity.told_with_who_is_kept_out(error)}")
    except _NotThere as error:
        return KeepRequest(**common, launch_error=str(error), launch_errno=error.number)
    found = {"executable": means["command"]["executable"]["path"], "boundary": means.pop("boundary")}
    return KeepRequest(**{**common, **means, "defined": {**defined, **found}})


def _checked(terms: ProofTerms, workspace: Path) -> ProofTerms:
    """The same. Raises InvalidRequest where its words or keys mean nothing, or its job could take the key that signs."""
    from fable_exec.keeper.judging import binding_policy  # few ask for a proof
    from fable_exec.proofbind import Axis
    from fable_exec.treedigest import Profile

    for words, known in ((terms.required, Axis), ((terms.profile,), Profile)):
        names = [each.value for each in known]
        for unknown in sorted(set(words) - set(names)):
            raise InvalidRequest(f"proof: there is no {ascii(unknown)[:100]}; there are {', '.join(names)}")
    binding_policy(terms.to_wire())
    if terms.signing_key is not None and Path(terms.signing_key).is_relative_to(workspace):
        raise InvalidRequest("proof: the key that signs must not lie in the workspace, where the job could read it")
    return terms


_BOUNDS = tuple(attrs.fields_dict(Bounds))
_TERMS = ("restarts", "restart_delay_seconds", "stop_grace_seconds", "descendant_grace_seconds", "log_bytes")


class _NotThere(Exception):
    """The program is not there, or is nothing that could be executed; `number` is what execve(2) would say."""

    def __init__(self, program: str, why: str) -> None:
        self.number = errno.EACCES if os.path.isabs(program) and os.path.exists(program) else errno.ENOENT
        super().__init__(f"executable: {errno.errorcode[self.number]}: {os.strerror(self.number)} ({program}: {why})")


def _defined(spec: ExecutionSpec, policy: BrokerPolicy, directory: ExecutionDirectory) -> dict[str, Any]:
    path = directory.path
    return {
        "request_fingerprint": spec.fingerprint(),
        "argv": list(spec.argv),
        "executable": None,
        "workspace": str(spec.workspace),
        "engine_dir": str(spec.workspace / spec.engine_dir),
        "spec": None if spec.spec_text is None else str(path / SPEC_NAME),
        "spec_sha256": spec.spec_sha256,
        "policy_digest": policy.digest,
        "boundary": _record(spec.boundary, policy),
        "provider": spec.provider,
        "verdict": spec.verdict,
        "labels": dict(spec.labels),
        "runner_log": str(path / RUNNER_LOG_NAME),
        "supervisor_log": str(path / SUPERVISOR_LOG_NAME),
        **{name: getattr(spec, name) for name in (*_BOUNDS, *_TERMS)},
    }


def _means(
    spec: ExecutionSpec,
    policy: BrokerPolicy,
    directory: ExecutionDirectory,
    runtime: Path,
    whose: Mapping[str, Any],
    zygote: KeeperZygote,
    proofs: Proofs,
) -> dict[str, Any]:
    with_path = {**os.environ, "PATH": spec.environment.get("PATH") or os.environ.get("PATH") or _DEFAULT_PATH}
    executables = _resolved(spec, policy, with_path)
    try:
        executable = _executable(spec, executables)
        command = Command(
            argv=(executable.registered_path, *spec.argv[1:]),
            executable=executable,
            environment=_environment(spec, policy, directory, runtime, executables.path),
        )
        spec_file = () if is_apart(runtime, directory.path) else (str(directory.path / SPEC_NAME),)  # out of its user's reach
        readable = (*system_links(), *runtime_paths(executables), *spec_file)
    finally:
        executables.close()
    plan = _plan(policy, runtime, readable, zygote)

    def send_canary(private: Path, bait: Mapping[str, Any]) -> bytes:
        like_it = plan_of_job(_plan(policy, private, readable, zygote).to_wire(str(private)), whose)
        return zygote.prove(like_it, attrs.evolve(command, canary=bait).to_wire(announce=False, pins_required=False))

    applied, probe = proofs.applied(policy, plan, (whose["user"], whose["group"]), send_canary)
    refuse_unmet(applied, zygote.support, policy.launch)
    return {
        "plan": plan.to_wire(str(runtime)),
        "applied": applied,
        "command": command.to_wire(announce=False, pins_required=False),
        "later_files": _later_files(policy),
        "boundary": _record(spec.boundary, policy, plan.digest, probe),
    }


def _record(
    boundary: HostBoundary | None, policy: BrokerPolicy, plan_sha256: str | None = None, probe_sha256: str | None = None
) -> dict[str, Any] | None:
    """What the state says of the boundary; None where there is none."""
    if boundary is None:
        return None
    from fable_exec.seatbelt import ConfinementRecord

    record = ConfinementRecord.of_linux(plan_sha256, probe_sha256, policy.confinement.network)
    return {**record.to_members(), "config_sha256": boundary.config_sha256}


def _later_files(policy: BrokerPolicy) -> LaterFiles | None:
    confinement = policy.confinement
    if confinement.mode("later_files") == "off":
        return None
    return LaterFiles(
        quarantine=standard_place(str(policy.workspace)),
        neutralise=confinement.planted_files != "report",
        fails=confinement.planted_files == "fail",
        required=confinement.mode("later_files") == "strict",
    )


def _resolved(spec: ExecutionSpec, policy: BrokerPolicy, environment: Mapping[str, str]) -> AllowedExecutables:
    try:
        return resolve_executables(policy, environment)
    except PolicyError as error:
        if spec.policy is not None:
            raise
        raise _NotThere(spec.argv[0], _what_to_do(spec.argv[0], error)) from None


def _what_to_do(program: str, error: PolicyError) -> str:
    if os.path.isabs(program):
        return "make it an executable file, or name another" if os.path.exists(program) else "name one that is there"
    return f"{'; '.join(text for _, text in error.faults)}; install it, or give its absolute path"


def _executable(spec: ExecutionSpec, executables: AllowedExecutables) -> Executable:
    found = executables.find(spec.argv[0])
    if found is not None:
        return found
    why = executables.why_missing(spec.argv[0])
    if why:
        raise _NotThere(spec.argv[0], why)
    raise ExecutableDenied(f"the policy does not list {ascii(spec.argv[0])[:200]}; it lists {', '.join(executables.names)[:500]}")


def _plan(policy: BrokerPolicy, runtime: Path, readable: tuple[str, ...], zygote: KeeperZygote) -> Plan:
    read = (*readable, *policy.confinement.runtime_read_paths)
    written = (str(runtime), *policy.confinement.runtime_write_paths)
    view = FileView(
        workspace=str(policy.workspace),
        writable=True,
        runtime_paths=read,
        writable_paths=written,
        hidden=zygote.system_secrets((*read, *written, str(policy.workspace))),
    )
    return compile_kept_plan(policy.launch, zygote.support, policy.confinement, view, policy.limits, insist=False)


def _environment(
    spec: ExecutionSpec, policy: BrokerPolicy, directory: ExecutionDirectory, runtime: Path, path: tuple[str, ...]
) -> dict[str, str]:
    rules = policy.environment
    of_execution = {
        "FABLE_EXEC_ID": directory.execution_id,
        "FABLE_EXEC_DIR": str(directory.path),
        "FABLE_EXEC_TARGET_DIR": str(spec.workspace),
        "FABLE_EXEC_SUPERVISED": "1",
    }
    if spec.boundary is not None:
        from fable_exec.bounded import child_environment

        whole = child_environment(spec.boundary, runtime, os.environ, {**rules.set, **spec.environment})
        return {**whole, "PATH": os.pathsep.join(path), **of_execution}
    passed = {name: value for name, value in os.environ.items() if is_passed(name) or rules.inherits(name)}
    return {
        **policy.confinement.environment,
        **passed,
        **rules.set,
        "PATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        **runtime_environment(runtime),
        **spec.environment,
        **of_execution,
    }
