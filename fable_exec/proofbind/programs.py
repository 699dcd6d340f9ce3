"""Where programs are looked for that a verdict needs."""

from __future__ import annotations

__all__ = ["SYSTEM_PATH"]

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
"""Not the PATH of the caller, which may lead into a workspace, as that of an activated virtual environment does."""
