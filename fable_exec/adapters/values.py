"""What goes into an agent's workspace and what comes out: requests, events, launch specifications. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from fable_exec.outcome import Denial, OnOutputLimit
from fable_exec.protocol import CommandResult

__all__ = [
    "CommandDenial",
    "CommandFinished",
    "CommandOutput",
    "CommandStarted",
    "GlobResult",
    "LaunchSpec",
    "RunRequest",
    "WorkspaceEvent",
]


def _words(given: str | tuple[str, ...] | list[str]) -> str | tuple[str, ...]:
    return given if isinstance(given, str) else tuple(given)


@attrs.frozen
class RunRequest:
    """One command. What is None is the policy's default.

    Args:
        command: the executable and its arguments, or one text for `sh -c`, which only runs where the kernel confines it.
        cwd: a directory of the workspace, as its view names it.
        env: variables that the policy lets requests set (`environment.request_names`).
        stdin: input; None is /dev/null.
        timeout_seconds, idle_timeout_seconds: from the start, and without output.
        on_output_limit: whether too much output ends the command, or is left out.
    """

    command: str | tuple[str, ...] = attrs.field(converter=_words)
    cwd: str | None = attrs.field(default=None, kw_only=True)
    env: Mapping[str, str] = attrs.field(factory=dict, kw_only=True, hash=False)
    stdin: bytes | None = attrs.field(default=None, kw_only=True)
    timeout_seconds: float | None = attrs.field(default=None, kw_only=True)
    idle_timeout_seconds: float | None = attrs.field(default=None, kw_only=True)
    on_output_limit: OnOutputLimit | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class CommandStarted:
    """The command runs."""


@attrs.frozen
class CommandOutput:
    """The command wrote `data` to `stream`, after `offset` bytes that it had written there before."""

    stream: Literal["stdout", "stderr"]
    data: bytes
    offset: int


@attrs.frozen
class CommandDenial:
    """The kernel refused something to the command; told when the command is over, which is when it is known for certain."""

    denial: Denial


@attrs.frozen
class CommandFinished:
    """The command is over and nothing of it is alive; the last event."""

    result: CommandResult


WorkspaceEvent: TypeAlias = CommandStarted | CommandOutput | CommandDenial | CommandFinished


@attrs.frozen(kw_only=True)
class LaunchSpec:
    """How a framework that starts processes itself starts this one: ``Popen(spec.argv, env=spec.env, cwd=spec.cwd, ...)``.

    The process passes standard input and output through, exits with the status of docs/reference/adapters.md, and ends the whole
    tree when it is killed, when nobody reads its output, and when the process that made this specification ends.
    `env` holds the policy, so it is as private as that; the command does not get it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = attrs.field(repr=False)
    cwd: str


@attrs.frozen(kw_only=True)
class GlobResult:
    """Paths that fit a pattern, sorted; `truncated` when there may be more."""

    matches: tuple[str, ...]
    truncated: bool
