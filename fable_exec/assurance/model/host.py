"""What commands get on a host in each state of the write lock: the plan that a broker would compile, or why there is none."""

from __future__ import annotations

import functools

from fable_exec.assurance.model.reach import BlastRadius, blast_radius
from fable_exec.confine import Plan, Support, compile_command_plan, holds_read_only
from fable_exec.errors import ConfinementUnavailable
from fable_exec.policy import BrokerPolicy

__all__ = ["Host"]


class Host:
    """One policy on one host. Plans are compiled when they are first asked for.

    Args:
        runtime_paths: what commands may read and execute besides the system directories and what the policy lists.
    """

    def __init__(self, policy: BrokerPolicy, support: Support, runtime_paths: tuple[str, ...] = ()) -> None:
        self.policy = policy
        self._support = support
        self._runtime_paths = runtime_paths

    def plan(self, *, read_only: bool) -> Plan:
        """The plan of commands that are held to reading, or of those that are not.

        Raises:
            ConfinementUnavailable: a strict protection cannot be had, so that nothing runs.
        """
        return self._locked if read_only else self._unlocked

    def runs(self, *, read_only: bool) -> bool:
        """Whether anything runs there at all."""
        try:
            self.plan(read_only=read_only)
        except ConfinementUnavailable:
            return False
        return True

    def radius(self, *, read_only: bool) -> BlastRadius:
        """What a command can reach there. Raises as `plan`."""
        return self._locked_radius if read_only else self._unlocked_radius

    def holds_read_only(self) -> bool:
        """Whether the plan claims that the kernel keeps the workspace as it is. Raises as `plan`."""
        return holds_read_only(self._locked.applied)

    def state_of(self, protection: str) -> str:
        """The worst state that the plans claim for a protection: "active", "degraded" or "unavailable"; "off" where none does."""
        plans = [self.plan(read_only=each) for each in (True, False) if self.runs(read_only=each)]
        states = [each.state for plan in plans for each in plan.applied if each.protection == protection]
        return max(states, key=("active", "degraded", "unavailable").index, default="off")

    @functools.cached_property
    def _locked(self) -> Plan:
        return self._compiled(writable=False)

    @functools.cached_property
    def _unlocked(self) -> Plan:
        return self._compiled(writable=True)

    @functools.cached_property
    def _locked_radius(self) -> BlastRadius:
        return blast_radius(self._locked)

    @functools.cached_property
    def _unlocked_radius(self) -> BlastRadius:
        return blast_radius(self._unlocked)

    def _compiled(self, *, writable: bool) -> Plan:
        readable = (*self._runtime_paths, *self.policy.confinement.runtime_read_paths)
        return compile_command_plan(self.policy, self._support, readable, writable=writable)
