"""Which protections of a plan are proved: a canary goes through one like it, once a supervisor and kind of plan."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fable_exec._sys.forks import ProcessLock
from fable_exec.canary import CanaryReport, judge, report_of, unproved
from fable_exec.confine import Plan
from fable_exec.keeper.surroundings import make_runtime
from fable_exec.outcome import Applied
from fable_exec.policy import BrokerPolicy
from fable_exec.runner.zygote import temporary_directory

__all__ = ["Proofs", "SendCanary"]

SendCanary = Callable[[Path, Mapping[str, Any]], bytes]
"""What the canary with that bait wrote, under the plan whose private directory is that path."""


class Proofs:
    """The reports of one supervisor, by what their plans depend on. Safe among threads."""

    def __init__(self) -> None:
        self._reports: dict[object, CanaryReport] = {}
        self._proving = ProcessLock()

    def applied(
        self, policy: BrokerPolicy, plan: Plan, owner: tuple[int, int], send: SendCanary
    ) -> tuple[tuple[Applied, ...], str | None]:
        """What `plan` gives, protection by protection, after the canary's word; and the digest of that, if there was any.

        Args:
            owner: whom the job runs as.

        Raises:
            ConfinementUnavailable: the canary could not be sent, or gave no answer. BrokerGone: nobody could send it.
        """
        if policy.confinement.asks_for_nothing:
            return plan.applied, None
        kind = (plan.mode, policy.confinement, policy.limits)
        report = self._reports.get(kind)
        if report is None:
            with self._proving:
                report = self._reports.get(kind) or _report(policy, owner, send)
                self._reports[kind] = report
        return judge(plan.applied, report, writable=True, network=policy.confinement.network), report.digest


def _report(policy: BrokerPolicy, owner: tuple[int, int], send: SendCanary) -> CanaryReport:
    with ExitStack() as stack:
        try:
            parent = stack.enter_context(tempfile.TemporaryDirectory(prefix="fable-exec-proof-", dir=temporary_directory()))
            os.chmod(parent, 0o711)
            runtime = Path(parent, "runtime")
            make_runtime(runtime, *owner)
        except OSError as error:
            raise unproved(error) from error
        confinement = policy.confinement
        return report_of(lambda bait: send(runtime, bait), confinement.connect_ports, confinement.reserved_ports)
