"""The zygotes of one supervisor: one for each process and each user that jobs run as, started when it is first needed.

Any of them may be lost at any time: whoever finds that out discards it, and the next use starts another.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from fable_exec._sys.forks import ProcessLock
from fable_exec.errors import BrokerGone

if TYPE_CHECKING:
    from fable_exec.supervisor.zygote import KeeperZygote

__all__ = ["KeeperZygotes"]

_Owner = tuple[int, int]


class KeeperZygotes:
    """Safe among threads and across forks: a forked child starts its own, and lets go of its parent's without touching it."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._by_process: dict[int, dict[_Owner, KeeperZygote]] = {}
        self._is_closed = False

    def get(self, owner: _Owner) -> KeeperZygote:
        """The zygote for jobs of that user and group.

        Raises:
            LaunchFailed: it could not be started. BrokerGone: it ended while it did, or the supervisor is closed.
        """
        from fable_exec.supervisor.zygote import KeeperZygote

        own = self._own()
        with self._lock:
            if self._is_closed:
                raise BrokerGone("this supervisor is closed")
            if owner not in own:
                own[owner] = KeeperZygote(*owner)
            return own[owner]

    def discard(self, zygote: KeeperZygote) -> None:
        """It turned out to be gone. Others that were about to use it find that out too."""
        own = self._own()
        with self._lock:
            for owner in [owner for owner, each in own.items() if each is zygote]:
                del own[owner]
        zygote.close()

    def close(self) -> None:
        """Let all of them end; keepers and their jobs go on. Idempotent; `get` refuses afterwards."""
        own = self._own()
        with self._lock:
            self._is_closed = True
            zygotes = list(own.values())
            own.clear()
        for zygote in zygotes:
            zygote.close()

    def dropped(self) -> None:
        """The same for a supervisor that nobody has any more and nobody closed (docs/adr/0049)."""
        if self._own():
            warnings.warn("a Supervisor was dropped that had not been closed", ResourceWarning, source=self, stacklevel=2)
        self.close()

    def _own(self) -> dict[_Owner, KeeperZygote]:
        # By process id and without a lock: in a forked child a thread that is not there may hold it (pthread_atfork(3)).
        pid = os.getpid()
        own = self._by_process.get(pid)
        if own is not None:
            return own
        own = self._by_process.setdefault(pid, {})
        for process in [process for process in self._by_process if process != pid]:
            for zygote in self._by_process.pop(process, {}).values():
                zygote.abandon()
        return own
