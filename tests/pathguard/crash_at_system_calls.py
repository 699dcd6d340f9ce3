"""The program of test_crash.py: `... DIRECTORY RESOLVER SCENE` kills a writer with SIGKILL at each of its system calls in turn.

For n = 1, 2, ...: a child stops itself, is traced with ptrace(2) from then on, runs one write, and is killed at the n-th stop;
every system call has two, before and after. The workspace is looked at after each death.
Ends when a child came through. Prints JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fable_exec.pathguard import Workspace, WorkspacePath, is_temporary_name

PTRACE_TRACEME = 0
PTRACE_SYSCALL = 24
MAX_STOPS = 1000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def trace(request: int, pid: int, data: int = 0) -> None:
    if _libc.ptrace(request, pid, None, data) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


def write(directory: str, resolver: str, scene: str) -> None:
    with Workspace.open(directory, resolver=resolver) as workspace:
        trace(PTRACE_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        if scene == "create":
            workspace.create_exclusive(WorkspacePath.parse("f"), b"whole new")
        else:
            workspace.write_replace(WorkspacePath.parse("f"), b"whole new")


def killed_at(stop: int, directory: str, resolver: str, scene: str) -> bool:
    """Whether the child was still at work at that stop; it is dead either way."""
    pid = os.fork()
    if pid == 0:
        try:
            write(directory, resolver, scene)
        finally:
            os._exit(0)
    for _ in range(stop):
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            return False
        trace(PTRACE_SYSCALL, pid)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        return False
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def main() -> None:
    directory, resolver, scene = sys.argv[1:]
    target = Path(directory, "f")
    outcomes: dict[str, int] = {}
    leftovers: list[int] = []
    for stop in range(1, MAX_STOPS):
        target.unlink(missing_ok=True)
        if scene == "replace":
            target.write_bytes(b"whole old")
        went_on = not killed_at(stop, directory, resolver, scene)
        content = target.read_bytes().decode() if target.exists() else "absent"
        outcomes[content] = outcomes.get(content, 0) + 1
        names = [name for name in os.listdir(directory) if name != "f"]
        assert all(is_temporary_name(name) for name in names), names
        leftovers.append(len(names))
        with Workspace.open(directory, resolver=resolver) as workspace:
            assert workspace.remove_leftovers() == len(names)
        assert [name for name in os.listdir(directory) if name != "f"] == []
        if went_on:
            break
    print(json.dumps({"stops": stop, "outcomes": outcomes, "most_leftovers": max(leftovers), "with_leftover": sum(leftovers)}))


if __name__ == "__main__":
    main()
