"""Trees of processes that are hard to end, one small program each, and a run of all of them that is looked at from outside.

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
import platform
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
from tests.commands import ENVIRONMENT, MODES, ending, new_runner, proved, python, shell

MARKER = "FABLE_EXEC_SHAPE"
DEADLINE = 0.35
GRACE = 0.3
"""A call returns this long after its deadline at the latest, or after the end of its leader and of the drain."""
DRAIN = 0.3
_LATE_END_SECONDS = 3.0
_MAX_PIDS = 600
_BOX_SECONDS = 110
_FLOOD = 1_000_000


@attrs.frozen(kw_only=True)
class Shape:
    """One tree.

    Args:
        program: bash, or Python when `in_python`.
        ends: "exited", "signaled", "timed_out" ...; `in_namespace` where a leader that is process 1 ends differently.
        stdout: every byte that must be there; None where only the cap is known.
        survivors: whether processes of the tree outlive the leader, so that they have to be named.
        leader_seconds: when the leader ends by itself, at the latest; None when the deadline ends it.
        lost_in_namespace: the leader is process 1 there, so that its end takes the writer of the output along.
        slow_to_end_in_plain: hundreds of sessions are signalled one by one: the call returns in time, says that the end is not
            proved, and it comes within _LATE_END_SECONDS.
        alone: forks without end, so nothing else runs beside it.
    """

    name: str
    program: str
    in_python: bool = False
    ends: str = "timed_out"
    in_namespace: str | None = None
    stdout: bytes | None = b"go\n"
    stderr: bytes | None = b""
    survivors: bool = False
    lost_in_namespace: bool = False
    slow_to_end_in_plain: bool = False
    leader_seconds: float | None = None
    alone: bool = False
    options: dict[str, Any] = attrs.field(factory=dict)

    @property
    def deadline(self) -> float:
        """Seconds, more for Python: on a busy machine it needs a moment before it can print anything."""
        return float(self.options.get("timeout_seconds", 2 * DEADLINE if self.in_python else DEADLINE))

    def command(self, marker: str) -> Command:
        """The command, marked in its environment."""
        build = python if self.in_python else shell
        options = {"timeout_seconds": self.deadline, **self.options}
        if self.leader_seconds is not None:
            options["timeout_seconds"] = 20.0
        return build(self.program, environment={**ENVIRONMENT, MARKER: marker}, **options)

    def expected_end(self, mode: str) -> str:
        """How it has to end in `mode`."""
        return self.in_namespace if mode == "namespace" and self.in_namespace else self.ends

    def latest(self, mode: str) -> float:
        """Seconds after which the call must have returned."""
        if self.leader_seconds is None or self.expected_end(mode) == "timed_out" != self.ends:
            return self.deadline + GRACE
        return self.leader_seconds + DRAIN + GRACE


_HOP = """
import os, time
def hop():
    while True:
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            time.sleep(0.001)
def start():
    try:
        return os.fork()
    except OSError:
        return 1
os.write(1, b"go\\n")
for _ in range({width}):
    if start() == 0:
        os.setsid()
        hop()
time.sleep(30)
"""
_SYS_EXIT = {"x86_64": 60, "aarch64": 93}.get(platform.machine(), 60)
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine(), 56)
_SIBLINGS = """
import ctypes, os, time
clone = ctypes.CDLL(None, use_errno=True).syscall
for n in range({count}):
    if clone({number}, {flags}, 0, 0, 0, 0) == 0:  # in a namespace of its own the leader is an init, and gets EINVAL
        {child}
