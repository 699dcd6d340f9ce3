"""Who a process is, and whether it may be signalled: identities that outlive a restart, compared in three values, and handles.

A number is not a process. An identity says so much of one that a stranger with its number is told apart; a handle keeps hold of
the process itself. It starts and ends nothing, and knows no executions.
"""

from __future__ import annotations

from fable_exec.procident.handle import GROUP_SIGNAL_REFUSED, ProcessHandle
from fable_exec.procident.identity import Comparison, ProcessIdentity, compare
from fable_exec.procident.looking import identify
from fable_exec.procident.tokens import BirthToken, TokenKind

__all__ = [
    "GROUP_SIGNAL_REFUSED",
    "BirthToken",
    "Comparison",
    "ProcessHandle",
    "ProcessIdentity",
    "TokenKind",
    "compare",
    "identify",
]
