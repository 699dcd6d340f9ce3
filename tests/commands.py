"""Commands for tests of the runner: real executables, a workspace, and outcomes in one line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from fable_exec.confine import FileView, compile_plan
from fable_exec.policy import Limits
from fable_exec.policy.confinement import Confinement
from fable_exec.runner import Command, Executable, Launchers, Outcome, Runner, WorkspaceIdentity

MODES = ("slots", "namespace", "plain")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}


def executable(name: str, **more: Any) -> Executable:
    """The program `name` of the PATH (or an absolute path) as a broker would have registered it."""
    found = shutil.which(name, path=ENVIRONMENT["PATH"]) or name
    path = os.path.realpath(found)
    status = os.stat(path)
    return Executable(
        name=os.path.basename(found),
        registered_path=found,
        path=path,
        device=status.st_dev,
        inode=status.st_ino,
        **more,
    )


def command(*argv: str, **more: Any) -> Command:
    """`argv` as it is; the program is looked up by its first item."""
    more.setdefault("environment", ENVIRONMENT)
    return Command(argv=argv, executable=executable(argv[0]), **more)


def shell(script: str, **more: Any) -> Command:
    """A bash script."""
    return command("bash", "-c", script, **more)


def python(program: str, *arguments: str, **more: Any) -> Command:
    """A Python program, without site so that it starts fast."""
    return command("python3", "-I", "-S", "-c", program, *arguments, **more)


def identity(workspace: Path) -> WorkspaceIdentity:
    """The workspace as a broker would have pinned it."""
    descriptor = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return WorkspaceIdentity.of(str(workspace), descriptor)
    finally:
        os.close(descriptor)


def new_runner(workspace: Path, mode: Any, limits: Limits | None = None, confinement: Confinement | None = None) -> Runner:
    """A runner in `workspace`, without confinement where none is given; the caller closes it."""
    view = FileView(workspace=str(workspace), writable=True)
    wanted = confinement or Confinement.off()
    return Runner(Launchers(identity(workspace)), lambda support: compile_plan(mode, support, wanted, view, limits))


def ending(outcome: Outcome) -> tuple[str, int | None, int | None]:
    """How it ended, its exit code and its signal."""
    return outcome.ended_by.value, outcome.exit_code, outcome.signal


def proved(outcome: Outcome) -> bool:
    """Whether the whole tree was proved gone: nothing says that it was not in time."""
    return not any("not proved" in each.reason for each in outcome.applied)
