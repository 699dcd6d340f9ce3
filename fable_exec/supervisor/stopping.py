"""Ask for the end of a job: durably and once, under the lock of its state, if there is a keeper that can be verified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fable_exec.errors import Conflict, IdentityLost
from fable_exec.executions import ExecutionDirectory, bell, now
from fable_exec.executions.holding import is_held
from fable_exec.lifecycle import State
from fable_exec.procident import ProcessHandle, ProcessIdentity
from fable_exec.statefile import HeldState
from fable_exec.supervisor.execution import state_in, unknown

__all__ = ["request_end"]


def request_end(directory: ExecutionDirectory) -> None:
    """Leave word in the state, and wake the keeper. Nothing is done where the execution has ended, or was asked before.

    The keeper reads its state once before it opens the gate: word that is left before there is a bell is not lost.

    Raises:
        UnknownExecution: nothing was accepted under that id.
        IdentityLost: nobody who can be verified keeps it; nothing was written.
        TimeoutError: another held the lock of the state all the time.
    """
    try:
        with directory.state.locked() as held:
            _leave_word(directory, held)
        bell.ring(directory.path)
    except FileNotFoundError:
        raise unknown(directory) from None


def _leave_word(directory: ExecutionDirectory, held: HeldState) -> None:
    document = held.require().document
    if _is_over(document, directory):
        return
    reason = why_unverified(directory, document)
    if reason:
        if _is_over(held.require().document, directory):
            return  # it ended while we looked
        raise IdentityLost(f"execution {directory.execution_id} cannot be stopped, its keeper cannot be verified: {reason}")
    if document["stop_requested_at"] is None:
        try:
            held.write({**document, "stop_requested_at": now()})
        except Conflict:
            pass  # its outcome was recorded meanwhile


def _is_over(document: Mapping[str, Any], directory: ExecutionDirectory) -> bool:
    return state_in(document, directory) is State.EXITED


def why_unverified(directory: ExecutionDirectory, document: Mapping[str, Any]) -> str:
    """Why nobody can be told to be the keeper; empty when somebody is.

    The lock says that a keeper lives, the identity that it is not another who has it. In another PID namespace, or where the
    boot's name is hidden, the lock alone has to do: nothing is sent to a number, and the bell hangs in this user's directory.
    """
    if not is_held(directory.run_lock):
        return "nobody holds the lock of its life; recover records the end"
    try:
        ProcessHandle.reopen(ProcessIdentity.from_members(document["supervisor_identity"])).close()
    except IdentityLost as lost:
        return str(lost) if lost.gone else ""
    return ""
