"""What of the host's files exists for commands: the steps that build a launcher's root, and the same lists for Landlock.

Pure. The lists are the default of docs/reference/policy.md; credentials are left out by not being listed, and covered where they
lie inside a listed directory.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from fable_exec.confine.plan import Step
from fable_exec.policy.confinement import SECRET_FILES

__all__ = ["COMMAND_HOME", "SYSTEM_DIRECTORIES", "FileView"]

SYSTEM_DIRECTORIES = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"),
    *("/gnu/store", "/nix/store", "/nix/var/nix/profiles", "/run/current-system", "/var/guix/profiles"),
    *("/var/lib/aspell", "/var/lib/gems", "/var/lib/ghc", "/var/lib/texmf"),
    *("/var/lib/apt", "/var/lib/dpkg", "/var/lib/pacman", "/var/lib/rpm"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
"""Readable and executable for every command, where the host has them: the system, and the store where it lies in one; what Debian
keeps of its programs elsewhere; which packages are installed; which processors there are."""

COMMAND_HOME = "/home/command"
_HOSTS_TEMPORARY = ("/tmp", "/var/tmp")
_PRIVATE_DIRECTORIES = (*_HOSTS_TEMPORARY, COMMAND_HOME)
_SHARED_MEMORY_BYTES = 256 * 1024 * 1024


@attrs.frozen(kw_only=True)
class FileView:
    """The files of one launcher.

    Args:
        workspace: its absolute path; commands see it there.
        writable: whether commands may change it.
        runtime_paths: absolute paths that are readable and executable besides the system directories.
        writable_paths: absolute paths of directories besides the workspace that may be written whatever `writable` says, without
            what is mounted below them.
        hidden: absolute paths in the system directories that are empty for commands besides SECRET_FILES, save what the other
            paths are, lie in or hold. (What else is in a directory that one of them lies in is to be named by itself.)
    """

    workspace: str
    writable: bool
    runtime_paths: tuple[str, ...] = ()
    writable_paths: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """All that is empty for commands, each once; nothing of what the workspace and what may be written hold."""
        theirs = (*self.writable_paths, self.workspace)
        opened = (*self.runtime_paths, *theirs)
        always = (path for path in SECRET_FILES if not _is_below(path, theirs))
        more = (path for path in self.hidden if not _is_below(path, (*SECRET_FILES, *opened)))
        return (*always, *(path for path in more if not any(_is_below(each, (path,)) for each in opened)))

    def stage_steps(self, own_proc: Step | None) -> tuple[Step, ...]:
        """The steps that build the root of a launcher with its own mount namespace; `own_proc` mounts a /proc, where it can."""
        return (
            ("begin_root", "{private}/root"),
            *_read_only(SYSTEM_DIRECTORIES),
            *(("cover", path) for path in self.secrets),
            ("devices",),
            ("memory", "/dev/shm", _SHARED_MEMORY_BYTES, 0o1777),
            ("bind", "{private}/tmp", "/tmp", "writable", "required"),
            ("bind", "{private}/tmp", "/var/tmp", "writable", "required"),
            ("bind", "{private}/home", COMMAND_HOME, "writable", "required"),
            *(("anchor", path) for path in self._anchors()),
            *_read_only(self._runtimes_outside_workspace()),
            # The private directory is one of them, and the new root is mounted in it: a copy could be written in.
            *(("bind", path, path, "writable", "required", "none") for path in self.writable_paths),
            ("bind", self.workspace, self.workspace, "writable" if self.writable else "read-only", "required"),
            own_proc or ("bind", "/proc", "/proc", "read-only", "required"),
        )

    def stand_ins(self) -> tuple[str, ...]:
        """Directories of the launcher's own where the host has others of that name, with more or other things in them."""
        return (*_HOSTS_TEMPORARY, *self._anchors())

    def _anchors(self) -> tuple[str, ...]:
        return _parents_in_writable((self.workspace, *self.writable_paths, *self._runtimes_outside_workspace()))

    def _runtimes_outside_workspace(self) -> tuple[str, ...]:
        """Longest last, so that no mount is hidden by a later one above it; what the system directories hold is there already."""
        wanted = {path for path in self.runtime_paths if not _is_below(path, (*SYSTEM_DIRECTORIES, self.workspace))}
        return tuple(sorted(wanted, key=len))


def _read_only(paths: Iterable[str]) -> tuple[Step, ...]:
    """What of the host is there where the host has it."""
    return tuple(("bind", path, path, "read-only", "optional") for path in paths)


def _parents_in_writable(paths: Iterable[str]) -> tuple[str, ...]:
    """Directories above `paths` that commands could rename, shortest first."""
    found = {
        path[:end]
        for path in paths
        for end in range(len(path))
        if path[end] == "/" and any(path[:end].startswith(root + "/") for root in _PRIVATE_DIRECTORIES)
    }
    return tuple(sorted(found, key=len))


def _is_below(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)
