"""The door to the kernel: the same names on every platform; an ability that is missing here is OSError(ENOSYS).

Callers probe by trying and never ask for the platform. It holds no policy and no state.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from fable_exec._sys.windows import (
        HAS_DIRECTORY_HANDLES,
        open_beneath,
        open_handle,
        open_handle_beneath,
        path_of,
        rename_noreplace,
        reserve_space,
        start_writeback,
        sync_data,
        sync_directory,
        sync_file,
    )
elif sys.platform == "darwin":
    from fable_exec._sys.darwin import (
        HAS_DIRECTORY_HANDLES,
        open_beneath,
        open_handle,
        open_handle_beneath,
        path_of,
        rename_noreplace,
        reserve_space,
        start_writeback,
        sync_data,
        sync_directory,
        sync_file,
    )
else:
    from fable_exec._sys.linux import (
        HAS_DIRECTORY_HANDLES,
        open_beneath,
        open_handle,
        open_handle_beneath,
        path_of,
        rename_noreplace,
        reserve_space,
        start_writeback,
        sync_data,
        sync_directory,
        sync_file,
    )

__all__ = [
    "HAS_DIRECTORY_HANDLES",
    "open_beneath",
    "open_handle",
    "open_handle_beneath",
    "path_of",
    "rename_noreplace",
    "reserve_space",
    "start_writeback",
    "sync_data",
    "sync_directory",
    "sync_file",
]
