"""The broker behind a pipe: JSON lines on standard input and output, the admin on channels of his own.

`python -m fable_exec.server` is the program; `serve` is the same inside another program. It needs no extra.
"""

from __future__ import annotations

from fable_exec.server.options import AdminOptions
from fable_exec.server.program import main, serve

__all__ = ["AdminOptions", "main", "serve"]
