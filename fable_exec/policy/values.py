"""The policy of one broker as frozen values; each field stands with its rule, its default and its meaning.

Rules run in `__attrs_post_init__`, not in attrs validators: those can be switched off for the whole process. A value that exists
has passed every rule. Reading documents is `document`, writing them `canonical`, combining two policies `narrowing`.

To add a field: write it here with its rule, give its narrowing, regenerate the schema, describe it in docs/reference/policy.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import attrs

from fable_exec.policy.arguments import ArgumentPolicy
from fable_exec.policy.assurance import AssurancePolicy
from fable_exec.policy.confinement import Confinement
from fable_exec.policy.fields import ruled, settle, texts, texts_or_none
from fable_exec.policy.forms import environment_entry, executable_entry, path_directory, protected_name, token_digest
from fable_exec.policy.misplacing import misplaced
from fable_exec.policy.names import is_injection_name, pattern_admits
from fable_exec.policy.rules import (
    AbsoluteFile,
    Faults,
    Flag,
    FrozenMapping,
    Items,
    Nested,
    OneOf,
    OrNone,
    Seconds,
    Text,
    Variables,
    Whole,
    WorkspaceDirectory,
)

__all__ = ["ArgumentPolicy", "AssurancePolicy", "AuditRules", "BrokerPolicy", "EnvironmentPolicy", "Limits", "PathRules"]

_KIB = 1024
_MIB = 1024 * 1024
_LONGEST_SECONDS = 3600.0
_ENVIRONMENT_ENTRIES = Items(Text(environment_entry, {"pattern": r"^[A-Za-z_][A-Za-z0-9_.()-]*\*?$"}))


def _path(value: str | Path) -> Path:
    """Only tells the type checker that a string is taken; the field's rule makes it a path."""
    return cast("Path", value)


def _path_or_none(value: str | Path | None) -> Path | None:
    return cast("Path | None", value)


