"""Every error this library raises, drawn as one tree and grouped by who must act.

::

    FableExecError
    ├── the embedder acts: configuration or host
    │   ├── PolicyError (ValueError)                the policy has faults; all are listed
    │   ├── ConfinementUnavailable (OSError)        a strict protection cannot be had here
    │   ├── BoundaryUnproved (RuntimeError)         a host boundary is asked for and not proved to hold here
    │   ├── ProviderUnavailable (RuntimeError)      a model provider cannot be used within the boundary
    │   ├── LaunchFailed (OSError)                  the command could not be started
    │   ├── AuditUnavailable (OSError)              the audit log cannot take another line
    │   ├── ExtraMissing (ImportError)              a package of an extra is not installed
    │   ├── StateUnreadable (ValueError)            a durable record is torn or foreign
    │   ├── Conflict                                the request contradicts what exists
    │   └── UnknownExecution (LookupError)          there is no execution of that id
    ├── the requester acts: the model or its harness
    │   ├── Denied (PermissionError)                the policy says no
    │   │   ├── WritesLocked
    │   │   ├── ExecutableDenied
    │   │   ├── PathDenied (also ValueError)
    │   │   ├── ArgumentDenied
    │   │   └── ShellDenied
    │   ├── InvalidRequest (ValueError)             the request is not of its form
    │   │   ├── FrameTooLarge
    │   │   └── InvalidJson
    │   └── PathError (OSError)                     a fact of the file system
    │       ├── PathNotFound (FileNotFoundError)
    │       ├── PathExists (FileExistsError)
    │       ├── PathIsDirectory (IsADirectoryError)
    │       ├── PathNotDirectory (NotADirectoryError)
    │       └── PathPermission (PermissionError)    the system's no, not the policy's
    └── nobody can act on the spot
        ├── TreeUnstable                            the tree is being changed, so it has no digest
        ├── ProofNotBound                           the proof is not of this run and this tree
        ├── IdentityLost (ProcessLookupError)       the process is no longer who it was
        ├── SignalRefused (PermissionError)         a signal could reach one who must not get it
        ├── BrokerGone (ConnectionError)            the other side went away
        └── InternalError                           "cannot happen" happened

A class also inherits the builtin that a caller would catch. `code` is stable and goes on the wire; messages are for people and
may change. Instances survive pickling with all their fields. It holds no policy: what is refused is decided elsewhere.
"""

from __future__ import annotations

import errno as errno_names
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

__all__ = [
    "ArgumentDenied",
    "AuditUnavailable",
    "BoundaryUnproved",
    "BrokerGone",
    "ConfinementUnavailable",
    "Conflict",
    "Denied",
    "ExecutableDenied",
    "ExtraMissing",
    "FableExecError",
    "FrameTooLarge",
    "IdentityLost",
    "InternalError",
    "InvalidJson",
    "InvalidRequest",
    "LaunchFailed",
    "PathDenied",
    "PathError",
    "PathExists",
    "PathIsDirectory",
    "PathNotDirectory",
    "PathNotFound",
    "PathPermission",
    "PolicyError",
    "ProofNotBound",
    "ProviderUnavailable",
    "ShellDenied",
    "SignalRefused",
    "StateUnreadable",
    "TreeUnstable",
    "UnknownExecution",
    "WritesLocked",
]

MAX_MESSAGE_CHARACTERS = 8192
"""Longest message kept; a diagnostic must stay bounded whatever a peer puts into it."""

_Error = TypeVar("_Error", bound="FableExecError")


