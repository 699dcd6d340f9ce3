"""The init of a slot or job is a process of the same user as what is in there: its limits and its scheduling are its own.

Without them it could not look for what is left, end it, or serve the next command.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fable_exec.supervisor import ExecutionSpec, Supervisor
from tests.confinement.places import NEEDS, confined, confined_policy, run

pytestmark = pytest.mark.requires_ability(*NEEDS["slots"])

_TRYING = """
import ctypes, json, os, platform
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": (302, 203, 144, 142, 314, 251), "aarch64": (261, 122, 119, 118, 274, 30)}[platform.machine()]
prlimit, affinity, scheduler, parameters, attributes, io_priority = number
limits = (ctypes.c_uint64 * 2)(64, 64)
mask, plain = ctypes.c_ulong(1), ctypes.c_int(0)
more = ctypes.create_string_buffer(b"\\x30" + b"\\0" * 47)
def tried(call, *arguments):
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(call), *arguments) < 0 else 0
def on(process):
    return [
        tried(prlimit, process, 7, ctypes.byref(limits), None),
        tried(affinity, process, 8, ctypes.byref(mask)),
        tried(scheduler, process, 0, ctypes.byref(plain)),
        tried(parameters, process, ctypes.byref(plain)),
        tried(attributes, process, more, 0),
        tried(io_priority, 1, process, 2 << 13 | 7),
        libc.setpriority(0, process, 1) and ctypes.get_errno(),
    ]
print(json.dumps([os.getpid() == 1, on(1), on(os.getpid()), libc.setpriority(2, os.getuid(), 2) and ctypes.get_errno()]))
"""
_EXPECTED = [False, [1] * 7, [0] * 7, 1]


def test_a_command_changes_nothing_of_its_slots_init_and_all_of_its_own(workspace: Path) -> None:
    with confined(workspace, "slots") as broker:
        assert json.loads(run(broker, "python3", "-c", _TRYING).stdout) == _EXPECTED


def test_nor_does_a_job(workspace: Path) -> None:
    policy = confined_policy(workspace, "auto", allowed_executables=("python3",))
    with Supervisor(root=workspace.parent / "records") as supervisor:
        spec = ExecutionSpec(argv=("python3", "-c", _TRYING), workspace=workspace, policy=policy)
        execution = supervisor.wait(supervisor.start(spec).execution_id, 60)
        assert json.loads((execution.directory / "runner.log").read_text()) == _EXPECTED