@attrs.frozen(kw_only=True)
class EnvironmentPolicy:
    """The environment of commands: an allow-list. Nothing that is not named here, or set by the library itself, reaches one.

    `inherit` and `request_names` hold names or `PREFIX*`. A pattern never admits an injection name (`is_injection_name`).
    """

    set: Mapping[str, str] = attrs.field(
        default=FrozenMapping(), metadata=ruled(Variables(), "Variables every command gets, with their values.")
    )
    inherit: tuple[str, ...] = attrs.field(
        default=(),
        converter=texts,
        metadata=ruled(
            _ENVIRONMENT_ENTRIES,
            "Variables of the host that commands get: names, or a prefix followed by *.",
        ),
    )
    request_names: tuple[str, ...] = attrs.field(
        default=(),
        converter=texts,
        metadata=ruled(
            _ENVIRONMENT_ENTRIES,
            "Variables a request may set for its own command: names, or a prefix followed by *.",
        ),
    )
    path: tuple[str, ...] | None = attrs.field(
        default=None,
        converter=texts_or_none,
        metadata=ruled(
            OrNone(Items(Text(path_directory, {"minLength": 1}), at_least=1)),
            "Directories of PATH, for commands and for finding bare names of the allow-list; null is the host's trusted PATH.",
        ),
    )

    def __attrs_post_init__(self) -> None:
        settle(self)

    def inherits(self, name: str) -> bool:
        """Whether commands get the host's variable of this name."""
        return pattern_admits(self.inherit, name)

    def admits_request(self, name: str) -> bool:
        """Whether a request may set this variable for its command."""
        return pattern_admits(self.request_names, name)

    @property
    def injection_names(self) -> tuple[str, ...]:
        """Injection names that this policy lets through because it names them in full, sorted; for reports."""
        named = {*self.set, *self.inherit, *self.request_names}
        return tuple(sorted(name for name in named if not name.endswith("*") and is_injection_name(name)))


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds of time and size for one request, one answer, and the requests in flight; and what a command may use up."""

    timeout_seconds: float = attrs.field(
        default=120.0, metadata=ruled(Seconds(_LONGEST_SECONDS), "How long a command may run when its request does not say.")
    )
    max_timeout_seconds: float = attrs.field(
        default=_LONGEST_SECONDS, metadata=ruled(Seconds(_LONGEST_SECONDS), "Longest time a request may ask for.")
    )
    idle_timeout_seconds: float | None = attrs.field(
        default=None,
        metadata=ruled(OrNone(Seconds(_LONGEST_SECONDS)), "How long a command may stay without output; null is no limit."),
    )
    max_frame_bytes: int = attrs.field(
        default=_MIB, metadata=ruled(Whole(64 * _KIB, 64 * _MIB), "Longest request line, in bytes, without its newline.")
    )
    max_answer_bytes: int = attrs.field(
        default=16 * _MIB, metadata=ruled(Whole(64 * _KIB, 1024 * _MIB), "Longest encoded answer line, in bytes.")
    )
    max_in_flight: int = attrs.field(default=64, metadata=ruled(Whole(1, 4096), "Requests that may be worked on at one time."))
    memory_bytes: int | None = attrs.field(
        default=None,
        metadata=ruled(OrNone(Whole(32 * _MIB)), "Most memory of a command with everything it started; null is no limit."),
    )
    processes: int | None = attrs.field(
        default=None,
        metadata=ruled(
            OrNone(Whole(1, 1_000_000)),
            "Most processes, threads included, that a command may have at one time; null is no limit.",
        ),
    )
    cpu_seconds: int | None = attrs.field(
        default=None,
        metadata=ruled(
            OrNone(Whole(1, 1_000_000)),
            "Processor time of each process, and of a command with everything it started; null is no limit.",
        ),
    )
    file_size_bytes: int | None = attrs.field(
        default=None, metadata=ruled(OrNone(Whole(1)), "Largest file that a command may write; null is no limit.")
    )
    open_files: int | None = attrs.field(
        default=None,
        metadata=ruled(OrNone(Whole(16, 1_048_576)), "Descriptors that each process may have; null leaves the host's limit."),
    )

    def __attrs_post_init__(self) -> None:
        settle(self)

    @staticmethod
    def cross_faults(checked: Mapping[str, Any]) -> Faults:
        """What is wrong between fields; those that are faulty themselves, or keep their default, may be missing."""
        default, longest = checked.get("timeout_seconds"), checked.get("max_timeout_seconds", _LONGEST_SECONDS)
        if default is None or default <= longest:
            return []
        return [("timeout_seconds", f"must be at most max_timeout_seconds ({longest:g}), not {default:g}")]


@attrs.frozen(kw_only=True)
class PathRules:
    """How paths of requests are read, and which files may be read."""

    file_trust: Literal["private", "regular"] = attrs.field(
        default="private",
        metadata=ruled(
            OneOf(("private", "regular")),
            "private refuses to read hard links and what others or a group of others can write; regular takes any regular file.",
        ),
    )
    backslash: Literal["separator", "refuse", "literal"] = attrs.field(
        default="separator",
        metadata=ruled(OneOf(("separator", "refuse", "literal")), "What a backslash in a path of a request means."),
    )
    protected: tuple[str, ...] = attrs.field(
        default=(),
        converter=texts,
        metadata=ruled(
            Items(Text(protected_name, {"pattern": r"^[^/\\]+$"})),
            "Names that no path of a request may contain, in any spelling.",
        ),
    )

    def __attrs_post_init__(self) -> None:
        settle(self)


@attrs.frozen(kw_only=True)
class AuditRules:
    """Where decisions and outcomes are written down, and what holds when that fails."""

    path: Path | None = attrs.field(
        default=None,
        converter=_path_or_none,
        metadata=ruled(
            OrNone(AbsoluteFile()),
            "Absolute path of the audit log, in a directory that exists, outside the workspace; null keeps none.",
        ),
    )
    on_failure: Literal["refuse", "continue"] = attrs.field(
        default="refuse",
        metadata=ruled(
            OneOf(("refuse", "continue")), "When a line cannot be written: refuse further work, or go on and mark the gap later."
        ),
    )

    def __attrs_post_init__(self) -> None:
        settle(self)


@attrs.frozen(kw_only=True)
class BrokerPolicy:
    """Everything a broker may do, checked as a whole: a faulty one raises PolicyError that lists every fault.

    `workspace` is a string or a path of an existing directory and is resolved once. Lists may be given for tuples. The value is
    immutable and hashable; `digest` names its content.
    """

    workspace: Path = attrs.field(
        converter=_path,
        metadata=ruled(
            WorkspaceDirectory(), "Existing directory that requests work in; ~ is expanded, links are resolved, once."
        ),
    )
    allowed_executables: tuple[str, ...] = attrs.field(
        default=("python", "python3", "pytest"),
        converter=texts,
        metadata=ruled(
            Items(Text(executable_entry, {"minLength": 1})),
            "Programs that commands may start: bare names, found once in PATH, or absolute paths; ~ is expanded.",
        ),
    )
    max_output_bytes: int = attrs.field(
        default=1_000_000, metadata=ruled(Whole(1), "Most bytes kept of each output stream of a command, and of one read.")
    )
    write_token_digest: str | None = attrs.field(
        default=None,
        repr=False,
        metadata=ruled(
            OrNone(Text(token_digest, {"pattern": r"^\s*([0-9A-Fa-f]{64})?\s*$"}, secret=True)),
            "SHA-256 of the token that unlocks writes, in hexadecimal; null or blank means writes stay locked for good.",
        ),
    )
    on_output_limit: Literal["kill", "truncate"] = attrs.field(
        default="kill",
        metadata=ruled(OneOf(("kill", "truncate")), "What happens at max_output_bytes: end the command, or keep head and tail."),
    )
    environment: EnvironmentPolicy = attrs.field(
        factory=EnvironmentPolicy, metadata=ruled(Nested(EnvironmentPolicy), "The environment of commands.")
    )
    limits: Limits = attrs.field(factory=Limits, metadata=ruled(Nested(Limits), "Bounds of time, size and number."))
    paths: PathRules = attrs.field(factory=PathRules, metadata=ruled(Nested(PathRules), "How paths are read."))
    audit: AuditRules = attrs.field(factory=AuditRules, metadata=ruled(Nested(AuditRules), "The audit log."))
    confinement: Confinement = attrs.field(
        factory=Confinement, metadata=ruled(Nested(Confinement), "What the kernel is asked to hold for commands.")
    )
    locked_commands: Literal["readonly", "deny"] = attrs.field(
        default="readonly",
        metadata=ruled(
            OneOf(("readonly", "deny")),
            "While locked: any command, with the workspace read-only where the kernel holds that; or only those known to read.",
        ),
    )
    argument_rules: ArgumentPolicy = attrs.field(
        factory=ArgumentPolicy, metadata=ruled(Nested(ArgumentPolicy), "How the arguments of commands are judged.")
    )
    assurance: AssurancePolicy = attrs.field(
        factory=AssurancePolicy,
        metadata=ruled(Nested(AssurancePolicy), "What must be true of the policy before anything runs under it."),
    )
    pin_executable_digest: bool = attrs.field(
        default=False,
        metadata=ruled(Flag(), "Also compare the SHA-256 of an executable before each start, not only its device and inode."),
    )
    launch: Literal["auto", "slots", "namespace", "plain"] = attrs.field(
        default="auto",
        metadata=ruled(
            OneOf(("auto", "slots", "namespace", "plain")),
            "How commands are started; auto takes the strongest way this host has.",
        ),
    )

    def __attrs_post_init__(self) -> None:
        settle(self)

    @staticmethod
    def cross_faults(checked: Mapping[str, Any]) -> Faults:
        """What is wrong between fields; those that are faulty themselves, or keep their default, may be missing."""
        workspace: Path | None = checked.get("workspace")
        if workspace is None:
            return []
        return misplaced(
            workspace,
            checked.get("confinement", Confinement()),
            audit_log=checked.get("audit", AuditRules()).path,
            rule_files=checked.get("argument_rules", ArgumentPolicy()).paths,
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON form, as 64 hexadecimal digits."""
        from fable_exec.policy.canonical import digest_of

        return digest_of(self)

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any], *, given_by: Mapping[str, str] | None = None) -> BrokerPolicy:
        """The policy of a parsed document; unknown keys are faults, null means the default.

        Args:
            given_by: by paths in the document, what gave the value there when that was not the document itself, such as a flag:
                a fault there is told by this name.

        Raises:
            PolicyError: with every fault.
        """
        from fable_exec.policy.document import policy_from_mapping

        return policy_from_mapping(document, given_by or {})

    @classmethod
    def from_toml(cls, path: str | Path) -> BrokerPolicy:
        """The policy of a TOML file. Raises PolicyError, also when the file cannot be read."""
        from fable_exec.policy.document import load_toml

        return load_toml(path)

    @classmethod
    def from_json(cls, path: str | Path) -> BrokerPolicy:
        """The policy of a JSON file. Raises PolicyError, also when the file cannot be read."""
        from fable_exec.policy.document import load_json

        return load_json(path)