class FableExecError(Exception):
    """Root of the tree. `code` names the kind for machines; `str()` tells a person what was refused, why, and what to do."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(_bounded(message))
        for name, value in fields.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def reworded(self, message: str) -> Self:
        """The same error, with all its fields, in other words."""
        fields = self.__reduce__()[1][2]
        return _rebuild(type(self), (_bounded(message),), fields)

    def __reduce__(self) -> tuple[Any, ...]:
        # OSError subclasses keep these in C slots that __dict__ does not carry.
        in_slots = {name: getattr(self, name, None) for name in ("errno", "filename", "filename2")}
        fields = {**self.__dict__, **{name: value for name, value in in_slots.items() if value is not None}}
        return (_rebuild, (type(self), self.args, fields))


def _rebuild(kind: type[_Error], args: tuple[Any, ...], fields: dict[str, Any]) -> _Error:
    error = kind.__new__(kind, *args)
    error.args = args
    for name, value in fields.items():
        setattr(error, name, value)
    return error


def _bounded(message: str) -> str:
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    return message[: MAX_MESSAGE_CHARACTERS - 1] + "…"


class PolicyError(FableExecError, ValueError):
    """A policy document or value has faults.

    `faults` holds every one as (path in the document, what is wrong), in document order.
    """

    code = "policy-invalid"
    faults: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, faults: list[tuple[str, str]], what: str = "invalid policy") -> PolicyError:
        """One error that lists all `faults`, a line each; `what` they are faults of."""
        lines = "; ".join(f"{path}: {text}" if path else text for path, text in faults)
        return cls(f"{what}: {lines}", faults=tuple(faults))

    def told_by(self, givers: Mapping[str, str]) -> PolicyError:
        """The same faults, each at the name of what gave the value at its place or around it, such as a flag.

        Args:
            givers: the names, by places in the document. What stands elsewhere keeps its place.
        """
        return PolicyError.of([(_giver(path, givers), text) for path, text in self.faults])


def _giver(path: str, givers: Mapping[str, str]) -> str:
    around = (giver for place, giver in givers.items() if path == place or path.startswith((f"{place}.", f"{place}[")))
    return next(around, path)


class ConfinementUnavailable(FableExecError, OSError):
    """A protection that the policy demands strictly cannot be had on this host; nothing was run.

    `protection` names it, `reason` says what is missing.
    """

    code = "confinement-unavailable"
    protection: str = ""
    reason: str = ""


class BoundaryUnproved(FableExecError, RuntimeError):
    """A host boundary is asked for, and this host cannot hold it or was not shown to; nothing was run but the probe.

    `finding` is the exit status of a smoke probe that found a way out (docs/reference/seatbelt.md), 0 where none ran to its end.
    """

    code = "boundary-unproved"
    finding: int = 0


class ProviderUnavailable(FableExecError, RuntimeError):
    """The model provider of an execution cannot be used within its boundary, so nothing was started.

    `provider` names it, `classification` is one word of the published list (docs/reference/providers.md), `action` what to do.
    """

    code = "provider-unavailable"
    provider: str = ""
    classification: str = ""
    action: str = ""


class LaunchFailed(FableExecError, OSError):
    """The command was allowed but could not be started; it never ran.

    `stage` names the step that failed, `errno` is the kernel's answer (0 when there was none).
    """

    code = "launch-failed"
    stage: str = ""

    @classmethod
    def at(cls, stage: str, number: int, what: str) -> LaunchFailed:
        """The failure of `stage` on `what` with the kernel's `number`."""
        name = errno_names.errorcode.get(number, str(number))
        meaning = _OF_EXEC.get(number, "") if stage == "exec" else _OF_STAGES.get(stage, "")
        meaning = _OF_SHORTAGES.get(number, meaning)
        return cls(f"could not start the command: {stage} failed with {name} on {what}{meaning}", stage=stage, errno=number)


TOO_MANY_PROCESSES = "this user or control group has as many processes as it may: end some, or raise ulimit -u or pids.max"
"""What fork(2) means by EAGAIN."""
_OF_SHORTAGES = {
    errno_names.EAGAIN: f": {TOO_MANY_PROCESSES}",
    errno_names.ETOOMANYREFS: ": this user hands over as many descriptors as may be on their way: try again, or raise ulimit -n",
}
"""The second is what unix(7) means where descriptors are handed over."""
_OF_EXEC = {
    errno_names.ENOEXEC: ": no program of this system, and no script whose first line names its interpreter, as `#!/bin/sh`",
    errno_names.ENOENT: ": it is not there, or the interpreter or loader that it names",
}
"""What execve(2) means; it says the same of a file and of the interpreter behind it."""
_OF_STAGES = {"private_directory": ": make room and see that it may be written, or name another directory by TMPDIR"}


class AuditUnavailable(FableExecError, OSError):
    """The audit log cannot take another line and the policy asks for one before work goes on."""

    code = "audit-unavailable"


class ExtraMissing(FableExecError, ImportError):
    """What was asked for needs a package that is not installed. `extra` names the extra that brings it."""

    code = "extra-missing"
    extra: str = ""

    @classmethod
    def of(cls, extra: str, package: str) -> ExtraMissing:
        """`package` is not there, which `extra` would have brought."""
        how = f"pip install '.[{extra}]' in a checkout, or 'fable-exec[{extra}]' from an index that has it"
        return cls(f"this needs {package}, which is not installed: {how}", extra=extra)


