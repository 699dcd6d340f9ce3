"""What a working tree changed since a commit, in numbers, without git ever seeing the workspace.

The index, the objects and the files are read here; git is given copies of what differs, in a directory of ours with a
configuration of ours, because only git's own diff counts lines as git does (docs/adr/0190-git-gets-copies.md).
"""

from __future__ import annotations

from fable_exec.proofbind.changes.stats import DEADLINE_SECONDS, diff_stat
from fable_exec.proofbind.changes.values import CannotTell, ChangeStatus, Deadline, DiffStat, FileChange

__all__ = ["DEADLINE_SECONDS", "CannotTell", "ChangeStatus", "Deadline", "DiffStat", "FileChange", "diff_stat"]
