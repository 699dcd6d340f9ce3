"""One execution as it was found: its state with the outcome in it, and how it fares."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.holding import is_held, last_touched
from fable_exec.lifecycle import Health, Liveness, State, TerminalReason, health_by_looking
from fable_exec.statefile import Reading

__all__ = ["Execution", "looked_at"]


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
        found: str = self.document["execution_id"]
        return found

    @property
    def state(self) -> State:
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
    def runner_log(self) -> Path:
        """Both streams of the job."""
        return Path(self.document["runner_log"])

    def to_members(self) -> dict[str, Any]:
        """Everything as plain JSON: the document, and what was looked at."""
        return {**self.document, "health": self.health.value}


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
        return State(reading.document["state"])

    def keeper() -> Liveness:
        return Liveness.ALIVE if is_held(directory.run_lock) else Liveness.DEAD

    try:
        health = health_by_looking(state, keeper, lambda: liveness_of_runner(readings[-1].document))
    except FileNotFoundError:
        return None
    touched = last_touched(directory.run_lock)
    heartbeat = None if touched is None else datetime.fromtimestamp(touched, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return Execution(document={**readings[-1].document, "heartbeat": heartbeat}, health=health, directory=directory.path)


def liveness_of_runner(document: Mapping[str, Any]) -> Liveness:
    """Whether the recorded leader lives. What cannot be told is neither."""
    from fable_exec.errors import IdentityLost
    from fable_exec.procident import ProcessHandle, ProcessIdentity

    members = document.get("runner_identity")
    if members is None:
        return Liveness.DEAD
    try:
        with ProcessHandle.reopen(ProcessIdentity.from_members(members)):
            return Liveness.ALIVE
    except IdentityLost as lost:
        return Liveness.DEAD if lost.gone else Liveness.UNKNOWN
