"""Fakes of sandbox-exec for Linux: each writes down what it was given, beside itself, and then does what its kind does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PROGRAM = """\
#!/usr/bin/python3
import json, os, stat, sys
arguments, here = sys.argv[1:], os.path.dirname(os.path.abspath(__file__))
profile = arguments[1]
held = os.stat(profile)
with open(os.path.join(here, "given.json"), "w") as file:
    json.dump({{
        "arguments": arguments,
        "mode": stat.S_IMODE(held.st_mode),
        "directory_mode": stat.S_IMODE(os.stat(os.path.dirname(profile)).st_mode),
        "profile": open(profile).read(),
        "cwd": os.getcwd(),
        "environment": sorted(os.environ),
        "session": os.getsid(0) == os.getpid(),
    }}, file)
{then}
"""
OBEDIENT = "os.execv(arguments[3], arguments[3:])"
"""Runs the program, and confines it in no way."""


def exits(status: int) -> str:
    return f"sys.exit({status})"


def fake(place: Path, then: str) -> Path:
    """A sandbox-exec in `place`."""
    place.mkdir(exist_ok=True)
    program = place / "sandbox-exec"
    program.write_text(_PROGRAM.format(then=then))
    program.chmod(0o755)
    return program


def given(program: Path) -> dict[str, Any]:
    """What it was given."""
    found: dict[str, Any] = json.loads((program.parent / "given.json").read_text())
    return found
