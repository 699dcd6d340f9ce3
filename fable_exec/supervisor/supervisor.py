"""Start executions that outlive whoever asked for them, find them again, stop them and wait for them."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

from fable_exec._sys.forks import ProcessLock
from fable_exec.errors import BrokerGone, Conflict, InternalError, InvalidRequest, LaunchFailed
from fable_exec.executions import ExecutionDirectory, ExecutionSpec, bell, default_root, now
from fable_exec.executions.names import ids_in
from fable_exec.keeper.requests import Answer, Answered
from fable_exec.lifecycle import State
from fable_exec.runner import WorkspaceIdentity
from fable_exec.supervisor.execution import Execution, looked_at
from fable_exec.supervisor.planning import request_to_keep
from fable_exec.supervisor.proving import Proofs
from fable_exec.supervisor.zygote import KeeperZygote

__all__ = ["Supervisor"]

_TRIES = 2


class Supervisor:
    """The executions below one root. It starts a process with the first `start` only; closing it ends no execution.

    Args:
        root: the directory of all executions, made when it is first needed; None is FABLE_EXEC_STATE_DIR or the platform's place.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = default_root() if root is None else Path(root).absolute()
        self._zygotes: dict[int, KeeperZygote] = {}
        self._proofs = Proofs()
        self._lock = ProcessLock()

    def start(self, spec: ExecutionSpec) -> Execution:
        """Start it, or find it: the same id with the same specification is the same execution. Returns when it runs or has ended.

        Raises:
            Conflict: the id was used for another specification, its state is unreadable, or its workspace has a live execution.
            PolicyError, ExecutableDenied: the policy has faults or does not allow the program. InvalidRequest: no such workspace.
            LaunchFailed, BrokerGone: no keeper could be had; nothing was accepted, unless the text says otherwise.
        """
        execution_id = spec.execution_id or str(uuid.uuid4())
        found = self._existing(spec, execution_id)
        if found is not None:
            return found
        for _ in range(_TRIES):
            try:
                return self._ask(spec, execution_id)
            except BrokerGone:
                if looked_at(self._directory(execution_id)) is not None:
                    break
        return self._require(execution_id)

    def get(self, execution_id: str) -> Execution | None:
        """The execution of that id as of now; None where there is none.

        Raises:
            ValueError: no UUID. StateUnreadable: its state cannot be believed.
        """
        return looked_at(self._directory(execution_id))

    def list(self) -> list[Execution]:
        """All that can be read, sorted by id."""
        found = (self.get(each) for each in ids_in(self.root))
        return [each for each in found if each is not None]

    def request_stop(self, execution_id: str) -> Execution:
        """Ask for the end of the job, durably, and wake its keeper. Returns at once; `wait` tells the end."""
        directory = self._directory(execution_id)
        with directory.state.locked() as held:
            document = held.require().document
            if document["state"] != State.EXITED.value and document["stop_requested_at"] is None:
                held.write({**document, "stop_requested_at": now()})
        bell.ring(directory.path)
        return self._require(execution_id)

    def close(self) -> None:
        """Let the zygote end. Executions go on. Idempotent."""
        zygote = self._zygotes.pop(os.getpid(), None)
        if zygote is not None:
            zygote.close()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How.

    def _directory(self, execution_id: str) -> ExecutionDirectory:
        return ExecutionDirectory.of(self.root, execution_id)

    def _require(self, execution_id: str) -> Execution:
        found = looked_at(self._directory(execution_id))
        if found is None:
            raise InternalError(f"execution {execution_id} was accepted, and has no state")
        return found

    def _existing(self, spec: ExecutionSpec, execution_id: str) -> Execution | None:
        """What is there already, without a process: most repeated requests end here."""
        found = looked_at(self._directory(execution_id))
        if found is None:
            return None
        if found.document["request_fingerprint"] != spec.fingerprint():
            raise Conflict(f"execution {execution_id} was asked for with another request before", reason="other-request")
        return found

    def _ask(self, spec: ExecutionSpec, execution_id: str) -> Execution:
        identity = _workspace(spec.workspace)
        zygote = self._zygote(identity)
        request = request_to_keep(spec, execution_id, self.root, identity, zygote, self._proofs)
        try:
            waiting = zygote.ask(request)
        except BrokerGone:
            self._discard(zygote)
            waiting = self._zygote(identity).ask(request)
        with waiting.channel:
            _refuse(waiting.wait())
        return self._require(execution_id)

    def _zygote(self, identity: WorkspaceIdentity) -> KeeperZygote:
        with self._lock:
            own = self._zygotes.get(os.getpid())
            if own is None:
                own = self._zygotes[os.getpid()] = KeeperZygote(*identity.command_owner())
            return own

    def _discard(self, zygote: KeeperZygote) -> None:
        with self._lock:
            if self._zygotes.get(os.getpid()) is zygote:
                del self._zygotes[os.getpid()]
        zygote.close()


def _workspace(path: Path) -> WorkspaceIdentity:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidRequest(f"the workspace {path} cannot be used: {error.strerror}") from error
    try:
        return WorkspaceIdentity.of(str(path), fd)
    finally:
        os.close(fd)


def _refuse(answered: Answered) -> None:
    if answered.answer is Answer.CONFLICT:
        raise Conflict(answered.text, reason=answered.reason)
    if answered.answer is Answer.FAILED:
        raise LaunchFailed(answered.text, stage=answered.reason, errno=answered.errno or errno.EIO)
