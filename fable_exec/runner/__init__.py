"""Run one checked command to its exact outcome, with nothing of it left alive. It decides nothing about what may run."""

from __future__ import annotations

from fable_exec.outcome import EndedBy, Outcome
from fable_exec.runner.command import Command, Executable, Pins
from fable_exec.runner.events import Event, Exited, Output
from fable_exec.runner.identity import WorkspaceIdentity
from fable_exec.runner.launchers import Launchers
from fable_exec.runner.runner import Runner
from fable_exec.runner.running import AsyncRunningCommand, RunningCommand

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
    "Pins",
    "Runner",
    "RunningCommand",
    "WorkspaceIdentity",
]
