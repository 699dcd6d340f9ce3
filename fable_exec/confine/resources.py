"""From limits to what a launcher does for them, and what that is worth on this host. Pure.

Three means: hard limits of each process that the kernel inherits (setrlimit(2)), a pid_max of the slot's own, and a watchdog in
the launcher that looks at the whole tree some times a second. See docs/reference/limits.md.
"""

from __future__ import annotations

from typing import Literal

from fable_exec.confine.plan import LauncherMode, ResourceLimit, Step, WatchedLimit
from fable_exec.confine.support import Support, explain_errno
from fable_exec.policy.values import Limits

__all__ = ["command_limits", "launcher_steps", "pid_max", "state_of", "watched_limits"]

_DATA_HEADROOM_BYTES = 512 * 1024 * 1024
"""Address space that programs map for writing and never touch: stacks of threads, heaps of node."""
_LAUNCHER_FILES = 1024
"""With that many descriptors a launcher can hold a hundred commands."""
_FEWEST_MORE_PIDS = 256
_RESERVED_PIDS = 300
"""Once a PID namespace has counted that far it never gives a number below again (kernel/pid.c)."""


def launcher_steps(limits: Limits) -> tuple[Step, ...]:
    """Limits that the launcher can live under itself: commands inherit them, which costs nothing."""
    wanted: list[ResourceLimit] = []
    if limits.file_size_bytes is not None:
        wanted.append(("file_size", limits.file_size_bytes, limits.file_size_bytes))
    if limits.memory_bytes is not None:
        most = limits.memory_bytes + max(limits.memory_bytes, _DATA_HEADROOM_BYTES)
        wanted.append(("data", most, most))
    if limits.open_files is not None and limits.open_files >= _LAUNCHER_FILES:
        wanted.append(("open_files", limits.open_files, limits.open_files))
    return (("resource_limits", tuple(wanted)),) if wanted else ()


def command_limits(limits: Limits) -> tuple[ResourceLimit, ...]:
    """Limits that would cut the launcher's own work: each command gets them between fork and exec."""
    wanted: list[ResourceLimit] = []
    if limits.cpu_seconds is not None:
        # At the soft limit SIGXCPU says what it was; a command that goes on gets SIGKILL a second later (getrlimit(2)).
        wanted.append(("cpu", limits.cpu_seconds, limits.cpu_seconds + 1))
    if limits.open_files is not None and limits.open_files < _LAUNCHER_FILES:
        wanted.append(("open_files", limits.open_files, limits.open_files))
    return tuple(wanted)


def watched_limits(mode: LauncherMode, support: Support, limits: Limits) -> tuple[WatchedLimit, ...]:
    """Limits of the whole tree that the launcher's watchdog looks after."""
    if not _can_watch(mode, support):
        return ()
    stated = (("memory", limits.memory_bytes), ("processes", limits.processes), ("cpu", limits.cpu_seconds))
    return tuple((name, most) for name, most in stated if most is not None)


def pid_max(mode: LauncherMode, support: Support, limits: Limits) -> int:
    """pid_max of each slot, 0 to leave it alone: room at any time for `limits.processes` and as many again.

    The second half: a storm is seen over the limit before fork(2) fails, and numbers of the dead may still be taken.
    """
    if limits.processes is None or mode not in ("slots", "kept") or support.own_pid_max:
        return 0
    return _RESERVED_PIDS + 1 + limits.processes + max(limits.processes, _FEWEST_MORE_PIDS)


def state_of(mode: LauncherMode, support: Support, limits: Limits) -> tuple[Literal["active", "degraded"], str, str]:
    """State, means and reason of the protection "resources"."""
    of_each = any(each is not None for each in (limits.file_size_bytes, limits.open_files))
    of_tree = [name for name in ("memory_bytes", "processes", "cpu_seconds") if getattr(limits, name) is not None]
    if not of_tree:
        return ("active", "hard limits of each process", "") if of_each else ("active", "the policy, which sets no limits", "")
    means = ["hard limits of each process"] if of_each or of_tree != ["processes"] else []
    means += ["pid_max of the slot"] if pid_max(mode, support, limits) else []
    means += ["sampling of the whole tree"] if _can_watch(mode, support) else []
    return "degraded", ", ".join(means), _weaker(mode, support, limits, of_tree)


def _weaker(mode: LauncherMode, support: Support, limits: Limits, of_tree: list[str]) -> str:
    """What holds less than the policy says, and why."""
    held = "sampled, not held" if _can_watch(mode, support) else "not seen without a /proc of its own"
    reasons = [f"the whole tree's {' and '.join(of_tree)} {held}: {support.control_group or 'control groups are not used'}"]
    if limits.processes is not None and not pid_max(mode, support, limits):
        reasons.append(f"no pid_max for each command ({_no_pid_max(mode, support)})")
    return "; ".join(reasons)


def _no_pid_max(mode: LauncherMode, support: Support) -> str:
    return f"launch mode {mode}" if mode not in ("slots", "kept") else explain_errno(support.own_pid_max)


def _can_watch(mode: LauncherMode, support: Support) -> bool:
    """In a namespace of its own with the outer /proc the numbers there are other processes'."""
    return mode in ("slots", "plain") or support.own_proc == 0
