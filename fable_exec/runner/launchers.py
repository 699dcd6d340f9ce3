"""The launchers of one runner: opened when first needed, one a plan, under one zygote.

All of it may be lost at any time (killed, out of memory): the next use starts it anew.
"""

from __future__ import annotations

import os

from fable_exec._sys.forks import ProcessLock
from fable_exec.confine import Plan, Support
from fable_exec.errors import BrokerGone
from fable_exec.runner.control import Control
from fable_exec.runner.identity import WorkspaceIdentity
from fable_exec.runner.zygote import Zygote, temporary_directory

__all__ = ["Launchers"]


class _Own:
    """What one process has: a forked child has none of it, and starts its own."""

    def __init__(self) -> None:
        self.lock = ProcessLock()  # garbage may be collected in the midst, and a broker end with it
        self.zygote: Zygote | None = None
        self.open: dict[str, Control] = {}


class Launchers:
    """Safe among threads and across forks."""

    def __init__(self, workspace: WorkspaceIdentity) -> None:
        self._workspace = workspace
        self._temporary_directory = temporary_directory()  # now: a relative one means another directory where the host goes later
        self._by_process: dict[int, _Own] = {}
        self._closed = False

    @classmethod
    def begun(cls, workspace: str) -> Launchers:
        """Launchers over the directory `workspace`, whose zygote is on its way. Raises OSError when it is not there."""
        launchers = cls(WorkspaceIdentity.at(workspace))
        launchers.begin()
        return launchers

    def is_over(self, workspace: WorkspaceIdentity) -> bool:
        """Whether this is about the same directory, by what it is and not by its name."""
        return self._workspace == workspace

    def begin(self) -> None:
        """Start the zygote and do not wait for it: it gets ready while the caller does something else."""
        own = self._own()
        with own.lock:
            if own.zygote is None and not self._closed:
                own.zygote = Zygote(self._workspace, self._temporary_directory)

    def support(self) -> Support:
        """What the running zygote found; starts it when need be."""
        own = self._own()
        with own.lock:
            return self._running_zygote(own).support

    def private(self) -> str:
        """The private directory of the running zygote; starts it when need be."""
        own = self._own()
        with own.lock:
            return self._running_zygote(own).private

    def at_hand(self, plan: Plan | None) -> Control | None:
        """The launcher for `plan` if it is open. Never waits."""
        return None if plan is None else self._own().open.get(plan.digest)

    def get(self, plan: Plan) -> Control:
        """The launcher for `plan`, opened when need be."""
        own = self._own()
        with own.lock:
            control = own.open.get(plan.digest)
            if control is None:
                control = own.open[plan.digest] = self._open_launcher(own, plan)
            if self._closed:  # meanwhile, by this very thread
                self._discard_all(own)
                raise BrokerGone("this runner is closed")
            return control

    def lost(self, plan: Plan, control: Control) -> None:
        """`control` turned out to be dead: the next `get` opens another."""
        own = self._own()
        with own.lock:
            if own.open.get(plan.digest) is control:
                del own.open[plan.digest]
                control.close()

    def close(self) -> None:
        """End every launcher and the zygote, and with them all that still runs. Idempotent; `get` refuses afterwards."""
        own = self._own()
        with own.lock:
            self._closed = True
            self._discard_all(own)

    def _own(self) -> _Own:
        # By process id and without a lock: in a forked child a thread that is not there may hold it (os.fork, pthread_atfork(3)).
        pid = os.getpid()
        own = self._by_process.get(pid)
        if own is not None:
            return own
        own = self._by_process.setdefault(pid, _Own())
        for process in [process for process in self._by_process if process != pid]:
            inherited = self._by_process.pop(process, None)
            if inherited is not None:
                _abandon(inherited)
        return own

    def _open_launcher(self, own: _Own, plan: Plan) -> Control:
        try:
            return self._running_zygote(own).open(plan)
        except BrokerGone:
            if self._closed:
                raise
            # The zygote was killed since its last use, and all that it had is gone with it; or only this launcher was.
            if own.zygote is not None and own.zygote.has_ended():
                self._discard_all(own)
            return self._running_zygote(own).open(plan)

    def _running_zygote(self, own: _Own) -> Zygote:
        if self._closed:
            raise BrokerGone("this runner is closed")
        if own.zygote is None:
            own.zygote = Zygote(self._workspace, self._temporary_directory)
        try:
            own.zygote.greeting()
        except BaseException:
            own.zygote = None  # it has closed itself
            raise
        return own.zygote

    def _discard_all(self, own: _Own) -> None:
        for control in own.open.values():
            control.close()
        own.open.clear()
        zygote, own.zygote = own.zygote, None
        if zygote is not None:
            zygote.close()


def _abandon(inherited: _Own) -> None:
    for control in inherited.open.values():
        control.abandon()
    if inherited.zygote is not None:
        inherited.zygote.abandon()
