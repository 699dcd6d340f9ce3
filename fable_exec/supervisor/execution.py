"""One execution as it was found: its state with the outcome in it, and how it fares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import IdentityLost, StateUnreadable, UnknownExecution
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.holding import is_held, last_touched
from fable_exec.executions.moments import written
from fable_exec.lifecycle import Facts, Health, Liveness, State, TerminalReason, exit_status, health_by_looking
from fable_exec.procident import ProcessHandle, ProcessIdentity
from fable_exec.statefile import Reading

__all__ = ["Execution", "UnreadableExecution", "looked_at", "required"]


@attrs.frozen(kw_only=True)
class Execution:
    """One execution at one moment. Look again with `Supervisor.get`.

    Attributes:
        document: the members of state.json; the outcome is in it wherever that was found.
        health: how it fares, looked at and not written.
        directory: where it lies.
    """

    document: Mapping[str, Any] = attrs.field(repr=False)
    health: Health
    directory: Path

    @property
    def execution_id(self) -> str:
        """The UUID that it was started under, in lower case with hyphens."""
        found: str = self.document["execution_id"]
        return found

    @property
    def state(self) -> State:
        """What its record says: accepted, running or exited. Whether somebody keeps it is `health`."""
        return State(self.document["state"])

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and its outcome is recorded."""
        return self.state is State.EXITED

    @property
    def termination_reason(self) -> TerminalReason | None:
        """Why it ended; None while it has not."""
        word = self.document["termination_reason"]
        return None if word is None else TerminalReason(word)

    @property
    def exit_code(self) -> int | None:
        """The leader's status; None while it runs, and where a signal ended it or nobody was told."""
        found: int | None = self.document["exit_code"]
        return found

    @property
    def signal(self) -> int | None:
        """The signal that ended the leader."""
        found: int | None = self.document["signal"]
        return found

    @property
    def exit_status(self) -> int:
        """What a supervisor in the foreground exits with: docs/reference/lifecycle.md. 125 while it has not ended."""
        members = self.document
        return exit_status(
            Facts(launch_error=members["launch_error"], exec_errno=members.get("launch_errno"), returncode=members["returncode"])
        )

    @property
    def runner_log(self) -> Path:
        """Both streams of the job."""
        return Path(self.document["runner_log"])

    def to_members(self) -> dict[str, Any]:
        """Everything as plain JSON: the document, and what was looked at."""
        return {**self.document, "health": self.health.value}


@attrs.frozen(kw_only=True)
class UnreadableExecution:
    """A directory of an execution whose state cannot be believed. It is left as it is; who wants its place moves it aside.

    Attributes:
        directory: where it lies.
        error: what is wrong with it, and what its terminal record tells all the same.
    """

    directory: Path
    error: StateUnreadable

    health = "unreadable"

    @property
    def execution_id(self) -> str:
        """The name of its directory: what is in it cannot be believed."""
        return self.directory.name

    def to_members(self) -> dict[str, Any]:
        """As plain JSON: of the members that an Execution has only the id, `state` (null) and `health`."""
        return {
            "execution_id": self.execution_id,
            "state": None,
            "health": self.health,
            "error": str(self.error),
            "reason": self.error.reason,
            "outcome": None if self.error.outcome is None else dict(self.error.outcome),
        }


def as_unreadable(error: StateUnreadable | OSError, directory: ExecutionDirectory) -> StateUnreadable:
    """What keeps a state from being read, as the one kind of error that its reader is told of."""
    if isinstance(error, StateUnreadable):
        return error
    path = str(directory.path)
    return StateUnreadable(f"{ascii(path)[:400]} cannot be read: {error}", reason="not-private", path=path)


def required(directory: ExecutionDirectory) -> Execution:
    """The same as `looked_at`. Raises UnknownExecution where there is none."""
    found = looked_at(directory)
    if found is None:
        raise unknown(directory)
    return found


def unknown(directory: ExecutionDirectory) -> UnknownExecution:
    """The error for an id that nothing was accepted under."""
    execution_id = directory.execution_id
    words = f"there is no execution {execution_id} in {ascii(str(directory.path.parent))[:400]}"
    return UnknownExecution(words, execution_id=execution_id)


def looked_at(directory: ExecutionDirectory) -> Execution | None:
    """The execution in `directory` as of now; None where there is no state. Takes no lock but for moments.

    Raises:
        StateUnreadable: there is one that cannot be believed. OSError.
    """
    readings: list[Reading] = []

    def state() -> State:
        reading = directory.state.read()
        if reading is None:
            raise FileNotFoundError
        readings.append(reading)
        return state_in(reading.document, directory)

    def keeper() -> Liveness:
        return Liveness.ALIVE if is_held(directory.run_lock) else Liveness.DEAD

    try:
        health = health_by_looking(state, keeper, lambda: liveness_of_runner(readings[-1].document))
    except FileNotFoundError:
        return None
    touched = last_touched(directory.run_lock)
    heartbeat = None if touched is None else written(touched)
    return Execution(document={**readings[-1].document, "heartbeat": heartbeat}, health=health, directory=directory.path)


def state_in(document: Mapping[str, Any], directory: ExecutionDirectory) -> State:
    """The word of the document. Raises StateUnreadable when it is none of ours."""
    try:
        return State(document.get("state"))
    except ValueError:
        path = str(directory.path)
        words = f"the state in {ascii(path)[:400]} is none that this library writes: {document.get('state')!a:.80}"
        raise StateUnreadable(words, reason="foreign", path=path) from None


def liveness_of_runner(document: Mapping[str, Any]) -> Liveness:
    """Whether the recorded leader lives. What cannot be told is neither."""
    members = document.get("runner_identity")
    if members is None:
        return Liveness.DEAD
    try:
        with ProcessHandle.reopen(ProcessIdentity.from_members(members)):
            return Liveness.ALIVE
    except IdentityLost as lost:
        return Liveness.DEAD if lost.gone else Liveness.UNKNOWN
