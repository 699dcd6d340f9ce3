"""Whether something is mounted below a directory: what is removed must not be another file system."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["mounted_below"]

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mounted_below(path: Path) -> bool:
    """Whether the mounts of this process have one in the tree `path`. False on systems whose mounts /proc does not tell."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.readlines()
    except OSError:
        return False
    top = os.fsencode(os.path.realpath(path))
    places = (_ESCAPED.sub(lambda digits: bytes([int(digits[1], 8)]), line.split(b" ", 5)[4]) for line in lines)
    return any(place == top or place.startswith(top + b"/") for place in places)
