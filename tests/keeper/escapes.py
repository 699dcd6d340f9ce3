"""Trees that are hard to end, each as a supervised job, among hundreds of processes that have nothing to do with it.

`python -m tests.keeper.escapes --rung RUNG [--others N] [NAME ...]` prints what became of each. For a pid box only.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from fable_exec.supervisor import Execution, Supervisor
from tests import boxes, shapes, tree_shapes
from tests.keeper.scenes import PROOFS, WITHOUT_GROUPS, Scene, init_of, log, supervising
from tests.shapes import HOP, MARKER, Shape
from tests.waiting import until

GRACE_SECONDS = 0.3
SLACK_SECONDS = 20.0
"""For a busy machine; each step of an end is bounded by itself."""
BOX_SECONDS = 100
MAX_PIDS = 1600
"""For a thousand orphans among five hundred others; where somebody forks without end all numbers are taken: FEWER_PIDS."""
FEWER_PIDS = 600
_TOGETHER = 4

ORPHANS = "a thousand orphans that die at once"
_ORPHANS = """
import os, signal
for _ in range(1000):
    middle = os.fork()
    if middle == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(middle, 0)
os.write(1, b"go\\n")
"""
_DEAF = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writing, b"x")
        time.sleep(60)
    os._exit(0)
os.read(reading, 1)
os.write(1, b"go\\n")
"""
_TRACED_MEMBER = """
import ctypes, os, time
reading, writing = os.pipe()
traced = os.fork()
if traced == 0:
    os.setsid()
    time.sleep(60)
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).ptrace(0x4206, traced, 0, 0)
    os.write(writing, b"x")
    time.sleep(60)
os.read(reading, 1)
os.write(1, b"go\\n")
"""
_WRITES_ON = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    while True:
        os.write(1, b"x" * 4096)
