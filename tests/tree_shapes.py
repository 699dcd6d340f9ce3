"""A run of all the trees of `shapes`, looked at from outside.

`python -m tests.tree_shapes --table` prints how each shape ended in each launch mode, how long after its deadline (or the end of
its leader) the call returned, whether every byte was there, and how many processes were left. Everything runs in a pid box.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from fable_exec.client import BrokerClient
from fable_exec.outcome import Captured
from fable_exec.policy import BrokerPolicy, Confinement, EnvironmentPolicy
from fable_exec.runner import Command, Outcome
from tests import boxes
from tests.commands import MODES, ending, new_runner, proved
from tests.shapes import GRACE, LATE_END_SECONDS, MARKER, SHAPES, Shape

_MAX_PIDS = 600
_BOX_SECONDS = 110


@attrs.frozen(kw_only=True)
class Finding:
    """What became of one shape."""

    shape: str
    mode: str
    ended: str
    late_seconds: float
    left: int
    wrong: tuple[str, ...]


Door = Callable[[Command], Outcome]


def run_shape(shape: Shape, mode: str, run: Door, slack: float) -> Finding:
    """Run it and look for what is wrong: the end, the bytes, the time (`slack` more is allowed), what is left."""
    marker = os.urandom(8).hex()
    began = time.monotonic()
    outcome = run(shape.command(marker))
    elapsed = time.monotonic() - began
    slow = mode == "plain" and shape.slow_to_end_in_plain and not proved(outcome)
    left = _left_after(marker, LATE_END_SECONDS if slow else 0.0)
    wrong = _faults(shape, mode, outcome)
    if elapsed > shape.latest(mode) + slack:
        wrong.append(f"returned after {elapsed:.2f} s")
    if left:
        wrong.append(f"{len(left)} left: {left[:3]}")
    late = elapsed - shape.latest(mode) + GRACE
    ended = outcome.ended_by.value
    return Finding(shape=shape.name, mode=mode, ended=ended, late_seconds=late, left=len(left), wrong=tuple(wrong))


def _faults(shape: Shape, mode: str, outcome: Outcome) -> list[str]:
    wrong = []
    if outcome.ended_by.value != shape.expected_end(mode):
        wrong.append(f"ended {ending(outcome)}, not {shape.expected_end(mode)}")
    for name, captured, expected in (("stdout", outcome.stdout, shape.stdout), ("stderr", outcome.stderr, shape.stderr)):
        if shape.lost_in_namespace and mode == "namespace":
            continue
        if expected is not None and captured.raw != expected:
            wrong.append(f"{name} has {len(captured.raw)} bytes {captured.raw[:40]!r}, not {len(expected)}")
    if shape.survivors and mode != "namespace" and not outcome.survivors:
        wrong.append("survivors not named")
    if not proved(outcome) and not (mode == "plain" and shape.slow_to_end_in_plain):
        wrong.append("not proved gone")
    return wrong


def _left_after(marker: str, seconds: float) -> list[str]:
    """Who is left, now or after `seconds` in which they may still die."""
    give_up_at = time.monotonic() + seconds
    while (left := marked(marker)) and time.monotonic() < give_up_at:
        continue
    return left


def marked(marker: str) -> list[str]:
    """The living processes in this /proc whose environment or arguments hold `marker`."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                text = Path(f"/proc/{entry}/environ").read_bytes() + Path(f"/proc/{entry}/cmdline").read_bytes()
                if marker.encode() in text:
                    found.append(f"{entry} {Path(f'/proc/{entry}/stat').read_text()[:60]}")
            except OSError:
                continue
    return found


@contextlib.contextmanager
def in_process(workspace: Path, mode: str) -> Iterator[Door]:
    """The runner of this process."""
    runner = new_runner(workspace, mode)
    try:
        yield runner.run
    finally:
        runner.close()


@contextlib.contextmanager
def spawned(workspace: Path, mode: str) -> Iterator[Door]:
    """A broker in a process of its own, over the line protocol, unlocked because every shape is an interpreter."""
    token = os.urandom(16).hex()
    policy = BrokerPolicy(
        workspace=workspace,
        allowed_executables=("bash", "python3"),
        write_token_digest=hashlib.sha256(token.encode()).hexdigest(),
        environment=EnvironmentPolicy(request_names=(MARKER,)),
        launch=mode,  # type: ignore[arg-type]  # one of MODES
        confinement=Confinement.off(),  # as in_process: a filter that refuses ptrace would end the trees that use it otherwise
    )
    with BrokerClient(policy) as client:
        client.unlock_writes(token)
        yield lambda command: _over(client, command)