os.write(1, b"go\\n")
"""
_CLONE_PARENT_AND_SIGCHLD = 0x8000 | 17


def _siblings(count: int, child: str) -> str:
    return _SIBLINGS.format(count=count, number=_SYS_CLONE, flags=_CLONE_PARENT_AND_SIGCHLD, child=child)


SHAPES: tuple[Shape, ...] = (
    Shape(name="leader exits alone", program="echo go", ends="exited", leader_seconds=0.2),
    Shape(name="background holder", program="sleep 30 & echo go", ends="exited", survivors=True, leader_seconds=0.2),
    Shape(name="setsid holder", program="setsid sleep 30 & echo go", ends="exited", survivors=True, leader_seconds=0.2),
    Shape(name="holder under nohup", program="nohup sleep 30 & echo go", ends="exited", survivors=True, leader_seconds=0.2,
          stderr=None),
    Shape(name="holder in its own process group", program="set -m; sleep 30 & echo go", ends="exited", survivors=True,
          leader_seconds=0.2),
    Shape(name="sibling of the leader", in_python=True, ends="exited", leader_seconds=0.5, survivors=True,
          program=_siblings(1, "os.closerange(0, 3); time.sleep(30)")),
    Shape(name="siblings that hold the streams, one of them with a child", in_python=True, ends="exited", leader_seconds=0.5,
          survivors=True, program=_siblings(3, "n == 1 and os.fork(); time.sleep(30)")),
    Shape(name="siblings that are dead already", in_python=True, ends="exited", leader_seconds=0.5,
          program=_siblings(20, "os._exit(0)")),
    Shape(name="sibling of a leader that stays", in_python=True, program=_siblings(2, "time.sleep(30)") + "time.sleep(30)",
          survivors=True),
    Shape(name="silent until the deadline", program="echo go; sleep 30"),
    Shape(name="TERM, HUP and INT ignored", program="trap '' TERM HUP INT; echo go; sleep 30 & wait"),
    Shape(name="busy loop", program="echo go; while :; do :; done"),
    Shape(name="daemon by double fork", in_python=True, ends="exited", survivors=True, leader_seconds=0.5, program="""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(30)
    os._exit(0)
os.wait()
os.write(1, b"go\\n")
"""),
    Shape(name="hopping family, 1 wide", in_python=True, program=_HOP.format(width=1), alone=True),
    Shape(name="hopping family, 4 wide", in_python=True, program=_HOP.format(width=4), alone=True),
    Shape(name="hopping family, 32 wide", in_python=True, program=_HOP.format(width=32), alone=True),
    Shape(name="hopping family without a leader", in_python=True, ends="exited", survivors=True, leader_seconds=0.5, alone=True,
          program=_HOP.format(width=4).replace("time.sleep(30)", "os._exit(0)")),
    Shape(name="bounded bomb", in_python=True, alone=True, program="""
import os, time
os.write(1, b"go\\n")
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.05)
"""),
    Shape(name="bounded bomb of sessions", in_python=True, alone=True, slow_to_end_in_plain=True, program="""
import os, time
os.write(1, b"go\\n")
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.05)
"""),
    Shape(name="a megabyte, then exit", program=f"head -c {_FLOOD} /dev/zero", ends="exited", stdout=b"\0" * _FLOOD,
          leader_seconds=0.5),
    Shape(name="five megabytes, then exit", program=f"head -c {5 * _FLOOD} /dev/zero", ends="exited", stdout=b"\0" * 5 * _FLOOD,
          leader_seconds=0.8, options={"max_output_bytes": 5 * _FLOOD}),
    Shape(name="a megabyte, then silence", program=f"head -c {_FLOOD} /dev/zero; sleep 30", stdout=b"\0" * _FLOOD,
          options={"timeout_seconds": 1.0}),
    Shape(name="one byte over the cap", program=f"head -c {_FLOOD + 1} /dev/zero; sleep 30", ends="output_limited",
          stdout=b"\0" * _FLOOD, leader_seconds=0.5),
    Shape(name="reader of a standard input that was not given", program="cat; echo go", ends="exited", leader_seconds=0.2),
    Shape(name="background reader of standard input", program="cat <&0 & echo go; wait", ends="exited", leader_seconds=0.2),
    Shape(name="standard input that nobody reads", program="echo go; exec sleep 30", options={"stdin": b"x" * (_FLOOD // 2)}),
    Shape(name="closed streams, leader stays", program="echo go; exec >&- 2>&-; sleep 30"),
    Shape(name="closed streams, child stays", program="sleep 30 >/dev/null 2>&1 & echo go", ends="exited", survivors=True,
          leader_seconds=0.2),
    Shape(name="child that holds only stderr", program="sleep 30 >/dev/null & echo go", ends="exited", survivors=True,
          leader_seconds=0.2),
    Shape(name="process substitution", program="exec > >(cat) 2>&1; echo go", ends="exited", leader_seconds=0.2,
          lost_in_namespace=True),
    Shape(name="both streams, then silence", program="echo go; echo no >&2; sleep 30", stderr=b"no\n"),
    Shape(name="leader kills itself, child stays", program="echo go; sleep 30 & kill -9 $$", ends="signaled",
          in_namespace="exited", survivors=True, leader_seconds=0.2),
    Shape(name="leader stopped by its child", program="echo go; (kill -STOP $$; sleep 30) & sleep 30"),
    Shape(name="child that stops itself", program="(kill -STOP $BASHPID) & echo go", ends="exited", survivors=True,
          leader_seconds=0.2),
    Shape(name="child floods after its leader", program="yes & echo go >&2", ends="exited", stdout=None, stderr=b"go\n",
          survivors=True, leader_seconds=0.2, options={"on_output_limit": "truncate"}),
    Shape(name="nested subreaper", in_python=True, ends="exited", survivors=True, leader_seconds=0.5, program="""
