"""Run in a box: a job without a namespace whose init and keeper are killed, so that it lives on; then it is recovered.

Arguments: a directory, and the form of the job. Prints what was found, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fable_exec.keeper import inits
from fable_exec.lifecycle import Liveness
from fable_exec.policy import BrokerPolicy, Confinement
from fable_exec.supervisor import ExecutionSpec, Supervisor, zygote
from fable_exec.supervisor.execution import liveness_of_runner
from tests.waiting import until

FORMS = {
    "leader": "echo ready; exec sleep 600",
    "members": "setsid sleep 601 & (setsid sh -c 'sleep 602 & sleep 603' &) ; sleep 604 & echo ready; sleep 600",
    "stubborn": "trap '' TERM HUP INT; setsid sleep 601 & echo ready; kill -STOP $$; sleep 600; sleep 600",
}
ALONE = " alone"
"""The leader is killed too."""
_UNBOUND = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 0); os.execvp('sh', ['sh', '-c', sys.argv[1]])"
"""A leader is killed with its init (PR_SET_PDEATHSIG); one that is meant to can take that back."""
_PROGRAM = """
import os, sys
sys.path[:0] = sys.argv[1:-1]
from fable_exec.keeper import inits
inits.make_leaf = lambda name: None
from fable_exec.keeper.zygote import serve
os.chdir("/")
serve(int(sys.argv[-1]))
"""


def main(directory: Path, form: str) -> None:
    assert hasattr(inits, "make_leaf")
    program = directory / "keepers.py"
    program.write_text(_PROGRAM)
    zygote._PROGRAM = program
    workspace = directory / "workspace"
    workspace.mkdir(mode=0o700)
    policy = BrokerPolicy(workspace=workspace, allowed_executables=("python3",), launch="plain", confinement=Confinement.off())
    stranger = os.spawnvpe(os.P_NOWAIT, "sleep", ["sleep", "605"], {**os.environ, "FABLE_EXEC_ID": "another"})
    with Supervisor(directory / "root") as supervisor:
        execution = supervisor.start(
            ExecutionSpec(argv=("python3", "-c", _UNBOUND, FORMS[form.removesuffix(ALONE)]), workspace=workspace, policy=policy)
        )
        until(lambda: b"ready" in execution.runner_log.read_bytes())
        time.sleep(0.2)
        kill_what_holds(execution.document["supervisor_pid"], execution.document["runner_pid"])
        if form.endswith(ALONE):
            os.kill(execution.document["runner_pid"], signal.SIGKILL)
            until(lambda: liveness_of_runner(execution.document) is Liveness.DEAD)
        supervisor.wait(execution.execution_id, 20)
        found = supervisor.get(execution.execution_id)
        before = sleepers()
        recovered = supervisor.recover()
        after = supervisor.get(execution.execution_id)
        again = supervisor.recover()
    told = {
        "health": found.health.value,
        "before": before,
        "recovered": [each.to_members() for each in recovered],
        "again": [each.to_members() for each in again],
        "document": after.document,
        "left": sleepers(),
        "stranger": os.waitpid(stranger, os.WNOHANG) == (0, 0),
    }
    print(json.dumps(told))


def kill_what_holds(keeper: int, leader: int) -> None:
    """First the keeper is stopped: else it would adopt and end what its init leaves."""
    os.kill(keeper, signal.SIGSTOP)
    children = [int(pid) for pid in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()]
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)


def sleepers() -> list[str]:
    """What of the job lives in this box."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX" and words.startswith(("sleep 60", "sh -c")) and words != "sleep 605":
            found.append(words)
    return sorted(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
