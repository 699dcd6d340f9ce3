"""Trees of processes that are hard to end, one small program each: what they print, how they have to end, and how soon."""

from __future__ import annotations

import platform
from typing import Any

import attrs

from fable_exec.runner import Command
from tests.commands import ENVIRONMENT, python, shell

MARKER = "FABLE_EXEC_SHAPE"
DEADLINE = 0.35
GRACE = 0.3
"""A call returns this long after its deadline at the latest, or after the end of its leader and of the drain."""
DRAIN = 0.3
LATE_END_SECONDS = 3.0
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
            proved, and it comes within LATE_END_SECONDS.
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


HOP = """
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
    Shape(name="hopping family, 1 wide", in_python=True, program=HOP.format(width=1), alone=True),
    Shape(name="hopping family, 4 wide", in_python=True, program=HOP.format(width=4), alone=True),
    Shape(name="hopping family, 32 wide", in_python=True, program=HOP.format(width=32), alone=True),
    Shape(name="hopping family without a leader", in_python=True, ends="exited", survivors=True, leader_seconds=0.5, alone=True,
          program=HOP.format(width=4).replace("time.sleep(30)", "os._exit(0)")),
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
