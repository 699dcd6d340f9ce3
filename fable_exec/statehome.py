"""Where programs of this user keep what they want to find again: by the environment of this process. Nothing is made here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["state_homes"]


def state_homes() -> list[Path]:
    """The platform's directory for state, and behind one that was named the one that it stands for; absolute, perhaps not there.

    None where the environment names none and this user's home is not there: nobody else's business is to make one.
    XDG Base Directory Specification 0.8, XDG_STATE_HOME: one that is not absolute is to be ignored.
    """
    named = os.environ.get({"darwin": "", "win32": "LOCALAPPDATA"}.get(sys.platform, "XDG_STATE_HOME"), "")
    home = os.path.expanduser("~")
    standard = {"darwin": "Library/Application Support", "win32": "AppData/Local"}.get(sys.platform, ".local/state")
    places = (named, os.path.join(home, standard) if os.path.isdir(home) else "")
    return [Path(place) for place in places if os.path.isabs(place)]
