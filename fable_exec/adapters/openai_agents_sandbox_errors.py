"""Errors of ours as those that OpenAI's Agents SDK knows of sandbox sessions, each with our word for the reason in its context.

It loads the SDK: `fable_exec.adapters.openai_agents_sandbox` is the way in, and says what is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from agents.sandbox.errors import (
    ExecNonZeroError,
    ExecTransportError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
)
from agents.sandbox.types import ExecResult

from fable_exec.errors import FableExecError, PathNotFound

__all__ = ["as_program", "context", "program_error", "reading", "start_error", "starting", "transport", "writing"]


def context(error: BaseException) -> dict[str, object]:
    """What goes with an error of the SDK: our reason or code, and the sentence."""
    reason = getattr(error, "reason", "") or getattr(error, "code", "") or type(error).__name__
    return {"reason": reason, "message": str(error)}


@contextlib.contextmanager
def starting(root: str) -> Iterator[None]:
    """What the system refuses, or could never be a directory there, is a WorkspaceStartError."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:  # the last: thousands of directories, each made for the one below
        raise start_error(Path(root), error) from error


def start_error(root: Path, error: Exception) -> Exception:
    """The error of a session over `root` that cannot start."""
    message = f"the session cannot start: {error}"
    return cast(Exception, WorkspaceStartError(path=root, context=context(error), cause=error, message=message))


@contextlib.contextmanager
def transport(command: Any) -> Iterator[None]:
    """What keeps a command from having a result is an ExecTransportError, which ends the run of an agent."""
    try:
        yield
    except FableExecError as error:
        raise ExecTransportError(command=command, context=context(error), cause=error, message=str(error)) from error


@contextlib.contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """What is not there is a WorkspaceReadNotFoundError, all else a WorkspaceArchiveReadError."""
    try:
        yield
    except PathNotFound as error:
        raise WorkspaceReadNotFoundError(path=Path(path), context=context(error), cause=error) from error
    except (FableExecError, OSError) as error:
        raise WorkspaceArchiveReadError(path=Path(path), context=context(error), cause=error) from error


@contextlib.contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """A refusal is a WorkspaceArchiveWriteError; FileExistsError stays, which the SDK knows."""
    try:
        yield
    except FileExistsError:
        raise
    except (FableExecError, OSError) as error:
        raise WorkspaceArchiveWriteError(path=Path(path), context=context(error), cause=error, message=str(error)) from error


@contextlib.contextmanager
def as_program(*command: str) -> Iterator[None]:
    """What the SDK has a program do elsewhere fails as that program would."""
    try:
        yield
    except (FableExecError, OSError) as error:
        raise program_error(error, *command) from error


def program_error(error: Exception, *command: str) -> ExecNonZeroError:
    """The error of a program that said so and ended with 1."""
    said = ExecResult(stdout=b"", stderr=f"{error}\n".encode("utf-8", "replace"), exit_code=1)
    return ExecNonZeroError(said, command=command, context=context(error), cause=error)
