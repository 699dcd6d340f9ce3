"""Kernels that lack something, and a /proc that hides something: what a process can be put into, for good."""

from __future__ import annotations

import errno
import platform
from collections.abc import Callable

from fable_exec._launcher import confine_steps, kernel
from fable_exec.confine.programs import assemble
from fable_exec.confine.seccomp import Condition, Rule, deny

YEAR_SECONDS = 365 * 24 * 3600


def lose_descriptors() -> None:
    """As before Linux 5.3, or in a sandbox: no process can be opened."""
    _filter(Rule(("pidfd_open",), deny(errno.ENOSYS)))


def lose_group_signals() -> None:
    """As before Linux 6.9: the flag PIDFD_SIGNAL_PROCESS_GROUP is unknown."""
    _filter(Rule(("pidfd_send_signal",), deny(errno.EINVAL), (Condition(argument=3, values=(4,)),)))


def hide_system() -> None:
    """A /proc of processes only, which does not show the name of the boot."""
    kernel.mount("proc", "/proc", "proc", 0, "subset=pid")


def hide_strangers() -> None:
    """A /proc that shows to each user its own processes only."""
    kernel.mount("proc", "/proc", "proc", 0, "hidepid=invisible")


def lose_proc() -> None:
    """No /proc at all."""
    kernel.mount("tmpfs", "/proc", "tmpfs", 0)


def _filter(rule: Rule) -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    confine_steps.load_filter(assemble([rule], platform.machine()).to_wire())


PLACES: dict[str, tuple[Callable[[], None], ...]] = {
    "ordinary": (),
    "no descriptors": (lose_descriptors,),
    "no group signals": (lose_group_signals,),
    "processes only": (hide_system,),
    "no proc": (lose_proc,),
    "processes only, no descriptors": (hide_system, lose_descriptors),
    "no proc, no descriptors": (lose_proc, lose_descriptors),
}


def enter(place: str) -> None:
    for lose in PLACES[place]:
        lose()
