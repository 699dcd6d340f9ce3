"""Waiting for a fact that another thread or process brings about, and that no descriptor tells."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LONG_SECONDS = 30.0
"""For what must come at all; how soon is measured where it matters."""
_PAUSE_SECONDS = 0.002


def until(look: Callable[[], Any], seconds: float = LONG_SECONDS) -> Any:
    """Look again and again, and return what was found. Fails the test when it is nothing for so long."""
    give_up_at = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < give_up_at, f"it did not come within {seconds} s"
        time.sleep(_PAUSE_SECONDS)
    return found
