"""End what a leader left, and prove that nothing is left: look, SIGTERM, a grace, SIGKILL, and at last the init itself.

Only the end of a PID namespace, or wait(2) that says "no child", is a proof. Each step has its bound, so this always ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from fable_exec._launcher import wire
from fable_exec._launcher.ending import SETTLE_SECONDS
from fable_exec.executions.documents import Emptiness
from fable_exec.keeper.job import Job
from fable_exec.keeper.timers import Timers
from fable_exec.lifecycle import DescendantsReconciled

__all__ = ["Reconciliation"]

_ANSWER_SECONDS = 5.0
_KILL_SECONDS = 2.0
_TIMER = "reconcile"


class Reconciliation:
    """One, of one job; `happen` gets one DescendantsReconciled. `emptiness` then says what was found."""

    def __init__(self, job: Job, timers: Timers, grace_seconds: float, happen: Callable[[DescendantsReconciled], None]) -> None:
        self._job, self._timers, self._grace_seconds, self._happen = job, timers, grace_seconds, happen
        self._members: Sequence[Sequence[Any]] = ()
        self._is_over = self._is_settled = False
        self._error = ""
        self.emptiness = Emptiness()

    def begin(self) -> None:
        """Have the init look."""
        self._ask("look", _ANSWER_SECONDS, self._looked_in_vain)

    def hear(self, message: dict[str, Any]) -> None:
        """An answer of the init, or its word that nobody is left."""
        if self._is_over:
            return
        if "members" in message:
            self._members = message["members"]
        if message["empty"]:
            self._end_init()
        elif "members" in message and not self._is_settled:
            self._timers.set(_TIMER, SETTLE_SECONDS, self._look_again)
        elif "members" in message and not self.emptiness.found:
            self.emptiness = attrs.evolve(self.emptiness, found=self._members or [[0, "?"]], term_sent=True)
            self._ask("terminate", self._grace_seconds, self._grace_is_over)

    def _look_again(self) -> None:
        self._is_settled = True
        self._ask("look", _ANSWER_SECONDS, self._looked_in_vain)

    def _looked_in_vain(self) -> None:
        """What is left is ended all the same; but whether the leader had left anybody nobody will know."""
        self._error = f"the init did not tell within {_ANSWER_SECONDS:g} s who was left"
        self._end_init()

    def init_lost(self) -> None:
        """The init is dead: with a namespace everything is, else what is left is ours."""
        if not self._is_over:
            self._end_init()

    def _grace_is_over(self) -> None:
        self.emptiness = attrs.evolve(self.emptiness, kill_sent=True)
        self._ask("kill", _KILL_SECONDS, self._end_init)

    def _ask(self, word: str, seconds: float, otherwise: Callable[[], None]) -> None:
        self._timers.set(_TIMER, seconds, otherwise)
        try:
            self._job.ask(word)
        except wire.PeerGone:
            self._end_init()

    def _end_init(self) -> None:
        """The last step, whoever is left: the kernel's word on it is the proof."""
        if self._is_over:
            return
        self._is_over = True
        self._timers.clear(_TIMER)
        self._tell(self._job.end())

    def _tell(self, proof: str) -> None:
        found = self.emptiness.found
        if proof:
            self.emptiness = attrs.evolve(self.emptiness, proof=proof)
        else:
            remaining = self._members or [[0, "?"]]
            found = found or remaining
            self.emptiness = attrs.evolve(self.emptiness, found=found, remaining=remaining)
        is_quiescent = bool(proof) and not self._error
        self._happen(DescendantsReconciled(found=bool(found), remaining=not proof, quiescent=is_quiescent, error=self._error))
