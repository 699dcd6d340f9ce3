"""From a specification to an execution that is kept: what is there is found, else a keeper is asked for.

It is loaded with the first start: whoever only looks at executions does without all that it needs.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from fable_exec.errors import BrokerGone, Conflict, FableExecError, InvalidRequest, LaunchFailed, StateUnreadable
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.names import STATE_DIR_VARIABLE, is_of_records
from fable_exec.executions.spec import ExecutionSpec
from fable_exec.keeper.requests import Answer, Answered, other_request
from fable_exec.lifecycle import SIGNAL_BASE
from fable_exec.runner import WorkspaceIdentity
from fable_exec.supervisor.execution import Execution, looked_at, required
from fable_exec.supervisor.foreground import await_answer, relay, wished_by_signal
from fable_exec.supervisor.planning import policy_of, request_to_keep
from fable_exec.supervisor.proving import Proofs
from fable_exec.supervisor.zygote import Waiting
from fable_exec.supervisor.zygotes import KeeperZygotes

if TYPE_CHECKING:
    from fable_exec.providers import ProviderSpec

__all__ = ["Starts"]


class Starts:
    """Those of one supervisor. Safe among threads.

    Args:
        providers: those of the embedder's own, by name.
        platform: as `sys.platform` has it.
    """

    def __init__(
        self,
        root: Path,
        zygotes: KeeperZygotes,
        providers: Mapping[str, ProviderSpec] = MappingProxyType({}),
        platform: str = sys.platform,
    ) -> None:
        self._root, self._zygotes = root, zygotes
        self._providers, self._platform = providers, platform
        self._proofs = Proofs()

    def start(self, spec: ExecutionSpec, execution_id: str) -> Execution:
        """The execution of that id, asked for where there is none. Raises as `Supervisor.start`."""
        found = self.existing(spec, execution_id)
        if found is None:
            self.admit(spec)
            found = self._begun(spec, execution_id, Waiting.wait)
        return found

    def _begun(
        self, spec: ExecutionSpec, execution_id: str, wait: Callable[[Waiting], None], *, is_last: bool = False
    ) -> Execution:
        """The execution, asked for, and once more where that is safe. `wait` waits for the answer."""
        try:
            waiting = self.ask(spec, execution_id)
            with waiting.channel:
                wait(waiting)
                return self.kept(waiting.answer(), execution_id)
        except (BrokerGone, LaunchFailed) as error:
            found = self.after(error, spec, execution_id, is_last)
        return found or self._begun(spec, execution_id, wait, is_last=True)

    def look(self, execution_id: str) -> Execution:
        """The execution of that id as of now. Raises UnknownExecution."""
        return required(ExecutionDirectory.of(self._root, execution_id))

    def existing(self, spec: ExecutionSpec, execution_id: str) -> Execution | None:
        """What is there already, without a process: most repeated requests end here. Raises Conflict."""
        try:
            found = looked_at(ExecutionDirectory.of(self._root, execution_id))
        except StateUnreadable as error:
            raise Conflict(str(error), reason="unreadable") from error
        if found is not None and found.document["request_fingerprint"] != spec.fingerprint():
            raise _conflict(other_request(execution_id))
        return found

    def admit(self, spec: ExecutionSpec) -> None:
        """Refuse what is not to be asked for here: nothing is kept elsewhere than on Linux, and a provider must be ready.

        What it says of the request itself comes first: asking a provider takes up to 30 s, and costs.

        Raises:
            LaunchFailed: this is not Linux. ProviderUnavailable: with the classification, and what to do.
            PolicyError, InvalidRequest: as `Supervisor.start`.
        """
        if self._platform != "linux":
            what = f"supervised executions are kept on Linux alone, and this is {self._platform}; nothing was started"
            raise LaunchFailed(what, stage="keeper", errno=errno.ENOSYS)
        if spec.provider is None:
            return
        from fable_exec.providers import check, provider_named  # few name one

        provider = provider_named(spec.provider, self._providers)
        _keep_apart(self._root, spec.workspace)
        _workspace(spec.workspace)
        policy_of(spec)
        check(provider, spec.boundary, beside=None if spec.boundary is None else spec.workspace).require()

    def ask(self, spec: ExecutionSpec, execution_id: str) -> Waiting:
        """The request, sent. A zygote that died since its last use is replaced: nothing was asked of it."""
        _keep_apart(self._root, spec.workspace)
        identity = _workspace(spec.workspace)
        try:
            return self._ask_zygote(spec, execution_id, identity)
        except BrokerGone:
            return self._ask_zygote(spec, execution_id, identity)

    def _ask_zygote(self, spec: ExecutionSpec, execution_id: str, identity: WorkspaceIdentity) -> Waiting:
        zygote = self._zygotes.get(identity.command_owner())
        try:
            return zygote.ask(request_to_keep(spec, execution_id, self._root, identity, zygote, self._proofs))
        except BrokerGone:
            self._zygotes.discard(zygote)
            raise

    def kept(self, answered: Answered, execution_id: str) -> Execution:
        """The execution that an answer is about. Raises Conflict, LaunchFailed."""
        if answered.answer is Answer.CONFLICT:
            raise _conflict(answered)
        if answered.answer is Answer.FAILED:
            raise LaunchFailed(answered.text, stage=answered.reason, errno=answered.errno or errno.EIO)
        return self.look(execution_id)

    def after(self, error: FableExecError, spec: ExecutionSpec, execution_id: str, is_last: bool) -> Execution | None:
        """What was accepted although the answer is lost; None when it is worth to ask once more, which the id makes safe.

        The zygote may have died with the request in hand, or the directory was pruned while the keeper made it.
        """
        was_pruned = isinstance(error, LaunchFailed) and (error.stage, error.errno) == ("accept", errno.ENOENT)
        if isinstance(error, BrokerGone) or was_pruned:
            found = self.existing(spec, execution_id)
            if found is not None or not is_last:
                return found
        raise error

    def run_foreground(self, spec: ExecutionSpec, execution_id: str) -> int:
        """As `Supervisor.run_foreground`."""
        directory = ExecutionDirectory.of(self._root, execution_id)
        with wished_by_signal() as wish:
            if self.existing(spec, execution_id) is None:
                self.admit(spec)
                if spec.provider is not None and wish.is_there:
                    return SIGNAL_BASE + wish.signal
                self._begun(spec, execution_id, lambda waiting: await_answer(waiting, directory, wish))
            relay(directory, wish)
        return required(directory).exit_status


def _conflict(answered: Answered) -> Conflict:
    return Conflict(answered.text, reason=answered.reason)


def _keep_apart(root: Path, workspace: Path) -> None:
    """A job writes in its workspace: no record must lie there, nor it among the records."""
    real = os.path.realpath(root)
    if _is_among_records(real, workspace):
        raise InvalidRequest(f"the workspace {ascii(str(workspace))[:400]} lies among the records of executions; choose another")
    if os.path.commonpath((real, workspace)) == str(workspace):
        raise InvalidRequest(
            f"the directory of all executions, {ascii(real)[:400]}, lies in the workspace, where a job could change its own"
            f" record; choose another (--root, {STATE_DIR_VARIABLE})"
        )


def _is_among_records(root: str, workspace: Path) -> bool:
    """Whether it lies in what is an execution's directory, or would be, or in that of the workspaces' locks."""
    try:
        first = workspace.relative_to(root).parts[0]
    except (ValueError, IndexError):
        return False
    return is_of_records(first)


def _workspace(path: Path) -> WorkspaceIdentity:
    try:
        return WorkspaceIdentity.at(str(path))
    except OSError as error:
        raise InvalidRequest(f"the workspace {ascii(str(path))[:400]} cannot be used: {error.strerror}") from error