import ctypes, os, time
if os.fork() == 0:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    for _ in range(3):
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                time.sleep(30)
            os._exit(0)
    time.sleep(30)
time.sleep(0.1)
os.write(1, b"go\\n")
"""),
    Shape(name="orphan that reopens /dev/tty", in_python=True, ends="exited", survivors=True, leader_seconds=0.6, program="""
import os, time
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    try:
        os.open("/dev/tty", os.O_RDWR)
        answer = b"a terminal\\n"
    except OSError:
        answer = b"go\\n"
    os.write(writing, answer)
    time.sleep(30)
os.write(1, os.read(reading, 99))
"""),
    Shape(name="child that traces its leader", in_python=True, ends="exited", stdout=b"go\n", leader_seconds=0.8, program="""
import ctypes, os, time
reading, writing = os.pipe()
if os.fork() == 0:
    ctypes.CDLL(None).ptrace(0x4206, os.getppid(), 0, 0)
    os.write(writing, b"go\\n")
    time.sleep(30)
os.write(1, os.read(reading, 9))
"""),
    Shape(name="leader that asks to be traced", in_python=True, program="""
import ctypes, os, signal
os.write(1, b"go\\n")
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGSTOP)
import time
time.sleep(30)
""", in_namespace="timed_out"),
    Shape(name="chain of execs", program="exec bash -c 'exec bash -c \"exec echo go\"'", ends="exited", leader_seconds=0.3),
    Shape(name="vforked child stays", in_python=True, ends="exited", survivors=True, leader_seconds=0.5, program="""
import os
os.posix_spawn("/bin/sleep", ["sleep", "30"], {**os.environ})
os.write(1, b"go\\n")
"""),
    Shape(name="main thread gone, another stays", in_python=True, program=f"""
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(30,)).start()
os.write(1, b"go\\n")
ctypes.CDLL(None).syscall({_SYS_EXIT}, 0)
"""),
    Shape(name="burst of short children", program="for i in {1..150}; do (:) & done; wait; echo go", ends="exited",
          leader_seconds=1.5),
    Shape(name="children that nobody waits for", in_python=True, program="""
import os, time
for _ in range(100):
    if os.fork() == 0:
        os._exit(0)
os.write(1, b"go\\n")
time.sleep(30)
"""),
    Shape(name="silence over the idle limit", program="echo go; sleep 30", ends="idle_timed_out", leader_seconds=DEADLINE,
          options={"idle_timeout_seconds": DEADLINE}),
)  # fmt: skip


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
    left = _left_after(marker, _LATE_END_SECONDS if slow else 0.0)
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
    while (left := _marked(marker)) and time.monotonic() < give_up_at:
        continue
    return left


def _marked(marker: str) -> list[str]:
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
