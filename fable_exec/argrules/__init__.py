"""Argument rules as data: which options, values, operands and sub-commands of a tool may run, judged by text alone.

It starts nothing, opens no file of the workspace and knows no policy. The rules are advice with teeth, not a wall: only the
kernel's confinement holds a program that runs.
"""

from __future__ import annotations

from fable_exec.argrules.rules import ArgumentRules
from fable_exec.argrules.verdict import Verdict

__all__ = ["ArgumentRules", "Verdict"]
