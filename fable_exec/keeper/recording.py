"""What becomes durable of an accepted execution: that it runs, how attempts ended, and the outcome, once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fable_exec.errors import FableExecError
from fable_exec.executions import now
from fable_exec.executions.documents import Attempt, Containment, Emptiness, Usage, attempted, outcome, running
from fable_exec.executions.holding import touch
from fable_exec.keeper.chronicle import Chronicle
from fable_exec.keeper.claiming import Claim
from fable_exec.keeper.output import OutputLog
from fable_exec.keeper.waiting import Stamp, stamp_of
from fable_exec.lifecycle import Progress
from fable_exec.procident import ProcessIdentity
from fable_exec.statefile.state import STATE_NAME

__all__ = ["Recorder"]

_CONCLUDE_TRIES = 5
_CONCLUDE_PAUSE_SECONDS = 0.2


class Recorder:
    """Of one execution.

    Attributes:
        told: members of the state beside those that the lifecycle gives, written with the outcome.
        usage: of all attempts that ended.
    """

    def __init__(self, claimed: Claim, chronicle: Chronicle) -> None:
        self._claim, self._directory, self._chronicle = claimed, claimed.directory, chronicle
        self._earlier: list[Attempt] = []
        self.told: dict[str, Any] = {}
        self.usage: Usage | None = None

    @property
    def state_path(self) -> str:
        """Of state.json."""
        return f"{self._directory.path}/{STATE_NAME}"

    def running(self, leader: ProcessIdentity, containment: Containment, attempt: int) -> tuple[str, Stamp | None]:
        """Before the gate opens: who runs; when that was, and what state.json is since, None when a stop stands in it already.

        Raises FableExecError, OSError.
        """
        started_at = now()
        members = {**running(leader, containment, started_at), **attempted(attempt, self._earlier)}
        return started_at, self.write(members)

    def attempt_ended(self, progress: Progress, started_at: str, exited_at: str | None) -> None:
        """It is to be followed by another one."""
        self._earlier.append(Attempt(progress.facts, started_at, exited_at))
        try:
            self.write(attempted(progress.attempt, self._earlier))
        except (OSError, FableExecError) as error:
            self._chronicle.note("attempt not recorded", error=str(error))  # it is written again with what comes next

    def ended(
        self,
        progress: Progress,
        exited_at: str | None,
        emptiness: Emptiness | None,
        output: OutputLog | None,
        proof: Mapping[str, Any] | None,
    ) -> None:
        """The outcome."""
        members = outcome(
            progress.facts, finished_at=now(), exited_at=exited_at, emptiness=emptiness, usage=self.usage, proof=proof
        )  # fmt: skip
        written = {} if output is None else {
            "output_bytes": output.written_bytes, "output_dropped_bytes": output.dropped_bytes
        }  # fmt: skip
        attempts = attempted(progress.attempt, self._earlier[: progress.attempt - 1])
        self.conclude({**self.told, **written, **attempts, **members})

    def conclude(self, members: dict[str, Any]) -> None:
        """The one terminal write; where neither the record nor the state can be written it is tried again, and then said."""
        for _ in range(_CONCLUDE_TRIES):
            try:
                self._directory.state.conclude(self._claim.record, members)
            except (OSError, FableExecError) as error:
                self._chronicle.note("outcome not recorded", error=str(error), outcome=members)
                time.sleep(_CONCLUDE_PAUSE_SECONDS)
            else:
                return

    def write(self, members: dict[str, Any]) -> Stamp | None:
        """Add them to the state, durably; what state.json is since, None when a stop stands in it.

        Raises FableExecError, OSError.
        """
        with self._directory.state.locked() as held:
            document = {**held.require().document, **members}
            held.write(document)
            return None if document.get("stop_requested_at") is not None else stamp_of(self.state_path)

    def is_stop_requested(self) -> bool:
        """Whether the state says so; where it cannot be read it is asked again later."""
        try:
            reading = self._directory.state.read()
        except (OSError, FableExecError) as error:
            self._chronicle.note("state not read", error=str(error))
            return False  # no request, and no end of the job either
        return reading is not None and reading.document.get("stop_requested_at") is not None

    def sign_of_life(self) -> None:
        """Leave one."""
        try:
            touch(self._claim.run_lock)
        except OSError as error:
            self._chronicle.note("no sign of life", error=str(error))
