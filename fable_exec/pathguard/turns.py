"""Threads of this process take turns where one looks at a file and changes it by that look. Other processes hear nothing of it.

Whoever writes a file of whatever content takes a turn too: a look that was right must not be made wrong before the change.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager

__all__ = ["one_change"]

_turn = threading.Lock()


def one_change() -> AbstractContextManager[object]:
    """The turn, for as long as it takes to look and to change one name or one file; never while anything is awaited."""
    return _turn


def _begin_anew() -> None:
    """A child of fork(2) has no thread that could end a turn."""
    global _turn
    _turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