os.write(2, b"go\\n")
"""

MORE_SHAPES = (
    Shape(name=ORPHANS, program=_ORPHANS, in_python=True, ends="exited", leader_seconds=6.0,
          alone=True),
    Shape(name="member that ignores every request", program=_DEAF, in_python=True, ends="exited", survivors=True,
          leader_seconds=0.5),
    Shape(name="member that traces another", program=_TRACED_MEMBER, in_python=True, ends="exited", survivors=True,
          leader_seconds=0.5),
    Shape(name="member that floods and ignores", program=_WRITES_ON, in_python=True, ends="exited", survivors=True, stdout=None,
          leader_seconds=0.5),
    Shape(name="hopping family, 64 wide", program=HOP.format(width=64), in_python=True, alone=True),
)  # fmt: skip
TRACED_LEADERS = {"child that traces its leader"}
"""A runner waits for such a leader only; a keeper finds its tracer too."""
TAILS = {"process substitution"}
"""What is about to end by itself, and may or may not be met."""
DEAF = {"member that ignores every request", "member that floods and ignores"}
"""Who has to be killed."""
NOT_FOR_KEEPERS = {
    "reader of a standard input that was not given", "standard input that nobody reads", "child floods after its leader",
    "one byte over the cap",
}  # fmt: skip
SHAPES = tuple(shape for shape in (*shapes.SHAPES, *MORE_SHAPES) if shape.name not in NOT_FOR_KEEPERS)
ENDLESS = tuple(shape.name for shape in SHAPES if shape.alone and shape.name != ORPHANS)
"""Who forks without end."""
TAME = tuple(shape.name for shape in SHAPES if shape.name not in ENDLESS)


def run_shape(scene: Scene, shape: Shape) -> dict[str, Any]:
    """Keep it, and say what is wrong with its record or left behind."""
    marker = os.urandom(8).hex()
    began = time.monotonic()
    execution = scene.ended((scene.python if shape.in_python else scene.shell)(shape.program, **_bounds(shape, marker)), 30)
    elapsed = time.monotonic() - began
    print(shape.name, round(elapsed, 2), file=sys.stderr, flush=True)
    left = tree_shapes.marked(marker)
    wrong = [*_faults(shape, execution, scene.rung)]
    if elapsed > _latest(shape) + SLACK_SECONDS:
        wrong.append(f"took {elapsed:.2f} s")
    if left:
        wrong.append(f"left {left[:3]}")
    names = ("termination_reason", "returncode", "containment", "quiescence_proof", "descendants")
    told = {name: execution.document[name] for name in names}
    return {"shape": shape.name, "seconds": round(elapsed, 3), "wrong": wrong, **told}


def _bounds(shape: Shape, marker: str) -> dict[str, Any]:
    return {
        "environment": {MARKER: marker},
        "hard_timeout_seconds": 20.0 if shape.leader_seconds is not None else shape.deadline,
        "idle_timeout_seconds": shape.options.get("idle_timeout_seconds"),
        "stop_grace_seconds": GRACE_SECONDS,
        "descendant_grace_seconds": GRACE_SECONDS,
    }


def _latest(shape: Shape) -> float:
    return (shape.leader_seconds if shape.leader_seconds is not None else shape.deadline) + 2 * GRACE_SECONDS


def expected_reason(shape: Shape) -> str:
    """Members that outlive a leader which ended by itself are what is told first."""
    if shape.ends in ("timed_out", "idle_timed_out"):
        return "timed_out"
    return "descendants_terminated" if shape.survivors or shape.name in TRACED_LEADERS else "completed"


def _faults(shape: Shape, execution: Execution, rung: str) -> Iterator[str]:
    document = execution.document
    told = document["descendants"]
    if document["termination_reason"] != expected_reason(shape) and shape.name not in TAILS:
        yield f"{document['termination_reason']} for {expected_reason(shape)}"
    if document["containment"] not in (rung, "cgroup") or document["quiescence_proof"] != PROOFS[document["containment"]]:
        yield f"held by {document['containment']}, proof {document['quiescence_proof']}"
    if (told["checked"], told["quiescent"], told["remaining_pids"], told["error"]) != (True, True, [], None):
        yield "not said to be quiescent"
    if shape.name in TAILS:
        return
    if told["detected"] != (expected_reason(shape) == "descendants_terminated"):
        yield f"detected is {told['detected']}"
    if told["detected"] and not (told["detected_processes"] and told["term_sent"]):
        yield "who was detected is not named, or was not asked to end"
    if shape.name in DEAF and not told["kill_sent"]:
        yield "who was deaf is not told to be killed"
    if shape.stdout is not None and not shape.lost_in_namespace:
        expected = shape.stdout + (shape.stderr or b"")
        if log(execution) != expected and shape.stderr is not None:
            yield f"the log has {len(log(execution))} bytes, not {len(expected)}"


@contextmanager
def others(count: int) -> Iterator[list[int]]:
    """So many processes that are nobody's business, some of them children of this very host, which must all live on."""
    crowd = subprocess.Popen(
        ["bash", "-c", f"for ((n = 0; n < {count}; n++)); do sleep 600 & done; echo ready; wait"], stdout=subprocess.PIPE
    )
    assert crowd.stdout is not None
    crowd.stdout.readline()
    own = [subprocess.Popen(["sleep", "600"], start_new_session=number % 2 == 0) for number in range(4)]
    pids = [int(pid) for pid in Path(f"/proc/{crowd.pid}/task/{crowd.pid}/children").read_text().split()]
    try:
        yield [crowd.pid, *pids, *(each.pid for each in own)]
    finally:
        for each in (crowd, *own):
            each.kill()
            each.wait()
        for pid in pids:
            os.kill(pid, 9)


