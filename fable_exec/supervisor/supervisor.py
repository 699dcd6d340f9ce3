"""Start executions that outlive whoever asked for them, find them again, stop them and wait for them."""

from __future__ import annotations

import builtins
import math
import os
import uuid
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fable_exec.errors import InvalidRequest, StateUnreadable
from fable_exec.executions import ExecutionDirectory, default_root
from fable_exec.executions.names import RUNNER_LOG_NAME, SUPERVISOR_LOG_NAME, canonical_id, ids_in
from fable_exec.supervisor.execution import Execution, UnreadableExecution, as_unreadable, looked_at, required
from fable_exec.supervisor.following import events_in, pieces_now, pieces_until_end
from fable_exec.supervisor.pruning import prune
from fable_exec.supervisor.recovering import Recovered, recovered
from fable_exec.supervisor.stopping import request_end
from fable_exec.supervisor.waiting import KeeperWatch
from fable_exec.supervisor.zygotes import KeeperZygotes

if TYPE_CHECKING:
    from fable_exec.executions.spec import ExecutionSpec
    from fable_exec.providers import ProviderSpec
    from fable_exec.supervisor.starting import Starts

__all__ = ["Supervisor"]

_FAREWELL_SECONDS = 2.0
"""A keeper whose outcome is recorded has nothing more to do; should it hang, nobody waits for it."""


WEEK_SECONDS = 7 * 86400.0


