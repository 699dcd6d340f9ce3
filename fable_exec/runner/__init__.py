"""Run one checked command to its exact outcome, with nothing of it left alive. It decides nothing about what may run."""

from __future__ import annotations

from ..outcome import EndedBy, Outcome
from .command import Command, Executable
from .launchers import Launchers, WorkspaceIdentity
from .runner import Runner
from .running import AsyncRunningCommand, Event, Exited, Output, RunningCommand

__all__ = [
    "AsyncRunningCommand",
    "Command",
    "EndedBy",
    "Event",
    "Executable",
    "Exited",
    "Launchers",
    "Outcome",
    "Output",
    "Runner",
    "RunningCommand",
    "WorkspaceIdentity",
]
