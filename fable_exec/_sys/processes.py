"""The door to processes: the same names on every platform; an ability that is missing here is OSError(ENOSYS).

A room of its own beside the door to files, which most who use that do not need.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from fable_exec._sys.windows_processes import (
        BIRTH_CLOCK,
        PS_KNOWS_MORE,
        birth_of,
        boot_id,
        family_of,
        has_ended,
        is_child,
        number_behind,
        number_in_view,
        numbers,
        open_process,
        own_number_in_view,
        pid_namespace,
        signal_process,
        signal_process_group,
        time_namespace,
        unique_process_id,
        was_started_with,
    )
elif sys.platform == "darwin":
    from fable_exec._sys.darwin_processes import (
        BIRTH_CLOCK,
        PS_KNOWS_MORE,
        birth_of,
        boot_id,
        family_of,
        has_ended,
        is_child,
        number_behind,
        number_in_view,
        numbers,
        open_process,
        own_number_in_view,
        pid_namespace,
        signal_process,
        signal_process_group,
        time_namespace,
        unique_process_id,
        was_started_with,
    )
else:
    from fable_exec._sys.linux_processes import (
        BIRTH_CLOCK,
        PS_KNOWS_MORE,
        birth_of,
        boot_id,
        family_of,
        has_ended,
        is_child,
        number_behind,
        number_in_view,
        numbers,
        open_process,
        own_number_in_view,
        pid_namespace,
        signal_process,
        signal_process_group,
        time_namespace,
        unique_process_id,
        was_started_with,
    )

__all__ = [
    "BIRTH_CLOCK",
    "PS_KNOWS_MORE",
    "birth_of",
    "boot_id",
    "family_of",
    "has_ended",
    "is_child",
    "number_behind",
    "number_in_view",
    "numbers",
    "open_process",
    "own_number_in_view",
    "pid_namespace",
    "signal_process",
    "signal_process_group",
    "time_namespace",
    "unique_process_id",
    "was_started_with",
]
