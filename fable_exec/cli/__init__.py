"""The command line behind `fable-exec`: a thin door for people and shells. Needs the extra `cli`.

Data (JSON, TOML, a command's output) goes to standard output, everything for people to standard error. It decides nothing: the
broker does.
"""

from __future__ import annotations

from fable_exec.cli.program import main

__all__ = ["main"]
