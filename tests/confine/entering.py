"""Run a command under plan steps, in a process of its own that does what the launcher does."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fable_exec._launcher import kernel_confine
from fable_exec.confine.landlock import LandlockRules, compile_rules, downgrade
from fable_exec.confine.programs import assemble
from fable_exec.confine.seccomp import ARCHITECTURES, Rule

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
MACHINE = platform.machine()
NUMBERS = ARCHITECTURES[MACHINE].numbers if MACHINE in ARCHITECTURES else {}
NO_NEW_PRIVILEGES: list[Any] = ["no_new_privileges"]

Step = Sequence[Any]


def filter_step(rules: Iterable[Rule]) -> list[Any]:
    """The plan's step that loads these rules."""
    return ["load_filter", assemble(rules, MACHINE).to_wire()]


def files_step(rules: LandlockRules) -> list[Any]:
    """The plan's step for these rules on this kernel."""
    ruleset = downgrade(compile_rules(rules), kernel_confine.landlock_abi())
    return ["restrict_files", ruleset.to_wire()]


def enter(
    steps: Sequence[Step],
    argv: Sequence[str],
    *,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """The command under `steps`, in a session of its own as the launcher gives it."""
    entry = [sys.executable, "-I", str(PROGRAMS / "enter.py"), str(PROJECT), json.dumps(steps), *argv]
    return subprocess.run(
        entry, input=stdin, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, start_new_session=True
    )


def filtered(rules: Iterable[Rule], argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """The command under a seccomp filter alone."""
    return enter([NO_NEW_PRIVILEGES, filter_step(rules)], argv, **options)


def system_calls(steps: Sequence[Step], calls: Sequence[Sequence[int | str]]) -> list[tuple[int, int]]:
    """(result, errno) of each call, made under `steps` by one child; its parent, where "parent" is named, is an enter process
    that stays alive for it."""
    numbered = [[NUMBERS[call[0]] if isinstance(call[0], str) else call[0], *call[1:]] for call in calls]
    spawning = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-I', *sys.argv[1:]]))"
    argv = [sys.executable, "-I", "-c", spawning, str(PROGRAMS / "calls.py")]
    done = enter(steps, argv, stdin=json.dumps(numbered))
    assert done.returncode == 0, done.stderr
    return [(result, number) for result, number in json.loads(done.stdout)]