def _run_all(rung: str, names: list[str], count: int, alteration: str) -> dict[str, Any]:
    chosen = [shape for shape in SHAPES if not names or shape.name in names]
    with tempfile.TemporaryDirectory() as directory, others(count) as strangers:
        os.chmod(directory, 0o700)
        before = _who(strangers)
        with supervising(Path(directory), alteration) as supervisor:
            scenes = [_scene(supervisor, Path(directory), rung) for _ in chosen]
            with concurrent.futures.ThreadPoolExecutor(_TOGETHER) as pool:
                beside = [pair for pair in zip(scenes, chosen, strict=True) if not pair[1].alone]
                findings = list(pool.map(lambda pair: run_shape(*pair), beside))
            findings += [run_shape(scene, shape) for scene, shape in zip(scenes, chosen, strict=True) if shape.alone]
        touched = sorted(before.items() - _who(strangers).items())
    until(lambda: len(tree_shapes.others_in_this_namespace()) == 0)
    return {"findings": findings, "touched": touched, "strangers": len(strangers)}


def _who(pids: list[int]) -> dict[int, str]:
    """Each with the moment of its birth and whether it lives: who was stopped, ended or replaced is another."""
    found = {}
    for pid in pids:
        state, *_, born = _fields(pid)[:20]
        found[pid] = f"{'lives' if state in 'RSD' else state} since {born}"
    return found


def _fields(pid: int | str) -> list[str]:
    """What /proc/PID/stat says from the state on; the parent is the second, the birth the last of the first twenty."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["gone"] * 20


def _comes(condition: Callable[[], bool], seconds: float) -> bool:
    give_up_at = time.monotonic() + seconds
    while not (has_come := condition()) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    return has_come


def tell_zombies(rung: str, alteration: str) -> NoReturn:
    """Print how many of three hundred orphans that died at once still lie about, when their job has gone on for long.

    It ends without the usual ways: the box ends with us, and the job with the box.
    """
    program = _ORPHANS.replace("1000", "300") + "signal.pause()"
    with tempfile.TemporaryDirectory() as directory, supervising(Path(directory), alteration) as supervisor:
        os.chmod(directory, 0o700)
        scene = _scene(supervisor, Path(directory), rung)
        execution = scene.python(program, stop_grace_seconds=0)
        _comes(lambda: b"go" in log(execution), 5.0)  # a flood may keep it from forking
        init = str(init_of(execution))

        def left() -> int:
            return sum(_fields(pid)[:2] == ["Z", init] for pid in os.listdir("/proc") if pid.isdigit())

        before = MAX_PIDS
        while not _comes(lambda: not left(), 3.0) and (now := left()) < before:  # on a busy machine they become fewer
            before = now
        print(left(), flush=True)
        os._exit(0)


def _scene(supervisor: Supervisor, directory: Path, rung: str) -> Scene:
    return Scene(supervisor=supervisor, workspace=Path(tempfile.mkdtemp(dir=directory)), rung=rung)


def in_a_box(
    rung: str, *names: str, cwd: Path, count: int = 500, max_pids: int = MAX_PIDS, alteration: str = WITHOUT_GROUPS
) -> dict[str, Any]:
    """Run these shapes, or all, in a pid box: {"findings", "touched", "strangers"}."""
    answer: dict[str, Any] = _in_a_box(rung, cwd, max_pids, alteration, "--others", str(count), *names)
    return answer


def zombies_in_a_box(rung: str, cwd: Path, alteration: str) -> int:
    """What `tell_zombies` tells, in a pid box."""
    found: int = _in_a_box(rung, cwd, FEWER_PIDS, alteration, "--zombies")
    return found


def _in_a_box(rung: str, cwd: Path, max_pids: int, alteration: str, *words: str) -> Any:
    argv = [sys.executable, "-m", "tests.keeper.escapes", "--rung", rung, "--alteration", alteration, *words]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = boxes.run_in_pid_box(argv, BOX_SECONDS, max_pids, cwd, env=environment)
    assert done.returncode == 0, f"the box ended with {done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout)


def main(arguments: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rung", required=True)
    parser.add_argument("--others", type=int, default=500)
    parser.add_argument("--alteration", default=WITHOUT_GROUPS)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--zombies", action="store_true")
    given = parser.parse_args(arguments)
    if given.zombies:
        tell_zombies(given.rung, given.alteration)
    print(json.dumps(_run_all(given.rung, given.names, given.others, given.alteration)))


if __name__ == "__main__":
    main(sys.argv[1:])
