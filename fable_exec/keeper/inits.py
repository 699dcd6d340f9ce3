"""The init of one job, forked into its namespaces and its control group. What it does there: _launcher/job_init.py."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fable_exec._launcher import kernel, steps, wire
from fable_exec._launcher.job_init import Ends, be_init
from fable_exec._launcher.linuxos import pidfd_open
from fable_exec._launcher.spawn import Streams
from fable_exec.keeper.job import Job, NotMade, unmake
from fable_exec.keeper.leaf import Leaf, make_leaf

__all__ = ["Init"]


class Init:
    """An init in its namespaces and its control group that waits for word: `begin` it or `dismiss` it, once.

    It is forked before much else is done: what a process has touched until it forks, both have to copy. The signals that a keeper
    handles are to be blocked then.

    Args:
        plan, request: as `be_init` takes them. name: of its control group, where it can have one.

    Attributes:
        job: what it is the init of, which has no leader yet.

    Raises:
        NotMade: nothing is left of it.
    """

    def __init__(self, plan: Mapping[str, Any], request: Mapping[str, Any], name: str) -> None:
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        channel, theirs = wire.socket_pair()
        gate, our_gate = os.pipe()
        our_answer, answer = os.pipe()
        our_output, output = os.pipe()
        ends = Ends(theirs, gate, answer, Streams(null, output, output))
        try:
            init, leaf = steps.run("namespaces", lambda: _fork(plan, make_leaf(name)))
        except steps.StepFailed as failure:
            for descriptor in (our_gate, our_answer, our_output, gate, answer, output, null):
                os.close(descriptor)
            channel.close()
            theirs.close()
            raise NotMade(failure.step, failure.number, "") from None
        if init == 0:
            be_init(plan, request, ends)
        theirs.close()
        for descriptor in (gate, answer, output, null):
            os.close(descriptor)
        self.job = Job(init, pidfd_open(init), bool(plan["namespaces"]), leaf, channel, our_gate, our_answer, our_output)

    def begin(self, pins: Sequence[str] = (), *, pins_required: bool = False) -> Job:
        """Have it make the leader, and wait until that is at its gate.

        Args:
            pins: paths of the workspace that are kept from being changed; pins_required: not without all of them.

        Raises:
            NotMade: nothing is left of it.
        """
        try:
            self.job.begin({"pins": list(pins), "pins_required": pins_required})
        except NotMade:
            self.dismiss()
            raise
        return self.job

    def dismiss(self) -> None:
        """End it, with everything of it."""
        unmake(self.job)
        os.close(self.job.output)


def _fork(plan: Mapping[str, Any], leaf: Leaf | None) -> tuple[int, Leaf | None]:
    """Fork the init into its namespaces and the group, as the plan's user: 0 in it, its number in us.

    With the number comes the group, where the init is in it. Raises OSError.
    """
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    if leaf is not None:
        try:
            return _clone(plan, leaf.clone), leaf
        except OSError:
            leaf.end(0)
    return _clone(plan, kernel.clone), None


def _clone(plan: Mapping[str, Any], clone: Callable[[int], int]) -> int:
    flags, user, group = steps.namespace_flags(plan["namespaces"]), plan["user"], plan["group"]
    if (os.geteuid(), os.getegid()) != (user, group):
        return _clone_as(flags, user, group, clone)
    return clone(flags)


def _clone_as(flags: int, user: int, group: int, clone: Callable[[int], int]) -> int:
    """The same through a child that becomes that user first: namespaces belong to whoever makes them (user_namespaces(7))."""
    reading, writing = os.pipe()
    try:
        between = clone(0)
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if between == 0:
        return _be_between(flags, user, group, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        told = int(answer.read() or b"-%d" % errno.EIO)
    os.waitpid(between, 0)
    if told < 0:
        raise OSError(-told, os.strerror(-told))
    return told


def _be_between(flags: int, user: int, group: int, answer: int) -> int:
    """Returns in the init alone, with 0."""
    number = -errno.EIO
    try:
        steps.become(user, group)
        if flags:
            kernel.unshare(flags)
        number = kernel.clone(kernel.CLONE_PARENT)
    except OSError as error:
        number = -(error.errno or errno.EIO)
    if number == 0:
        return 0
    os.write(answer, b"%d" % number)
    os._exit(0)
