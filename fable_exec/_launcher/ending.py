"""Kill what this process is the parent of, directly or as a subreaper. Proving that nothing is left is the caller's affair."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack

from .linuxos import has_children, pidfd_open, pidfd_send_signal
from .proctree import children, read_stat

SETTLE_SECONDS = 0.2
"""Who is gone so long after the first process was not left behind: a shell does not wait for all it has started."""
_STOPPED_OR_DEAD = frozenset("TtZX")
_FREEZE_SECONDS = 0.1
_STUBBORN_PAUSE_SECONDS = 0.002
_LONGER_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0005, 0.01


def end_children(reap: Callable[[], object], seconds: float, spared: frozenset[int] = frozenset()) -> bool:
    """Kill every child, and whatever comes to us as its subreaper, until wait(2) answers "no child"; whether it did in that time.

    Args:
        reap: collects every zombie; called again and again.
        spared: children that are none of those. Where there are any, the list of our children answers instead of wait(2).
    """
    give_up_at = time.monotonic() + seconds
    pause = 0.0
    while _are_left(spared) and time.monotonic() < give_up_at:
        kill_children(spared) if pause < _STUBBORN_PAUSE_SECONDS else freeze_and_kill(spared)
        reap()
        # Killed children need a moment to die; waiting longer each time keeps a stuck one from burning the processor.
        select.select([], [], [], pause)
        pause = min(_LONGEST_PAUSE_SECONDS, pause + _LONGER_SECONDS)
    return not _are_left(spared)


def _are_left(spared: frozenset[int]) -> bool:
    return bool(set(children(os.getpid())) - spared) if spared else has_children()


def signal_everybody(number: int) -> bool:
    """To every other process of our PID namespace at once, as its process 1; whether there was anybody.

    The kernel lets none of them fork meanwhile (kill(2), fork(2)).
    """
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return False
    return True


def kill_children(spared: frozenset[int]) -> None:
    """SIGKILL every child, and every process group that a child belongs to.

    A child is not reaped while this runs, so neither its number nor its group's can belong to a stranger. The group matters for a
    bomb: one kill(2) ends all of it, while killing children one by one makes room for new ones. Only groups made below this
    process can be met: a command starts in a session of its own (setsid(2), setpgid(2)).
    """
    _signal_children(signal.SIGKILL, spared)


def stop_children() -> None:
    """SIGSTOP the same: what cannot run cannot fork, and leaves the processor to whoever looks at it."""
    _signal_children(signal.SIGSTOP, frozenset())


def _signal_children(number: signal.Signals, spared: frozenset[int]) -> None:
    own_group = os.getpgrp()
    for pid in children(os.getpid()):
        if pid in spared:
            continue
        _kill(pid, number)
        found = read_stat(pid)
        if found is not None and found.group > 1 and found.group != own_group:
            _kill(-found.group, number)


def terminate_tree() -> None:
    """SIGTERM to the whole tree, and SIGCONT, so that whoever was stopped hears it."""
    for number in (signal.SIGTERM, signal.SIGCONT):
        _signal_tree(number, frozenset())


def freeze_and_kill(spared: frozenset[int]) -> None:
    """Stop the whole tree, so that nobody in it can fork, and then kill all of it: for a bomb that outruns `kill_children`."""
    give_up_at = time.monotonic() + _FREEZE_SECONDS
    while _signal_tree(signal.SIGSTOP, spared) and time.monotonic() < give_up_at:
        continue
    _signal_tree(signal.SIGKILL, spared)


def _signal_tree(number: signal.Signals, spared: frozenset[int]) -> bool:
    """Send `number` to every descendant; returns whether one of them was still running.

    A grandchild may be reaped by its own parent and its number be reused at any time. So each one is opened first, and signalled
    through that descriptor only if it is then the child of a parent that is still alive, and known to be ours in the same way.
    """
    running = False
    with ExitStack() as opened:
        waiting = [(os.getpid(), -1)]
        while waiting:
            parent, handle = waiting.pop()
            for pid in children(parent):
                if parent == os.getpid() and pid in spared:
                    continue
                child, state = _open_child(pid, parent, handle)
                if child < 0:
                    continue
                opened.callback(os.close, child)
                waiting.append((pid, child))
                if number != signal.SIGSTOP or state not in _STOPPED_OR_DEAD:
                    running |= _send(pid, child, number)
    return running


def _open_child(pid: int, parent: int, parent_handle: int) -> tuple[int, str]:
    """A descriptor of `pid` and its state, or -1 when it is not the child of `parent` any more."""
    try:
        handle = pidfd_open(pid)
    except OSError:
        return -1, ""
    found = read_stat(pid)
    if found is not None and found.parent == parent and not _has_exited(parent_handle):
        return handle, found.state
    os.close(handle)
    return -1, ""


def _has_exited(handle: int) -> bool:
    if handle < 0:
        return False  # this process itself
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(0))


def _send(pid: int, handle: int, number: signal.Signals) -> bool:
    try:
        pidfd_send_signal(handle, number)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            return False
        # The filter of plain mode is on us too. The number may be a stranger's by now: Landlock's signal scope keeps those safe.
        return _kill(pid, number)
    return True


def _kill(target: int, number: signal.Signals) -> bool:
    try:
        os.kill(target, number)
    except (ProcessLookupError, PermissionError):
        return False  # a zombie's group may have nobody left to signal
    return True
