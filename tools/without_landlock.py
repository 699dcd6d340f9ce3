"""Run a command as on a kernel without Landlock: its system calls are answered with ENOSYS, for it and all that it starts.

python3 tools/without_landlock.py -- .venv/bin/python -m pytest tests/broker
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fable_exec._launcher import kernel
from fable_exec._launcher.confine_steps import CONFINE_STEPS
from fable_exec.confine.programs import assemble
from fable_exec.confine.seccomp import ENOSYS, Rule, deny

CALLS = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")


def main(arguments: list[str]) -> None:
    """Become the command. Nothing can take the filter back."""
    argv = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not argv:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    CONFINE_STEPS["load_filter"](assemble([Rule(CALLS, deny(ENOSYS))], platform.machine()).to_wire())
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
