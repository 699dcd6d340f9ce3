"""Executions in places that show less, and looked at from namespaces that are not theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fable_exec.errors import FableExecError, IdentityLost
from fable_exec.procident import ProcessIdentity
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor
from tests.procident.places import YEAR_SECONDS, enter
from tests.supervision_runs.jobs import Evidence, await_keeper, spec_of
from tests.waiting import until

_AHEAD = ("--boottime", str(YEAR_SECONDS), "--monotonic", str(YEAR_SECONDS))
_NOT_FIRST = ("sh", "-c", '"$@"; exit "$?"', "sh")
WAYS = {
    "a time namespace": ("unshare", "--time", *_AHEAD, "--fork", "--kill-child"),
    "a PID namespace": ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *_NOT_FIRST),
    "a PID namespace, the /proc of another": ("unshare", "--pid", "--fork", "--kill-child", *_NOT_FIRST),
}
"""How to get there."""


def life(directory: str, rung: str, place: str = "ordinary") -> dict[str, Any]:
    """Whole lives in that place: one that is stopped, one that ends by itself, one whose keeper dies."""
    enter(place)
    with Supervisor(Path(directory) / "root") as supervisor:
        return {
            "stopped": _stopped(supervisor, job(directory, rung, 60.0)),
            "by itself": _by_itself(supervisor, job(directory, rung, 0.02, status=7)),
            "keeper lost": _keeper_lost(supervisor, job(directory, rung, 60.0)),
            "afterwards": _by_itself(supervisor, job(directory, rung, 0.02, status=8)),
            "faults": Evidence.of(Path(directory) / "workspace").faults(),
        }


def job(directory: str, rung: str, seconds: float, **more: Any) -> ExecutionSpec:
    """One job of the workspace in that directory."""
    workspace = Path(directory) / "workspace"
    workspace.mkdir(mode=0o700, exist_ok=True)
    return spec_of(workspace, rung, execution_id=str(uuid.uuid4()), seconds=seconds, **more)


def _stopped(supervisor: Supervisor, spec: ExecutionSpec) -> dict[str, Any]:
    execution = supervisor.start(spec)
    again = supervisor.start(spec)
    until(lambda: Evidence.of(spec.workspace).runners(execution.execution_id))
    listed = [each.health for each in supervisor.list() if each.execution_id == execution.execution_id]
    supervisor.request_stop(execution.execution_id)
    ended = supervisor.wait(execution.execution_id, 30)
    return {
        "identity": _told_of(execution.document["supervisor_identity"]),
        "runner": _told_of(execution.document["runner_identity"]),
        "health": execution.health.value,
        "listed": [getattr(each, "value", each) for each in listed],
        "is the same": again.document["supervisor_identity"] == execution.document["supervisor_identity"],
        "end": ending(ended),
        "held by": [ended.document["containment"], ended.document["quiescence_proof"]],
    }


def _told_of(members: dict[str, Any]) -> list[str]:
    """What a record says of who a process is; what is missing in it is what is weaker."""
    identity = ProcessIdentity.from_members(members)
    known = {
        "birth": identity.birth and identity.birth.may_authorise,
        "number of its own": identity.unique_id,
        "boot": identity.boot_id,
    }
    return [name for name, value in known.items() if value]


def ending(execution: Execution) -> str:
    """Its reason and its status."""
    return f"{execution.document['termination_reason']} {execution.document['returncode']}"


def _by_itself(supervisor: Supervisor, spec: ExecutionSpec) -> str:
    return ending(supervisor.wait(supervisor.start(spec).execution_id, 30))


def _keeper_lost(supervisor: Supervisor, spec: ExecutionSpec) -> dict[str, Any]:
    execution = supervisor.start(spec)
    name = execution.execution_id
    until(lambda: Evidence.of(spec.workspace).runners(name))
    os.kill(execution.document["supervisor_pid"], signal.SIGKILL)
    found = supervisor.wait(name, 30)
    until(lambda: not Evidence.is_alive(spec.workspace, name))
    return {
        "found over": found.is_over,
        "stop": _of(lambda: supervisor.request_stop(name)),
        "recover": [each.done.value for each in supervisor.recover()],
        "again": [each.done.value for each in supervisor.recover()],
        "end": ending(supervisor.wait(name, 30)),
    }


def _of(act: Callable[[], Any]) -> str:
    try:
        act()
    except IdentityLost as lost:
        return "refused, it is gone" if lost.gone else "refused, it cannot be told"
    except FableExecError as error:
        return repr(error)[:200]
    return "done"


# --- from another namespace ---


def visit(directory: str, name: str) -> dict[str, Any]:
    """A look at an execution of elsewhere, and a stop."""
    with Supervisor(Path(directory) / "root") as supervisor:
        execution = supervisor.get(name)
        assert execution is not None
        answer = {
            "health": execution.health.value,
            "recover": [each.done.value for each in supervisor.recover()],
            "stop": _of(lambda: supervisor.request_stop(name)),
        }
        return {**answer, "end": ending(supervisor.wait(name, 30))}


def recover(directory: str) -> list[str]:
    """What `recover` does here."""
    with Supervisor(Path(directory) / "root") as supervisor:
        return [f"{each.done.value} {each.termination_reason and each.termination_reason.value}" for each in supervisor.recover()]


def _there(way: str, program: str, **arguments: Any) -> Any:
    argv = [*WAYS[way], sys.executable, "-m", "tests.supervision_runs.inside", program, json.dumps(arguments)]
    finished = subprocess.run(argv, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def visited(directory: str, rung: str, way: str) -> dict[str, Any]:
    """Executions of here that are looked at and stopped, or whose dead keeper is found, from there."""
    with Supervisor(Path(directory) / "root") as supervisor:
        execution = supervisor.start(job(directory, rung, 60.0))
        answer = {"visit": _there(way, "visit", directory=directory, name=execution.execution_id)}
        lost = supervisor.start(job(directory, rung, 60.0))
        os.kill(lost.document["supervisor_pid"], signal.SIGKILL)
        await_keeper(supervisor.root, lost.execution_id)
        until(lambda: not os.path.exists(f"/proc/{lost.document['runner_pid']}"))
        answer["recover there"] = _there(way, "recover", directory=directory)
        answer["recover here"] = recover(directory)
        answer["end"] = ending(supervisor.wait(lost.execution_id, 30))
        return answer


def reside(directory: str, rung: str) -> None:
    """Start one, tell its id, and stay until told to go."""
    with Supervisor(Path(directory) / "root") as supervisor:
        print(supervisor.start(job(directory, rung, 60.0)).execution_id, flush=True)
        sys.stdin.readline()


def resided(directory: str, rung: str, way: str) -> dict[str, Any]:
    """Executions of there that are looked at and stopped from here, and one that ended with its namespace."""
    answer: dict[str, Any] = {}
    for kind in ("visit", "its starter goes"):
        arguments = json.dumps({"directory": directory, "rung": rung})
        argv = [*WAYS[way], sys.executable, "-m", "tests.supervision_runs.inside", "reside", arguments]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as there:
            assert there.stdin is not None and there.stdout is not None
            name = there.stdout.readline().strip()
            if kind == "visit":
                answer[kind] = visit(directory, name)
            there.communicate("\n")
    if "PID" in way:
        await_keeper(Path(directory) / "root", name)
        answer["recover"] = recover(directory)
        answer["afterwards"] = life(directory, rung)["by itself"]
    else:
        answer["visit, its starter gone"] = visit(directory, name)
    return answer
