"""Jobs of tests: shell scripts and small programs, kept for real."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from pathlib import Path
from typing import Any

from fable_exec.errors import FableExecError
from fable_exec.executions import ExecutionDirectory
from fable_exec.policy import BrokerPolicy, Confinement
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor
from tests.waiting import LONG_SECONDS


def make_spec(workspace: Path, *argv: str, **more: Any) -> ExecutionSpec:
    """A specification without confinement, so that no canary takes its time."""
    policy = BrokerPolicy(workspace=workspace, allowed_executables=(argv[0],), confinement=Confinement.off())
    return ExecutionSpec(argv=argv, workspace=workspace, policy=policy, **{"stop_grace_seconds": 2.0, **more})


def kill_keeper(execution: Execution) -> None:
    """kill -9 of a keeper of ours that is alive, as its own record names it."""
    os.kill(execution.document["supervisor_pid"], signal.SIGKILL)


class Jobs:
    """Starts jobs, and ends what is left of them."""

    def __init__(self, supervisor: Supervisor, directory: Path) -> None:
        self.supervisor, self._directory = supervisor, directory
        self._started: list[Execution] = []

    def workspace(self) -> Path:
        """A new one."""
        path = self._directory / f"workspace-{uuid.uuid4().hex[:8]}"
        path.mkdir(mode=0o700)
        return path

    def spec(self, *argv: str, **more: Any) -> ExecutionSpec:
        return make_spec(self.workspace(), *argv, **more)

    def start(self, *argv: str, **more: Any) -> Execution:
        return self.note(self.supervisor.start(self.spec(*argv, **more)))

    def shell(self, script: str, **more: Any) -> Execution:
        """A bash script."""
        return self.start("bash", "-c", script, **more)

    def sleeper(self, **more: Any) -> Execution:
        """One that does nothing for long."""
        return self.start("sleep", "600", **more)

    def ended(self, script: str = "exit 0", **more: Any) -> Execution:
        """One that has ended."""
        return self.supervisor.wait(self.shell(script, **more).execution_id, LONG_SECONDS)

    def rewrite(self, execution: Execution, **members: Any) -> None:
        """Put something else into its state."""
        with ExecutionDirectory.of(self.supervisor.root, execution.execution_id).state.locked() as held:
            held.write({**held.require().document, **members})

    def note(self, execution: Execution) -> Execution:
        """Have it ended with the others."""
        self._started.append(execution)
        return execution

    def end_all(self) -> None:
        for execution in self._started:
            with contextlib.suppress(FableExecError, FileNotFoundError):
                self.supervisor.request_stop(execution.execution_id)
                self.supervisor.wait(execution.execution_id, LONG_SECONDS)