class StateUnreadable(FableExecError, ValueError):
    """A durable record is torn, foreign, newer than this library, or not private to this user; it was left as it is.

    `reason` is one word of the published list (docs/reference/state-files.md), `path` the file or directory. `outcome` is what a
    whole terminal record beside it tells all the same, or None.
    """

    code = "state-unreadable"
    reason: str = ""
    path: str = ""
    outcome: Mapping[str, Any] | None = None


class Conflict(FableExecError):
    """The request contradicts something that already exists, such as another execution under the same id. `reason` says what."""

    code = "conflict"
    reason: str = ""

    @classmethod
    def inherited(cls, what: str, owner: int) -> Conflict:
        """In a forked child: `what` belongs to the process `owner`, and this one has only a copy of it."""
        return cls(f"{what} belongs to process {owner}, which this one was forked from; start one here", reason="forked")


class UnknownExecution(FableExecError, LookupError):
    """There is no execution of that id below this root. `execution_id` is its one spelling."""

    code = "unknown-execution"
    execution_id: str = ""


class Denied(FableExecError, PermissionError):
    """The policy says no. Nothing was done."""

    code = "denied"


class WritesLocked(Denied):
    """A write, or a command that could write, was asked for while workspace writes are locked."""

    code = "writes-locked"


class ExecutableDenied(Denied):
    """The executable is not listed, was not found when the broker started, or is no longer the file that was listed."""

    code = "executable-denied"


class PathDenied(Denied, ValueError):
    """A path was refused before or while it was resolved.

    `reason` is one word of the published list (docs/reference/paths.md), `path` the text that was refused.
    """

    code = "path-denied"
    reason: str = ""
    path: str = ""


class ArgumentDenied(Denied):
    """An argument rule of the policy refuses this command line."""

    code = "argument-denied"


class ShellDenied(Denied):
    """Text for a shell was refused: the kernel does not hold `protection` here, and no allow-list can see inside a text."""

    code = "shell-denied"
    protection: str = ""


class InvalidRequest(FableExecError, ValueError):
    """The request is not of its form: a wrong type, an unknown member, a value out of bounds."""

    code = "invalid-request"


class FrameTooLarge(InvalidRequest):
    """A frame was longer than the limit; it was skipped to its end and the stream is in step."""

    code = "frame-too-large"


class InvalidJson(InvalidRequest):
    """A line is not JSON at all, or not UTF-8."""

    code = "json-invalid"


class PathError(FableExecError, OSError):
    """The kernel's answer about a path inside the workspace. `reason` is its word, `path` the text asked for."""

    code = "path-error"
    reason: str = ""
    path: str = ""


class PathNotFound(PathError, FileNotFoundError):
    """Nothing has that name."""

    code = "not-found"


class PathExists(PathError, FileExistsError):
    """The name is taken."""

    code = "exists"


class PathIsDirectory(PathError, IsADirectoryError):
    """A directory stands where a file was asked for."""

    code = "is-directory"


class PathNotDirectory(PathError, NotADirectoryError):
    """Something else stands where a directory was asked for."""

    code = "not-a-directory"


class PathPermission(PathError, PermissionError):
    """The system does not permit it to this user; the policy would have."""

    code = "path-permission"


class TreeUnstable(FableExecError):
    """A tree has no digest now, because it is being changed or somebody could change it unseen.

    `reason` is `changed`, `writer` or `unproven` (docs/reference/tree-digests.md), `paths` some of those that it is about.
    """

    code = "tree-unstable"
    reason: str = ""
    paths: tuple[str, ...] = ()


class ProofNotBound(FableExecError):
    """The proof that a run left is not shown to be of this very run and of this tree, so nothing may be built on it.

    `reasons` lists all that stands against it (docs/reference/proofs.md).
    """

    code = "proof-not-bound"
    reasons: tuple[str, ...] = ()


class IdentityLost(FableExecError, ProcessLookupError):
    """The process is gone or cannot be proved to be the recorded one; no signal was sent.

    `gone` says which: true when it is no more (or a zombie), false when neither that nor the contrary is proved.
    """

    code = "identity-lost"
    gone: bool = False


class SignalRefused(FableExecError, PermissionError):
    """A signal was not sent, because it could have reached one who must not get it. `reason` says whom, or what had changed."""

    code = "signal-refused"
    reason: str = ""


class BrokerGone(FableExecError, ConnectionError):
    """The broker process ended or closed its channel; what it ran has been ended with it."""

    code = "broker-gone"


class InternalError(FableExecError):
    """An invariant of this library does not hold. Please report it."""

    code = "internal-error"
