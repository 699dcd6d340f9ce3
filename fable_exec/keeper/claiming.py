"""The start decision, under the lock of the execution: it exists already, it must not be, or it is ours to keep."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import attrs

from fable_exec._launcher import removal
from fable_exec.errors import Conflict, FableExecError, StateUnreadable
from fable_exec.executions import SCHEMA_VERSION, ExecutionDirectory, now
from fable_exec.executions.documents import accepted
from fable_exec.executions.holding import give_back, take
from fable_exec.executions.names import SPEC_NAME, workspace_lock_path
from fable_exec.keeper.requests import Answer, Answered, KeepRequest, other_request
from fable_exec.keeper.surroundings import is_apart, make_runtime
from fable_exec.lifecycle import State
from fable_exec.privatefiles import OPENING
from fable_exec.procident import ProcessHandle, ProcessIdentity, identify
from fable_exec.statefile import HeldState, TerminalRecord

__all__ = ["Claim", "claim"]

_DYING_SECONDS = 2.0


@attrs.frozen
class Claim:
    """An accepted execution: its locks are held as long as their descriptors are open, and its end can be recorded.

    `fault` says why it must not be started all the same.
    """

    directory: ExecutionDirectory
    run_lock: int
    workspace_lock: int
    record: TerminalRecord
    fault: str | None = None


def claim(request: KeepRequest, keeper: int) -> Claim | Answered:
    """Accept `request` for the process `keeper`, durably, or say why not. What was not accepted leaves no state."""
    directory = ExecutionDirectory.of(Path(request.root), request.execution_id)
    found: Claim | Answered | None = None
    try:
        directory.make()
        with directory.state.locked() as held:
            found = _existing(held, request) or _claim(directory, held, request, keeper)
        return found
    except StateUnreadable as error:
        return Answered(answer=Answer.CONFLICT, reason="unreadable", text=str(error))
    except Conflict as error:
        return Answered(answer=Answer.CONFLICT, reason=error.reason, text=str(error))
    except OSError as error:
        if isinstance(found, Claim):  # the lock could not be given back in the proper way
            return attrs.evolve(found, fault=f"state: {error}")
        return Answered(answer=Answer.FAILED, reason="accept", text=str(error), errno=error.errno or 0)


def _existing(held: HeldState, request: KeepRequest) -> Answered | None:
    reading = held.read()
    if reading is None:
        return None
    if reading.document.get("request_fingerprint") == request.fingerprint:
        return Answered(answer=Answer.EXISTING)
    return other_request(request.execution_id)


def _claim(directory: ExecutionDirectory, held: HeldState, request: KeepRequest, keeper: int) -> Claim | Answered:
    # What is not accepted gives its locks back at once: the end of this process takes its time, and others ask meanwhile.
    with ExitStack() as not_accepted:
        run_lock = take(directory.run_lock)
        if run_lock is None:
            text = f"a keeper of execution {request.execution_id} lives, and its state is gone"
            return Answered(answer=Answer.CONFLICT, reason="kept", text=text)
        not_accepted.callback(give_back, run_lock)
        workspace_lock = _take_workspace(request)
        if isinstance(workspace_lock, Answered):
            return workspace_lock
        not_accepted.callback(give_back, workspace_lock)
        record = directory.state.terminal_record()
        document = _prepared(directory, request, keeper)
        fault = _accept(held, document)
        not_accepted.pop_all()
    return Claim(directory, run_lock, workspace_lock, record, fault)


def _accept(held: HeldState, document: dict[str, Any]) -> str | None:
    """Write it; why it may not be on the disk although it stands there, None when it is. Raises OSError where it does not."""
    try:
        held.write(document)
    except OSError as error:
        if held.read() is None:
            raise
        return f"state: {error}"
    return None


def _prepared(directory: ExecutionDirectory, request: KeepRequest, keeper: int) -> dict[str, Any]:
    """The document, and the files that an execution has from the start."""
    _write_spec(directory.path, request.spec_text)
    _make_own_runtime(directory, request)
    return accepted(
        execution_id=request.execution_id,
        schema_version=SCHEMA_VERSION,
        request=request.defined,
        supervisor=identify(keeper),
        accepted_at=now(),
    )


def _make_own_runtime(directory: ExecutionDirectory, request: KeepRequest) -> None:
    try:
        make_runtime(request.runtime, request.user, request.group)
    except FileExistsError:
        if is_apart(request.runtime, directory.path):
            raise
        removal.remove_tree(str(request.runtime))  # of a start that was not accepted
        make_runtime(request.runtime, request.user, request.group)


def _take_workspace(request: KeepRequest) -> int | Answered:
    """A descriptor that holds the workspace for this execution, as long as it is open."""
    path = workspace_lock_path(Path(request.root), request.workspace["device"], request.workspace["inode"])
    try:
        lock = take(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        lock = take(path)
    holder = path.read_bytes()[:36].decode("ascii", "replace")  # as text a codec would be looked for, in each keeper anew
    what = "is live"
    if lock is not None:
        if not (holder and _lives_on(Path(request.root), holder)):
            os.ftruncate(lock, 0)
            os.pwrite(lock, request.execution_id.encode("ascii"), 0)
            return lock
        give_back(lock)
        what = "lost its keeper, and its job lives on"
    text = f"execution {holder} {what} in the workspace {request.workspace['path']}; wait for it, stop it or recover it"
    return Answered(answer=Answer.CONFLICT, reason="workspace", text=text)


def _lives_on(root: Path, execution_id: str) -> bool:
    """Whether the job of the last one in a workspace outlived its keeper; one that is dying with it is waited for, in a bound.

    The keeper's lock is free some milliseconds before its job is dead. What cannot be told keeps no workspace for ever.
    """
    try:
        reading = ExecutionDirectory.of(root, execution_id).state.read()
        if reading is None or reading.document["state"] != State.RUNNING.value:
            return False
        with ProcessHandle.reopen(ProcessIdentity.from_members(reading.document["runner_identity"])) as leader:
            return not leader.wait(_DYING_SECONDS)
    except (FableExecError, OSError, ValueError, KeyError, TypeError):
        return False


def _write_spec(directory: Path, text: str | None) -> None:
    if text is None:
        return
    path = directory / SPEC_NAME
    with suppress(FileNotFoundError):
        os.unlink(path)  # of a start that was not accepted
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPENING, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.flush()
        os.fsync(fd)
