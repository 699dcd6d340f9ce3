"""Paths of untrusted requests, and files below a pinned workspace directory.

`WorkspacePath.parse` refuses or accepts text by rules alone; `Workspace` acts on accepted paths below a directory descriptor.
The two layers do not trust each other. Reason words, order of checks and what is not promised: docs/reference/paths.md.
"""

from __future__ import annotations

from fable_exec.pathguard.facts import FACT_REASONS
from fable_exec.pathguard.lexical import PathProfile, WorkspacePath
from fable_exec.pathguard.reasons import LEXICAL_REASONS, RESOLUTION_REASONS
from fable_exec.pathguard.replacing import is_temporary_name
from fable_exec.pathguard.trees import TreeWalk
from fable_exec.pathguard.trust import Trust
from fable_exec.pathguard.values import Appended, Entry, FileContent, FileKind, Listing, TreeEntry, Written
from fable_exec.pathguard.workspace import Workspace

__all__ = [
    "Appended",
    "Entry",
    "FACT_REASONS",
    "FileContent",
    "FileKind",
    "LEXICAL_REASONS",
    "Listing",
    "PathProfile",
    "RESOLUTION_REASONS",
    "TreeEntry",
    "TreeWalk",
    "Trust",
    "Workspace",
    "WorkspacePath",
    "Written",
    "is_temporary_name",
]
