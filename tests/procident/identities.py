"""Identities for property tests: any that can be written, and such as a world of processes and onlookers gives."""

from __future__ import annotations

import uuid
from typing import Any

import attrs
from hypothesis import strategies as st

from fable_exec.procident import BirthToken, ProcessIdentity, TokenKind

BOOT_IDS = st.one_of(st.just(""), st.uuids().map(str))
_TICKS = st.integers(min_value=0, max_value=10**20 - 1).map(str)
_LSTART = st.from_regex(r"[!-~]([ -~]{0,62}[!-~])?", fullmatch=True)


def tokens(boot_ids: st.SearchStrategy[str], ticks: st.SearchStrategy[str] = _TICKS) -> st.SearchStrategy[BirthToken]:
    """Tokens of every kind."""
    microseconds = st.integers(min_value=0, max_value=999_999)
    return st.one_of(
        st.builds(BirthToken, st.just(TokenKind.PROC), ticks, boot_ids),
        st.builds(lambda seconds, rest: BirthToken(TokenKind.DARWIN, f"{seconds}:{rest}"), ticks, microseconds),
        st.builds(lambda text: BirthToken(TokenKind.PS, text), _LSTART),
    )


@st.composite
def identities(draw: st.DrawFn) -> ProcessIdentity:
    """Any; of few values, so that two of them often agree in a member."""
    boot_id = draw(st.sampled_from(["", *_BOOTS]))
    few = st.integers(min_value=1, max_value=3)
    token = draw(st.one_of(st.none(), tokens(st.just(boot_id), few.map(str))))
    of_ticks = token is not None and token.kind is TokenKind.PROC
    return ProcessIdentity(
        pid=draw(few),
        birth=token,
        unique_id=draw(st.one_of(st.none(), few)),
        pid_namespace=draw(st.one_of(st.none(), few)),
        boot_id=boot_id if of_ticks or token is None else draw(st.sampled_from(["", *_BOOTS])),
        time_namespace=draw(st.one_of(st.none(), few)),
    )


_BOOTS = [str(uuid.UUID(int=number)) for number in (1, 2)]


@attrs.frozen
class Process:
    """A real one: its boot, and its number in the order of all births of that boot. Two have never both."""

    boot: int
    serial: int
    tick: int


@attrs.frozen
class Onlooker:
    """Where somebody stands, and what can be seen from there."""

    pid_namespace: int
    time_namespace: int
    names_boot: str
    """"real", "own" (a container shows one of its own, another at each boot) or "hidden"."""
    has_proc: bool
    has_descriptors: bool

    def look(self, process: Process, pid: int, offsets: dict[tuple[int, int], int]) -> ProcessIdentity:
        """What is written down here of `process`, which has the number `pid` here."""
        own = 1000 + self.pid_namespace
        boot_id = {"real": process.boot, "own": own + 10 * process.boot, "hidden": None}[self.names_boot]
        name = "" if boot_id is None or not self.has_proc else str(uuid.UUID(int=boot_id))
        ticks = process.tick + offsets[process.boot, self.time_namespace]
        return ProcessIdentity(
            pid=pid,
            birth=BirthToken(TokenKind.PROC, str(ticks), name) if self.has_proc else None,
            unique_id=process.serial if self.has_descriptors else None,
            pid_namespace=self.pid_namespace if self.has_proc else None,
            boot_id=name,
            time_namespace=self.time_namespace if self.has_proc else None,
        )


_ONLOOKERS = st.builds(
    Onlooker,
    pid_namespace=st.integers(0, 1),
    time_namespace=st.integers(0, 1),
    names_boot=st.sampled_from(["real", "own", "hidden"]),
    has_proc=st.booleans(),
    has_descriptors=st.booleans(),
)


@st.composite
def two_looks(draw: st.DrawFn) -> dict[str, Any]:
    """Two looks, at one process or at two. All is drawn from few values, so that ticks, serials and numbers coincide often.

    Namespaces have the same numbers at the next boot, as the kernel's do; what a time namespace adds to the ticks is another.
    """
    few = st.integers(0, 2)
    first = draw(st.builds(Process, few, few, few))
    differs_in = draw(st.sampled_from([(), ("serial",), ("boot",), ("serial", "tick"), ("boot", "tick"), ("boot", "serial")]))
    second = attrs.evolve(first, **{name: (getattr(first, name) + 1) % 3 for name in differs_in})
    one = draw(_ONLOOKERS)
    two = draw(st.one_of(st.just(one), _ONLOOKERS))
    offsets = {(boot, space): draw(few) if space else 0 for boot in range(3) for space in range(2)}
    pids = (1, draw(st.sampled_from([1, 1, 2])))
    if first == second and one.pid_namespace == two.pid_namespace:
        pids = (1, 1)
    return {
        "processes": (first, second),
        "onlookers": (one, two),
        "identities": (one.look(first, pids[0], offsets), two.look(second, pids[1], offsets)),
    }
