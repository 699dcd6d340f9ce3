"""Which run a job is on: the name that its engine's directory tells, for a keeper that is to judge the proof of that run."""

from __future__ import annotations

from fable_exec.errors import FableExecError
from fable_exec.keeper.requests import KeepRequest
from fable_exec.pathguard import Workspace
from fable_exec.proofbind.runids import read_run_id

__all__ = ["LOOK_SECONDS", "RunOfJob", "run_of"]

LOOK_SECONDS = 1.0
"""How often a keeper looks."""


class RunOfJob:
    """The first run that the engine's directory names and that was not there before the job sticks.

    Args:
        baseline: the run that was there before; read now where it is None.
        run_id: the run of the job, once it is known.
    """

    def __init__(self, workspace: str, engine_directory: str, baseline: str | None = None, run_id: str = "") -> None:
        self._place = workspace, engine_directory
        self.baseline = self._named() if baseline is None else baseline
        self.run_id = run_id

    def look(self) -> None:
        """Look for it where it is not known yet."""
        named = self.run_id or self._named()
        if named != self.baseline:
            self.run_id = named

    def _named(self) -> str:
        workspace, engine_directory = self._place
        try:
            with Workspace.open(workspace) as held:
                return read_run_id(held, engine_directory)
        except FableExecError:
            return ""

    def to_hand_over(self) -> tuple[str, str]:
        """What another process goes on with."""
        return self.baseline, self.run_id


def run_of(request: KeepRequest, baseline: str | None = None, run_id: str = "") -> RunOfJob:
    """Of the job of `request`; the rest as for RunOfJob."""
    return RunOfJob(request.workspace["path"], request.engine_directory, baseline, run_id)
