"""Which directory the commands of a runner run beneath, and as whom."""

from __future__ import annotations

import errno
import os
from pathlib import PurePath

import attrs

from fable_exec.errors import ConfinementUnavailable

__all__ = ["WorkspaceIdentity"]


@attrs.frozen(kw_only=True)
class WorkspaceIdentity:
    """The directory that all commands run beneath, as the host pinned it, and who owns it."""

    path: str
    device: int
    inode: int
    user: int
    group: int

    @classmethod
    def of(cls, path: str, descriptor: int) -> WorkspaceIdentity:
        """The identity of the directory behind `descriptor`, which stays the caller's."""
        found = os.fstat(descriptor)
        return cls(path=path, device=found.st_dev, inode=found.st_ino, user=found.st_uid, group=found.st_gid)

    @classmethod
    def at(cls, path: str) -> WorkspaceIdentity:
        """That of the directory at `path`. Raises OSError where there is none that may be read."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return cls.of(path, descriptor)
        finally:
            os.close(descriptor)

    def to_wire(self) -> dict[str, object]:
        """As the launcher takes it."""
        return {"path": self.path, "device": self.device, "inode": self.inode}

    def command_owner(self) -> tuple[int, int]:
        """The ids that commands get: our own; started as root, those of the workspace's owner."""
        if os.geteuid() == 0:
            return self.user, self.group
        return os.geteuid(), os.getegid()

    def told_with_who_is_kept_out(self, error: ConfinementUnavailable) -> ConfinementUnavailable:
        """The same, and what to do where root could open the workspace and its owner, as whom commands run, cannot."""
        user, _ = self.command_owner()
        closed = self._first_closed_to_commands() if error.errno == errno.EACCES and user != os.geteuid() else ""
        if not closed:
            return error
        return error.reworded(
            f"{error}; commands run as the workspace's owner (user {user}), who may not enter {closed!a}: let that user in "
            "(chmod o+x), or have the workspace owned by the user of this process"
        )

    def _first_closed_to_commands(self) -> str:
        user, group = self.command_owner()
        for directory in reversed(PurePath(self.path).parents):
            try:
                status = os.stat(directory)
            except OSError:  # moved since it was opened
                return ""
            shift = 6 if status.st_uid == user else 3 if status.st_gid == group else 0
            if not status.st_mode >> shift & 1:
                return str(directory)
        return ""
