"""Jobs whose keeper is killed while their init cannot end them, or with it: who lives on, and what others are told."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from typing import Any

from fable_exec.errors import Conflict
from fable_exec.supervisor import ExecutionSpec, Supervisor
from tests.keeper.scenes import init_of, keeper_of
from tests.supervision_runs.jobs import Evidence, await_handed_over, runs, spec_of
from tests.waiting import until

_LONGEST_SECONDS = 30.0


def orphan(directory: str, rung: str) -> dict[str, Any]:
    """A job whose keeper is killed while its init is stopped and cannot end it; then another is asked for in its workspace."""
    workspace = Path(directory) / "workspace"
    workspace.mkdir(mode=0o700)

    def job(seconds: float) -> ExecutionSpec:
        return spec_of(workspace, rung, execution_id=str(uuid.uuid4()), seconds=seconds)

    with Supervisor(Path(directory) / "root") as supervisor:
        first, second = supervisor.start(job(_LONGEST_SECONDS)), job(0.01)
        until(lambda: Evidence.of(workspace).runners(first.execution_id))
        keeper, init = keeper_of(first), init_of(first)
        await_handed_over(keeper)
        os.kill(init, signal.SIGSTOP)
        os.kill(keeper, signal.SIGKILL)
        found = supervisor.wait(first.execution_id, _LONGEST_SECONDS)
        try:
            supervisor.start(second)
            told = "started"
        except Conflict as error:
            told = f"conflict: {error.reason}"
        recovered = [each.done.value for each in supervisor.recover()]
        is_alive = Evidence.is_alive(workspace, first.execution_id)
        ended = supervisor.wait(supervisor.start(second).execution_id, _LONGEST_SECONDS)
    return {
        "found": found.health.value,
        "second": told,
        "recover": recovered,
        "lives": is_alive,
        "then": ended.exit_code,
        "faults": Evidence.of(workspace).faults(),
    }


def unbound(directory: str, rung: str) -> dict[str, Any]:
    """A job with a daemon whose keeper and init are killed together: who of it lives on, and what `recover` does."""
    workspace = Path(directory) / "workspace"
    workspace.mkdir(mode=0o700)
    with Supervisor(Path(directory) / "root") as supervisor:
        name = str(uuid.uuid4())
        job = supervisor.start(spec_of(workspace, rung, execution_id=name, seconds=_LONGEST_SECONDS, family=True))
        until(lambda: Evidence.of(workspace).says(name, "daemon"))
        leader, keeper, init = job.document["runner_pid"], keeper_of(job), init_of(job)
        await_handed_over(keeper)
        for number in (signal.SIGSTOP, signal.SIGKILL):  # neither may have its say when the other is dead
            for pid in (init, keeper):
                os.kill(pid, number)
        until(lambda: not any(map(runs, (leader, keeper, init))))
        if rung == "pidns":
            until(lambda: not Evidence.is_alive(workspace, name))
        lived = Evidence.is_alive(workspace, name)
        recovered = [each.done.value for each in supervisor.recover()]
        return {"lived": lived, "recover": recovered, "lives": Evidence.is_alive(workspace, name)}
