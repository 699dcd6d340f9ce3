"""Many processes ask for the same few executions at the same time: who runs, who is told what, and what the jobs saw."""

from __future__ import annotations

import collections
import json
import os
import random
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import attrs

from fable_exec.errors import Conflict
from fable_exec.supervisor import ExecutionSpec, Supervisor
from tests.supervision_runs.jobs import Evidence, await_keeper, spec_of

_THREADS = 4


@attrs.frozen(kw_only=True)
class Storm:
    """So many starts from so many processes of four threads, over `ids` that share `workspaces`, all by one seed."""

    starts: int
    processes: int
    ids: int
    workspaces: int
    seed: int
    rung: str

    def run(self, directory: Path) -> dict[str, Any]:
        """Counts of what the starters were told, and faults: what must not be. Both are empty of each other's words."""
        specs = self._specs(directory)
        began = time.monotonic()
        answers = self._told(directory, specs)
        seconds = time.monotonic() - began
        for spec in specs:
            if (directory / "root" / str(spec.execution_id)).exists():
                await_keeper(directory / "root", str(spec.execution_id))
        counts = collections.Counter(answer["told"] for answer in answers)
        ran, faults = _judged(directory, specs, answers)
        return {
            "counts": {**counts, "ran": ran},
            "faults": faults,
            "seconds": round(seconds, 2),
            "starts": len(answers),
            "seed": self.seed,
        }

    def _specs(self, directory: Path) -> list[ExecutionSpec]:
        chance = random.Random(self.seed)
        found = []
        for number in range(self.ids):
            workspace = directory / f"w{number % self.workspaces}"
            workspace.mkdir(mode=0o700, exist_ok=True)
            name = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            seconds = chance.uniform(0.0, 1.0)
            found.append(spec_of(workspace, self.rung, execution_id=name, seconds=seconds, status=number % 20))
        return found

    def _told(self, directory: Path, specs: list[ExecutionSpec]) -> list[dict[str, Any]]:
        """Every starter goes through the ids in one order, so that all are at the same ones at the same time."""
        reading, writing = os.pipe()  # its end is the signal to begin
        children = []
        for process in range(self.processes):
            child = os.fork()
            if child == 0:
                os.close(writing)
                try:
                    self._be_starter(directory, specs, process, reading)
                finally:
                    os._exit(1)
            children.append(child)
        os.close(reading)
        time.sleep(0.3)
        os.close(writing)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert set(statuses) == {0}, statuses
        return [answer for process in range(self.processes) for answer in json.loads((directory / f"told-{process}").read_text())]

    def _be_starter(self, directory: Path, specs: list[ExecutionSpec], process: int, go: int) -> None:
        order = list(range(len(specs)))
        mine = self.starts // self.processes + (process < self.starts % self.processes)
        plan = []
        while len(plan) < mine:
            random.Random(self.seed + len(plan)).shuffle(order)
            plan += order
        answers: list[dict[str, Any]] = []
        supervisor = Supervisor(directory / "root")
        os.read(go, 1)

        def start_share(share: list[int]) -> None:
            for number in share:
                answers.append(_told_of(supervisor, specs[number]))

        threads = [threading.Thread(target=start_share, args=(plan[:mine][offset::_THREADS],)) for offset in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        supervisor.close()
        (directory / f"told-{process}").write_text(json.dumps(answers))
        os._exit(0)


def _told_of(supervisor: Supervisor, spec: ExecutionSpec) -> dict[str, Any]:
    try:
        execution = supervisor.start(spec)
    except Conflict as error:
        return {"id": spec.execution_id, "told": f"conflict: {error.reason}"}
    except Exception as error:
        return {"id": spec.execution_id, "told": f"fault: {error!r}"[:300]}
    found = execution.document
    return {"id": found["execution_id"], "told": "execution", "which": [found["accepted_at"], found["supervisor_pid"]]}


def _judged(directory: Path, specs: list[ExecutionSpec], answers: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """How many ran, and everything that must not be."""
    faults = [answer["told"] for answer in answers if answer["told"] not in ("execution", "conflict: workspace")]
    which = collections.defaultdict(set)
    for answer in answers:
        if answer["told"] == "execution":
            which[answer["id"]].add(tuple(answer["which"]))
    faults += [f"{name} was {len(found)} executions" for name, found in which.items() if len(found) != 1]
    evidence = {workspace: Evidence.of(workspace) for workspace in {spec.workspace for spec in specs}}
    faults += [fault for each in evidence.values() for fault in each.faults()]
    ran = 0
    with Supervisor(directory / "root") as supervisor:
        for number, spec in enumerate(specs):
            name = str(spec.execution_id)
            runners = evidence[spec.workspace].runners(name)
            ran += runners
            if runners != (name in which):
                faults.append(f"{name} has {runners} runners, and was told of {len(which.get(name, ()))} times")
            found = supervisor.get(name)
            if (found is not None) != (name in which):
                faults.append(f"{name} has {'a' if found else 'no'} state")
            elif found is not None and (found.state.value, found.exit_code) != ("exited", number % 20):
                faults.append(f"{name} ended as {found.document['termination_reason']} {found.exit_code}")
    return ran, faults
