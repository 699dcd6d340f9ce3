"""Ask the launcher program what this host can do. The only room of `confine` that starts a process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from fable_exec.confine.support import Support
from fable_exec.errors import ConfinementUnavailable
from fable_exec.interpreter import interpreter

LAUNCHER_PROGRAM = Path(__file__).parent.parent / "_launcher" / "__main__.py"
_PROBE_SECONDS = 20


def probe_host() -> Support:
    """Try every ability in a short-lived process of its own; takes some 20 ms and changes nothing here.

    Raises:
        ConfinementUnavailable: the probe itself could not run.
    """
    try:
        argv = [interpreter(), "-I", "-S", str(LAUNCHER_PROGRAM), "probe"]
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PROBE_SECONDS, check=True)
        return Support.from_probe(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
        raise ConfinementUnavailable(f"the launcher program cannot run here: {error}", reason=str(error)) from error