class Supervisor:
    """The executions below one root. It starts a process with the first `start` only; closing it ends no execution.

    Safe among threads. A forked child may use its copy: it starts a process of its own when it needs one.

    Args:
        root: the directory of all executions, made when it is first needed; None is FABLE_EXEC_STATE_DIR or the platform's place.
        providers: of your own, which a specification may name besides the presets.
    """

    def __init__(self, root: str | Path | None = None, *, providers: Iterable[ProviderSpec] = ()) -> None:
        self.root = Path(os.path.realpath(default_root() if root is None else root))
        self._zygotes = KeeperZygotes()
        self._providers = {each.name: each for each in providers}
        self._made: Starts | None = None
        weakref.finalize(self, self._zygotes.dropped).atexit = False

    def start(self, spec: ExecutionSpec) -> Execution:
        """Start it, or find it: the same id with the same specification is the same execution.

        With a provider, that is asked first whether it is ready, up to 30 s; for one that is found nobody is asked.

        Returns:
            The execution when it runs or has ended; one that was asked for before as it is now, perhaps still starting.

        Raises:
            Conflict: the id was used for another specification, its state is unreadable, or its workspace has a live execution.
            PolicyError, ExecutableDenied: the policy has faults or does not allow the program; the workspace is in no root.
            InvalidRequest: no such workspace, or no such provider.
            ProviderUnavailable: the provider is not ready within the boundary: why, and what to do. Nothing was accepted.
            LaunchFailed, BrokerGone: no keeper could be had; nothing was accepted, unless the text says otherwise.
            UnknownExecution: it has ended and was pruned before it could be looked at.
        """
        return self._starts.start(spec, _id_for(spec))

    async def start_async(self, spec: ExecutionSpec) -> Execution:
        """As `start`. What may take long before the request goes out is done in a thread; the answer is awaited without one.

        Cancelling this stops waiting, not the execution: the request may have gone out.
        """
        from fable_exec.supervisor.awaiting import started

        return await started(self._starts, spec, _id_for(spec))

    def get(self, execution_id: str) -> Execution | None:
        """The execution of that id as of now; None where there is none.

        Raises:
            InvalidRequest: no UUID. StateUnreadable: its state cannot be believed.
        """
        return looked_at(self._directory(execution_id))

    def list(self) -> builtins.list[Execution | UnreadableExecution]:
        """All of them, sorted by id. One whose state cannot be believed is an UnreadableExecution, and hides no other."""
        found: builtins.list[Execution | UnreadableExecution] = []
        for directory in map(self._directory, ids_in(self.root)):
            try:
                execution = looked_at(directory)
            except (StateUnreadable, OSError) as error:
                found.append(UnreadableExecution(directory=directory.path, error=as_unreadable(error, directory)))
            else:
                found += [] if execution is None else [execution]
        return found

    def request_stop(self, execution_id: str) -> Execution:
        """Ask for the end of the job, durably, and wake its keeper. Returns at once; `wait` tells the end.

        One that has ended, or was asked before, is returned as it is.

        Raises:
            InvalidRequest: no UUID. UnknownExecution: nothing was accepted under it.
            StateUnreadable: its state cannot be believed.
            IdentityLost: it has not ended, and its keeper cannot be verified, or is dead; nothing was written.
            TimeoutError: another process held the lock of its state for 5 s.
        """
        directory = self._directory(execution_id)
        request_end(directory)
        return required(directory)

    def wait(self, execution_id: str, timeout_seconds: float | None = None) -> Execution:
        """Wait until nobody keeps the execution any more, without looking again and again; then it is what it says.

        Returns:
            As a rule the ended execution; its workspace is free by then. Where the keeper died without recording an outcome, the
            execution as it was found: `is_over` is False and `health` lost or orphaned, until `recover` records the end.

        Raises:
            InvalidRequest: no UUID. UnknownExecution: nothing was accepted under it.
            StateUnreadable: its state cannot be believed.
            TimeoutError: it was kept for all of `timeout_seconds`.
        """
        directory = self._directory(execution_id)
        with KeeperWatch(directory, (found := required(directory)).document) as watch:
            has_ended = watch.wait(_seconds_for(found, timeout_seconds))
        return _found_after(directory, has_ended, timeout_seconds)

    async def wait_async(self, execution_id: str, timeout_seconds: float | None = None) -> Execution:
        """As `wait`, for an event loop: no thread, and whoever cancels it leaves nothing behind."""
        from fable_exec.supervisor.awaiting import ended_within

        directory = self._directory(execution_id)
        with KeeperWatch(directory, (found := required(directory)).document) as watch:
            has_ended = await ended_within(watch, _seconds_for(found, timeout_seconds))
        return _found_after(directory, has_ended, timeout_seconds)

    def events(self, execution_id: str, follow: bool = False) -> Iterator[dict[str, Any]]:
        """What its keeper noted, from the start: the lines of supervisor.log. They tell people why; nothing depends on them.

        Args:
            follow: go on until nobody keeps the execution and everything was given out.

        Raises:
            InvalidRequest, UnknownExecution, StateUnreadable: as `wait`.
        """
        return events_in(self._log(execution_id, SUPERVISOR_LOG_NAME, follow))

    def logs(self, execution_id: str, follow: bool = False) -> Iterator[bytes]:
        """What the job wrote on both streams, from the start, in pieces of 64 KiB at most.

        Args:
            follow: go on until nobody keeps the execution and everything was given out; new output comes within 50 ms.

        Raises:
            InvalidRequest, UnknownExecution, StateUnreadable: as `wait`.
        """
        return self._log(execution_id, RUNNER_LOG_NAME, follow)

    def recover(self) -> builtins.list[Recovered]:
        """Record the end of every execution whose keeper died, or could not write it. Nothing is started again.

        What a dead keeper left of its job is ended first, within some seconds: what is proved to be of it, and nobody else.
        Where nothing can be proved, nothing is done. To be called when a host starts, and whenever one is found lost or
        orphaned; many may do so at once, and again: an end is recorded once.

        Returns:
            Those that nobody kept, with what was done, and those that cannot be read, sorted by id; empty when all is well.
        """
        found = map(recovered, map(self._directory, ids_in(self.root)))
        return [each for each in found if each is not None]

    def prune(
        self, *, older_than_seconds: float = WEEK_SECONDS, keep: int = 0, ids: Iterable[str] | None = None
    ) -> builtins.list[str]:
        """Remove executions that have ended, with their logs, and locks that nobody needs. Never one that somebody keeps.

        What has not ended by its record, cannot be read, or has something mounted in it is left: `recover` records ends.

        Args:
            older_than_seconds: since their end.
            keep: how many of all that have ended stay in any case, the newest.
            ids: none but these; None is all.

        Returns:
            The ids of those that are gone, sorted.

        Raises:
            InvalidRequest: an id is no UUID, or a number is below 0.
        """
        chosen = None if ids is None else {canonical_id(each) for each in ids}
        if not older_than_seconds >= 0 or keep < 0:
            given = f"{older_than_seconds!a:.80} and {keep!a:.80}"
            raise InvalidRequest(f"older_than_seconds and keep must be 0 or more, not {given}")
        return prune(self.root, older_than_seconds=older_than_seconds, keep=keep, ids=chosen)

    def run_foreground(self, spec: ExecutionSpec) -> int:
        """Start it, pass its output on to our standard output, and wait for its end. For the main thread of a process of its own.

        SIGTERM, SIGINT and SIGHUP ask for its end, once, from before it is accepted; what else ends this process ends no job.
        Where one of them comes while a provider is asked, nothing is accepted: that is 128 and its number.

        Returns:
            What this process should exit with: docs/reference/lifecycle.md.

        Raises:
            As `start`.
        """
        return self._starts.run_foreground(spec, _id_for(spec))

    def close(self) -> None:
        """Let the zygote end. Executions go on; all but `start` still works. Idempotent."""
        self._zygotes.close()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How.

    @property
    def _starts(self) -> Starts:
        """Made with the first start. Without a lock, which a fork might copy while it is held: two that are made do no harm."""
        if self._made is None:
            from fable_exec.supervisor.starting import Starts

            self._made = Starts(self.root, self._zygotes, self._providers)
        return self._made

    def _directory(self, execution_id: str) -> ExecutionDirectory:
        return ExecutionDirectory.of(self.root, execution_id)

    def _log(self, execution_id: str, name: str, follow: bool) -> Iterator[bytes]:
        directory = self._directory(execution_id)
        execution = required(directory)  # an id that is not there is told at once, not with the first piece
        return _followed(directory, execution, name) if follow else pieces_now(directory.path / name)


def _id_for(spec: ExecutionSpec) -> str:
    return spec.execution_id or str(uuid.uuid4())


def _seconds_for(found: Execution, timeout_seconds: float | None) -> float:
    wanted = math.inf if timeout_seconds is None else timeout_seconds
    return min(wanted, _FAREWELL_SECONDS) if found.is_over else wanted


def _found_after(directory: ExecutionDirectory, has_ended: bool, timeout_seconds: float | None) -> Execution:
    found = required(directory)
    if not has_ended and not found.is_over:
        raise TimeoutError(f"execution {found.execution_id} has not ended within {timeout_seconds:g} s")
    return found


def _followed(directory: ExecutionDirectory, execution: Execution, name: str) -> Iterator[bytes]:
    with KeeperWatch(directory, execution.document) as watch:
        yield from pieces_until_end(directory.path / name, watch)
