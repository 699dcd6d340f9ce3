"""An append-only, hash-chained log of what was decided and what came of it, and its verification.

The chain shows that a log was changed after it was written. It is not signed: who may write the file can write a whole new one.
Keep a head (`AuditLog.head`) elsewhere to see that.
"""

from __future__ import annotations

from fable_exec.audit.lines import MAX_LINE_BYTES, AuditHead
from fable_exec.audit.log import AuditLog
from fable_exec.audit.verify import AuditReport, verify_log

__all__ = ["MAX_LINE_BYTES", "AuditHead", "AuditLog", "AuditReport", "verify_log"]
