"""Which run a job is on: the name that its engine's directory tells, for a keeper that is to judge the proof of that run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fable_exec.errors import FableExecError
from fable_exec.keeper.requests import KeepRequest
from fable_exec.pathguard import Workspace
from fable_exec.pathguard.facts import fact
from fable_exec.proofbind.runids import read_run_id

__all__ = ["LOOK_SECONDS", "RunOfJob", "run_of", "workspace_of_job"]

LOOK_SECONDS = 1.0
"""How often a keeper looks."""


class RunOfJob:
    """The first run that the engine's directory names and that was not there before the job sticks.

    Args:
        workspace: as for `workspace_of_job`.
        baseline: the run that was there before; read now where it is None.
        run_id: the run of the job, once it is known.
        begun_at: when the baseline was read, in seconds since 1970; now where it is None.
    """

    def __init__(
        self,
        workspace: Mapping[str, Any],
        engine_directory: str,
        baseline: str | None = None,
        run_id: str = "",
        begun_at: float | None = None,
    ) -> None:
        self._place = workspace, engine_directory
        self.begun_at = time.time() if begun_at is None else begun_at
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
            with workspace_of_job(workspace) as held:
                return read_run_id(held, engine_directory)
        except FableExecError:
            return ""

    def to_hand_over(self) -> tuple[str, str, float]:
        """What another process goes on with."""
        return self.baseline, self.run_id, self.begun_at


def workspace_of_job(workspace: Mapping[str, Any]) -> Workspace:
    """The directory that the job was started in, for the caller to close.

    Args:
        workspace: its path, device and inode.

    Raises:
        PathError: it is gone, or another one stands at its path: a job may have put that there.
    """
    held = Workspace.open(workspace["path"])
    if held.identity != (workspace["device"], workspace["inode"]):
        held.close()
        raise fact("workspace-moved", workspace["path"])
    return held


def run_of(request: KeepRequest, *handed_over: Any) -> RunOfJob:
    """Of the job of `request`: a new one, or that of which `to_hand_over` told."""
    return RunOfJob(request.workspace, request.engine_directory, *handed_over)
