"""From the arguments of a typed call to its request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from fable_exec.errors import InternalError, InvalidRequest
from fable_exec.protocol import ExecuteCommand, Result, StartCommand

__all__ = ["as_bytes", "background_request", "command_request", "expect"]

_R = TypeVar("_R", bound=Result)


def as_bytes(value: str | bytes, name: str) -> bytes:
    """Text as UTF-8, bytes as they are. Raises InvalidRequest for anything else."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text or bytes, not {type(value).__name__}")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{name} holds a lone surrogate") from None


def command_request(
    command: Iterable[str],
    cwd: str | None,
    timeout_seconds: float | None,
    stdin: str | bytes | None,
    env: Mapping[str, str] | None,
    idle_timeout_seconds: float | None,
    on_output_limit: str | None,
    stream: bool,
) -> ExecuteCommand:
    """The request to run a command in front."""
    return ExecuteCommand(
        **_members(command, cwd, timeout_seconds, stdin, env, idle_timeout_seconds, on_output_limit), stream=stream
    )


def background_request(
    command: Iterable[str],
    cwd: str | None,
    timeout_seconds: float | None,
    stdin: str | bytes | None,
    env: Mapping[str, str] | None,
    idle_timeout_seconds: float | None,
    on_output_limit: str | None,
    keep_stdin_open: bool,
) -> StartCommand:
    """The request to start a command."""
    members = _members(command, cwd, timeout_seconds, stdin, env, idle_timeout_seconds, on_output_limit)
    return StartCommand(**members, keep_stdin_open=keep_stdin_open)


def _members(
    command: Any, cwd: Any, timeout_seconds: Any, stdin: Any, env: Any, idle_timeout_seconds: Any, on_output_limit: Any
) -> dict[str, Any]:
    return {
        "command": command,
        "cwd": cwd,
        "timeout_seconds": timeout_seconds,
        "stdin": None if stdin is None else as_bytes(stdin, "stdin"),
        "env": {} if env is None else env,
        "idle_timeout_seconds": idle_timeout_seconds,
        "on_output_limit": on_output_limit,
    }


def expect(result: Result, kind: type[_R]) -> _R:
    """`result`, which can only be of `kind`."""
    if not isinstance(result, kind):
        raise InternalError(f"a {kind.__name__} was due, not a {type(result).__name__}")
    return result
