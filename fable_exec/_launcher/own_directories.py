"""The directories that a launcher makes for its commands: none of them closes one to those that follow.

All commands of a launcher share them, as one user, who may take the rights to them from himself (chmod(2)): to the home, to /tmp,
and with /tmp to a workspace that lies below. What commands put into them is their own affair.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from .typed import Any

_ALL_OF_THE_OWNER = stat.S_IRWXU


class OwnDirectories:
    """Those of one plan, as its commands name them."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        made = (step[1] for step in plan["stage"] if step[0] in ("anchor", "memory"))
        self._paths = (plan["environment"]["HOME"], plan["environment"]["TMPDIR"], *made)  # what lies in another comes after it

    def open_again(self) -> None:
        """Give its owner all rights to each. What the kernel refuses stays as it is."""
        for path in self._paths:
            try:
                mode = os.lstat(path).st_mode
                if stat.S_ISDIR(mode) and mode & _ALL_OF_THE_OWNER != _ALL_OF_THE_OWNER:
                    os.chmod(path, stat.S_IMODE(mode) | _ALL_OF_THE_OWNER)
            except OSError:
                continue