def _over(client: BrokerClient, command: Command) -> Outcome:
    result = client.execute_command(
        command.argv,
        timeout_seconds=command.timeout_seconds,
        stdin=command.stdin,
        env={MARKER: command.environment[MARKER]},
        idle_timeout_seconds=command.idle_timeout_seconds,
        on_output_limit=command.on_output_limit,
    )
    return Outcome(
        ended_by=result.outcome,
        exit_code=result.exit_code,
        signal=result.signal,
        stdout=Captured(head=result.stdout_raw),
        stderr=Captured(head=result.stderr_raw),
        survivors=result.survivors,
        applied=result.confinement,
    )


DOORS = {"in-process": in_process, "spawned": spawned}


def run_all(mode: str, shapes: Iterable[Shape], *, slack: float, together: int, door: str = "in-process") -> list[Finding]:
    """Every shape under one runner: the well-behaved ones `together` at a time, those that fork without end alone."""
    chosen = [shape for shape in shapes if door == "in-process" or "max_output_bytes" not in shape.options]
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o700)
        with DOORS[door](Path(directory), mode) as run:
            with concurrent.futures.ThreadPoolExecutor(together) as pool:
                beside = [shape for shape in chosen if not shape.alone]
                findings = list(pool.map(lambda shape: run_shape(shape, mode, run, slack), beside))
            findings += [run_shape(shape, mode, run, slack) for shape in chosen if shape.alone]
    return findings


def others_in_this_namespace() -> list[str]:
    """The processes here besides process 1 and ourselves, zombies too: empty when nothing is left."""
    ours = {1, os.getpid(), os.getppid()}
    pids = sorted(map(int, filter(str.isdigit, os.listdir("/proc"))))
    return [f"{pid} {_stat(pid)}" for pid in pids if pid not in ours and _stat(pid)]


def _stat(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text()[:60]
    except OSError:
        return ""


def in_a_box(
    mode: str, *, slack: float, together: int, cwd: Path, door: str = "in-process", names: Iterable[str] = ()
) -> dict[str, Any]:
    """Run this module's shapes in a pid box of their own: {"findings": [...], "left": [...]}."""
    argv = [sys.executable, "-m", "tests.tree_shapes", "--mode", mode, "--slack", str(slack), "--together", str(together)]
    argv += ["--door", door, *names]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = boxes.run_in_pid_box(argv, _BOX_SECONDS, _MAX_PIDS, cwd, env=environment)
    if done.returncode != 0:
        raise AssertionError(f"the box ended with {done.returncode}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _print_table(modes: Iterable[str], door: str) -> int:
    columns = {mode: in_a_box(mode, slack=0.0, together=1, cwd=Path.cwd(), door=door) for mode in modes}
    print(f"{door}: how it ended, seconds after the deadline or the latest end of the drain, processes left")
    print(f"{'shape':44} " + " ".join(f"{mode:^34}" for mode in columns))
    for name in [finding["shape"] for finding in next(iter(columns.values()))["findings"]]:
        cells = [next(cell for cell in answer["findings"] if cell["shape"] == name) for answer in columns.values()]
        texts = [f"{cell['ended']:14} {cell['late_seconds']:+.3f} left {cell['left']} {'ok' if not cell['wrong'] else 'WRONG'}"
                 for cell in cells]  # fmt: skip
        print(f"{name:44} " + " ".join(f"{text:^34}" for text in texts))
        for cell in cells:
            print("".join(f"    {cell['mode']}: {fault}\n" for fault in cell["wrong"]), end="")
    faults = [cell for answer in columns.values() for cell in answer["findings"] if cell["wrong"]]
    left = [line for answer in columns.values() for line in answer["left"]]
    count = len(next(iter(columns.values()))["findings"])
    print(f"{count} shapes, {len(columns)} modes, {len(faults)} wrong, {len(left)} processes left in the boxes {left[:5]}")
    return 1 if faults or left else 0


def main(arguments: list[str]) -> int:
    """The command line: `--table`, or one mode's findings as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="run everything in boxes and print the table")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--door", choices=DOORS, default="in-process", help="the runner here, or a broker of its own")
    parser.add_argument("--slack", type=float, default=0.0)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(arguments)
    if given.table:
        return _print_table(given.mode or MODES, given.door)
    shapes = [shape for shape in SHAPES if not given.names or shape.name in given.names]
    findings = run_all(given.mode[0], shapes, slack=given.slack, together=given.together, door=given.door)
    print(json.dumps({"findings": [attrs.asdict(finding) for finding in findings], "left": others_in_this_namespace()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
