"""Waiting for a fact that another thread or process brings about."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(fact: Callable[[], object], seconds: float = 30) -> bool:
    """Look again and again; whether it came to be."""
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)
    return True
