"""Record the ends that their keepers could not: what is known is written, and nothing is invented or run again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import Conflict, InternalError, StateUnreadable
from fable_exec.executions import ExecutionDirectory, now
from fable_exec.executions.documents import outcome, unproved
from fable_exec.executions.holding import give_back, take
from fable_exec.keeper.surroundings import remove_apart
from fable_exec.lifecycle import (
    Action,
    Health,
    HostRebooted,
    KeeperLost,
    Liveness,
    Progress,
    State,
    TerminalReason,
    health,
    step,
)
from fable_exec.procident import ProcessIdentity, identify
from fable_exec.statefile import Reading, Source
from fable_exec.supervisor.execution import liveness_of_runner, state_in
from fable_exec.supervisor.orphans import end_orphans

__all__ = ["Done", "Recovered", "recovered"]


class Done(Enum):
    """What `recover` did with an execution that nobody keeps; the value is the word for people and on the wire."""

    RECORDED = "recorded"
    """Its end is recorded now: keeper_lost or host_rebooted."""
    WRITTEN_THROUGH = "written-through"
    """Its keeper had recorded the end, and could not write the state any more: that has it now."""
    LEFT = "left"
    """Nothing was done, and `text` says why."""


@attrs.frozen(kw_only=True)
class Recovered:
    """One execution that nobody kept.

    Args:
        found: how it fared; None where its state cannot be believed.
        termination_reason: why it ended; None where nothing was done.
        text: why nothing was done, or what could not be; for people.
    """

    execution_id: str
    found: Health | None
    done: Done
    termination_reason: TerminalReason | None = None
    text: str = ""

    def to_members(self) -> dict[str, Any]:
        """As plain JSON."""
        reason = self.termination_reason
        return {
            "execution_id": self.execution_id,
            "found": "unreadable" if self.found is None else self.found.value,
            "done": self.done.value,
            "termination_reason": None if reason is None else reason.value,
            "text": self.text,
        }


def recovered(directory: ExecutionDirectory) -> Recovered | None:
    """What was done about the execution; None where there was nothing to do, or somebody keeps it."""
    try:
        reading = directory.state.read()
        if reading is None or _is_settled(reading, directory):
            return None
        lock = take(directory.run_lock)
        if lock is None:
            return None
        try:
            return _recover(directory)
        finally:
            give_back(lock)
    except FileNotFoundError:
        return None  # it was pruned
    except (StateUnreadable, OSError) as error:
        return Recovered(execution_id=directory.execution_id, found=None, done=Done.LEFT, text=str(error))


def _is_settled(reading: Reading, directory: ExecutionDirectory) -> bool:
    return state_in(reading.document, directory) is State.EXITED and reading.source is Source.STATE_FILE


def _recover(directory: ExecutionDirectory) -> Recovered | None:
    """With the lock of the keeper's life in hand: nobody else records an end now."""
    reading = directory.state.read()
    if reading is None or _is_settled(reading, directory):
        return None  # another was faster
    state = state_in(reading.document, directory)
    found = health(state, Liveness.DEAD, liveness_of_runner(reading.document))
    try:
        if state is State.EXITED:
            return _write_through(directory, found)
        return _conclude(directory, reading.document, found)
    except (Conflict, OSError) as error:
        return Recovered(execution_id=directory.execution_id, found=found, done=Done.LEFT, text=str(error))


def _write_through(directory: ExecutionDirectory, found: Health) -> Recovered:
    with directory.state.locked() as held:
        document = held.require().document
        held.write(document)
    return _told(directory, found, Done.WRITTEN_THROUGH, document)


def _conclude(directory: ExecutionDirectory, document: Mapping[str, Any], found: Health) -> Recovered:
    emptiness = None
    event: HostRebooted | KeeperLost = HostRebooted()
    if not _is_of_another_boot(document):
        event, emptiness = KeeperLost(), end_orphans(document)
        if emptiness is None:
            words = "whether its job lives cannot be told from here: nothing was signalled, and no end recorded"
            return Recovered(execution_id=directory.execution_id, found=found, done=Done.LEFT, text=words)
    progress, actions = step(Progress.recovered(state_in(document, directory)), event)
    if actions != (Action.RECORD_OUTCOME,):
        raise InternalError(f"{actions} is not what `recover` can do")
    proof = unproved(progress.facts) if document.get("verdict") == "proof" else None
    members = outcome(progress.facts, finished_at=now(), emptiness=emptiness, proof=proof)
    with directory.state.terminal_record() as record:
        directory.state.conclude(record, members)
    if document.get("runtime_directory"):  # its keeper would have removed it
        remove_apart(Path(document["runtime_directory"]), directory.path)
    remaining = members["descendants"]["remaining_pids"]
    return _told(directory, found, Done.RECORDED, members, f"not ended: {', '.join(map(str, remaining))}" if remaining else "")


def _told(directory: ExecutionDirectory, found: Health, done: Done, document: Mapping[str, Any], text: str = "") -> Recovered:
    reason = TerminalReason(document["termination_reason"])
    return Recovered(execution_id=directory.execution_id, found=found, done=done, termination_reason=reason, text=text)


def _is_of_another_boot(document: Mapping[str, Any]) -> bool:
    """Whether its keeper was started before this boot, where both boots have a name."""
    then = ProcessIdentity.from_members(document["supervisor_identity"]).boot_id
    this = identify(os.getpid()).boot_id
    return bool(then and this) and then != this
