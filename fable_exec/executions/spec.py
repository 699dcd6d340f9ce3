"""What to execute: everything that defines one execution, checked, and the digest that tells a repeated request from another."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs

from fable_exec.errors import InvalidRequest
from fable_exec.executions.names import canonical_id
from fable_exec.executions.proofterms import ProofTerms
from fable_exec.executions.seconds import require_seconds
from fable_exec.lifecycle import POLICY_FAILURE_CODES
from fable_exec.policy import BrokerPolicy, is_environment_name

if TYPE_CHECKING:
    from fable_exec.seatbelt import HostBoundary

__all__ = ["MAX_SPEC_BYTES", "ExecutionSpec", "VerdictName"]

VerdictName = Literal["exit-code", "proof"]
"""What tells whether a job that ended by itself with status 0 did what it was for."""

MAX_SPEC_BYTES = 1024 * 1024
_MAX_LABELS, _MAX_LABEL_CHARACTERS = 64, 256
_MAX_ARGUMENTS, _MAX_ARGUMENT_BYTES = 10_000, 128 * 1024
_MIB = 1024 * 1024
_MAX_ARGV_CHARACTERS = 512 * 1024
"""A state file holds 1 MiB; the rest of it is bounded too."""
_MOST_RESTARTS = 100


def _strings(value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)):
        raise InvalidRequest("argv must be a list of strings, not one string: nothing is split")
    return tuple(value)


def _resolved(value: str | Path) -> Path:
    return Path(os.path.realpath(os.path.expanduser(value)))


def _canonical(value: str | uuid.UUID | None) -> str | None:
    return None if value is None else canonical_id(value)


def _codes(value: Iterable[int]) -> frozenset[int]:
    try:
        return frozenset(value)
    except TypeError:
        raise InvalidRequest(f"policy_failure_codes must be a list of exit statuses, not {value!a:.80}") from None


def _table(value: Mapping[str, str]) -> dict[str, str]:
    return dict(value)


@attrs.frozen(kw_only=True)
class ExecutionSpec:
    """One supervised execution.

    Args:
        argv: the program and its arguments, at least one item. Nothing is split and no shell is asked.
        workspace: an existing directory, resolved once; the working directory, and where the job may write.
        execution_id: any spelling that `uuid.UUID` takes; None gets a new one. The same id with the same specification is one
            execution.
        policy: what the job may do; its workspace must be `workspace`. None allows exactly the program of `argv` to write in the
            workspace, and all else as strictly as a policy's defaults.
        boundary: what of the host the job gets, and its environment. The workspace must lie inside one of its roots, and a policy
            that is given too can only narrow what it compiles to.
        provider: the name of a model provider that must be ready within the boundary before anything is accepted.
        environment: variables for the job besides the allow-list; values are never written down, only their digest.
        spec_text: what the job is told to do, kept as `spec.md`; None keeps none.
        engine_dir: the job's own state directory, from the workspace; for the verdict "proof" one name at the top.
        restarts: how often a job that crashed by itself is started again, 100 at most: docs/reference/lifecycle.md.
        restart_delay_seconds: the pause before that.
        hard_timeout_seconds: how long it may take, restarts included; None is no bound.
        idle_timeout_seconds: how long it may be silent on both streams; None is no bound.
        stop_grace_seconds: from SIGTERM to SIGKILL.
        descendant_grace_seconds: the same for what outlives the leader.
        max_output_bytes: more output than this, of all attempts, ends the job; None is no bound.
        log_bytes: bytes of output that are kept, of all attempts; what comes later is counted and dropped.
        heartbeat_seconds: how often the keeper leaves a sign of its life.
        verdict: what makes a status of 0 a success: "exit-code" nothing else, "proof" a proof that is bound and says so.
        proof: what that proof has to be; None is `ProofTerms()`, and without the verdict "proof" there is none.
        policy_failure_codes: statuses by which the job says that what it made is not good enough.
        labels: free strings that are kept with the state.

    Raises:
        InvalidRequest: a ValueError that names the field.
    """

    argv: tuple[str, ...] = attrs.field(converter=_strings)
    workspace: Path = attrs.field(converter=_resolved)
    execution_id: str | None = attrs.field(default=None, converter=_canonical)
    policy: BrokerPolicy | None = None
    boundary: HostBoundary | None = None
    provider: str | None = None
    environment: Mapping[str, str] = attrs.field(factory=dict, converter=_table, repr=False)
    spec_text: str | None = attrs.field(default=None, repr=False)
    engine_dir: Path = attrs.field(default=Path(".fable"), converter=Path)
    restarts: int = 0
    restart_delay_seconds: float = 1.0
    hard_timeout_seconds: float | None = None
    idle_timeout_seconds: float | None = None
    stop_grace_seconds: float = 10.0
    descendant_grace_seconds: float = 2.0
    max_output_bytes: int | None = None
    log_bytes: int = 64 * _MIB
    heartbeat_seconds: float = 30.0
    verdict: VerdictName = "exit-code"
    proof: ProofTerms | None = None
    policy_failure_codes: frozenset[int] = attrs.field(default=POLICY_FAILURE_CODES, converter=_codes)
    labels: Mapping[str, str] = attrs.field(factory=dict, converter=_table)

    def __attrs_post_init__(self) -> None:
        self._check_argv()
        self._check_texts()
        for name in ("hard_timeout_seconds", "idle_timeout_seconds"):
            if getattr(self, name) is not None:
                require_seconds(name, getattr(self, name), above_zero=True)
        require_seconds("heartbeat_seconds", self.heartbeat_seconds, above_zero=True)
        for name in ("stop_grace_seconds", "descendant_grace_seconds", "restart_delay_seconds"):
            require_seconds(name, getattr(self, name), above_zero=False)
        for name in ("max_output_bytes", "log_bytes"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                raise InvalidRequest(f"{name} must be a whole number of bytes, not {value!a:.80}")
        if type(self.restarts) is not int or not 0 <= self.restarts <= _MOST_RESTARTS:
            raise InvalidRequest(f"restarts must be a whole number up to {_MOST_RESTARTS}, not {self.restarts!a:.80}")
        self._check_verdict()
        if not all(type(code) is int and 0 < code <= 255 for code in self.policy_failure_codes):
            raise InvalidRequest("policy_failure_codes must be exit statuses from 1 to 255")
        if self.provider is not None and not (isinstance(self.provider, str) and 0 < len(self.provider) <= _MAX_LABEL_CHARACTERS):
            raise InvalidRequest(f"provider must be the name of one, not {self.provider!a:.80}")
        if self.policy is not None and self.policy.workspace != self.workspace:
            raise InvalidRequest(f"the policy is for the workspace {self.policy.workspace}, not for {self.workspace}")

    def _check_argv(self) -> None:
        if not self.argv or not all(isinstance(word, str) and _is_of_bytes(word) for word in self.argv):
            raise InvalidRequest("argv must be a list of at least one string, each of bytes that a system call takes")
        if not self.argv[0] or any("\0" in word for word in self.argv):
            raise InvalidRequest("argv must name a program, and hold no NUL")
        if len(self.argv) > _MAX_ARGUMENTS or any(len(os.fsencode(word)) > _MAX_ARGUMENT_BYTES for word in self.argv):
            raise InvalidRequest(f"argv may have {_MAX_ARGUMENTS} items of {_MAX_ARGUMENT_BYTES} bytes at most")
        if len(json.dumps(self.argv)) > _MAX_ARGV_CHARACTERS:  # as the state holds it, in ASCII
            raise InvalidRequest(f"argv may have {_MAX_ARGV_CHARACTERS} characters in all, as JSON in ASCII")

    def _check_verdict(self) -> None:
        if self.verdict not in get_args(VerdictName):
            raise InvalidRequest(f"verdict must be 'exit-code' or 'proof', not {self.verdict!a:.80}")
        if self.verdict == "proof" and (len(self.engine_dir.parts) != 1 or self.engine_dir.parts[0] in ("/", "..")):
            raise InvalidRequest(f"engine_dir must be one name at the top of the workspace, not {str(self.engine_dir)!a:.200}")
        if self.verdict != "proof" and self.proof is not None:
            raise InvalidRequest("proof is for the verdict 'proof'")

    def _check_texts(self) -> None:
        for name, value in self.environment.items():
            if not is_environment_name(name) or not isinstance(value, str) or "\0" in value:
                raise InvalidRequest(f"environment has a variable that cannot be set: {name!a:.80}")
        if self.spec_text is not None and not (isinstance(self.spec_text, str) and _is_of_bytes(self.spec_text)):
            raise InvalidRequest("spec_text must be a string that UTF-8 can hold")
        if self.spec_text is not None and len(self.spec_text.encode("utf-8", "surrogateescape")) > MAX_SPEC_BYTES:
            raise InvalidRequest(f"spec_text may have {MAX_SPEC_BYTES} bytes at most")
        if len(self.labels) > _MAX_LABELS or not all(
            isinstance(word, str) and len(word) <= _MAX_LABEL_CHARACTERS for pair in self.labels.items() for word in pair
        ):
            raise InvalidRequest(f"labels may be {_MAX_LABELS} strings of {_MAX_LABEL_CHARACTERS} characters at most")

    @property
    def proof_terms(self) -> ProofTerms | None:
        """What the proof has to be; None where the verdict asks for none."""
        return (self.proof or ProofTerms()) if self.verdict == "proof" else None

    @property
    def spec_sha256(self) -> str | None:
        """The digest of `spec_text`."""
        if self.spec_text is None:
            return None
        return hashlib.sha256(self.spec_text.encode("utf-8", "surrogateescape")).hexdigest()

    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of all that defines the request; the id is what it is asked about, and is not in it."""
        members: dict[str, Any] = attrs.asdict(self, recurse=False)
        del members["execution_id"], members["spec_text"]
        members["workspace"] = os.fsencode(self.workspace).hex()
        members["engine_dir"] = os.fsencode(self.workspace / self.engine_dir).hex()
        members["policy"] = None if self.policy is None else self.policy.digest
        members["boundary"] = None if self.boundary is None else self.boundary.digest
        members["policy_failure_codes"] = sorted(self.policy_failure_codes)
        members["spec_sha256"] = self.spec_sha256
        members["proof"] = None if self.proof_terms is None else self.proof_terms.to_wire()
        return hashlib.sha256(json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def _is_of_bytes(text: str) -> bool:
    """Whether it stands for bytes, undecodable ones included (PEP 383)."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
