"""One JSON document in a directory, and a terminal record beside it: locked, replaced whole, quarantined, never half there.

`StateFile.read` needs no lock; `locked` is for changing; `terminal_record` makes sure at the start that a full disk cannot lose
the end; `conclude` writes that end once. What the members mean is not known here.
"""

from __future__ import annotations

from fable_exec.statefile.documents import MAX_DOCUMENT_BYTES, Form, Unreadable
from fable_exec.statefile.records import MAX_OUTCOME_BYTES, RECORD_BYTES, Condition
from fable_exec.statefile.state import LOCK_NAME, LOCK_SECONDS, RECORD_NAME, STATE_NAME, HeldState, Reading, Source, StateFile
from fable_exec.statefile.terminal import TerminalRecord

__all__ = [
    "LOCK_NAME",
    "LOCK_SECONDS",
    "MAX_DOCUMENT_BYTES",
    "MAX_OUTCOME_BYTES",
    "RECORD_BYTES",
    "RECORD_NAME",
    "STATE_NAME",
    "Condition",
    "Form",
    "HeldState",
    "Reading",
    "Source",
    "StateFile",
    "TerminalRecord",
    "Unreadable",
]
