"""Every state that the write lock can be in, and what leads to it: the broker's own lock is driven with every kind of event."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import attrs

from fable_exec.decision import is_whole
from fable_exec.errors import FableExecError
from fable_exec.policy import BrokerPolicy
from fable_exec.writelock import Unlocked, WriteLock

__all__ = ["LOCK_EVENTS", "SCOPE", "LockEvent", "LockWorld", "explore_lock"]

SCOPE = (("a",),)
"""What an unlock for some paths is for, here."""
_TOKEN, _OTHER_TOKEN = "the administrator's", "somebody's"
_SOME_SECONDS = 60.0


@attrs.frozen
class LockWorld:
    """What is in force, and whether the administrator's token is what brought it about."""

    unlocked: Unlocked | None
    authenticated: bool

    @property
    def is_whole(self) -> bool:
        """Whether it is for no paths in particular, as the gate asks it."""
        return self.unlocked is not None and self.unlocked.scope is None

    @property
    def opens_all(self) -> bool:
        """Whether it is for the whole workspace, in whatever words."""
        return self.unlocked is not None and is_whole(self.unlocked.scope)


class _Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def pass_some_time(self) -> None:
        self.seconds += _SOME_SECONDS


@attrs.frozen
class LockEvent:
    """Something that happens to the lock. `token` is the right one where the policy has one."""

    name: str
    act: Callable[[WriteLock, _Clock], None]
    token: bool = False


LOCK_EVENTS = (
    LockEvent("the right token unlocks", lambda lock, _: lock.unlock(_TOKEN), token=True),
    LockEvent("the right token unlocks for a time", lambda lock, _: lock.unlock(_TOKEN, _SOME_SECONDS), token=True),
    LockEvent("the right token unlocks some paths", lambda lock, _: lock.unlock(_TOKEN, scope=SCOPE), token=True),
    LockEvent("the right token unlocks all paths", lambda lock, _: lock.unlock(_TOKEN, scope=((),)), token=True),
    LockEvent("a wrong token is tried", lambda lock, _: lock.unlock(_OTHER_TOKEN)),
    LockEvent("no token is given", lambda lock, _: lock.unlock("")),
    LockEvent("writes are locked", lambda lock, _: lock.lock()),
    LockEvent("the time of an unlock passes", lambda _, clock: clock.pass_some_time()),
)


def explore_lock(policy: BrokerPolicy) -> Mapping[LockWorld, tuple[tuple[str, LockWorld], ...]]:
    """From every world that can be come to, what leads to which next one; the first is that of the start."""
    has_token = policy.write_token_digest is not None
    digest = hashlib.sha256(_TOKEN.encode()).hexdigest() if has_token else None
    histories: dict[LockWorld, tuple[LockEvent, ...]] = {_world_after((), digest, has_token): ()}
    found: dict[LockWorld, tuple[tuple[str, LockWorld], ...]] = {}
    while missing := [world for world in histories if world not in found]:
        world = missing[0]
        after = [(event, _world_after((*histories[world], event), digest, has_token)) for event in LOCK_EVENTS]
        for event, one in after:
            histories.setdefault(one, (*histories[world], event))
        found[world] = tuple((event.name, one) for event, one in after if one != world)
    return found


def _world_after(history: tuple[LockEvent, ...], digest: str | None, has_token: bool) -> LockWorld:
    """A new lock, driven through `history`."""
    clock = _Clock()
    lock = WriteLock(digest, clock)
    authenticated = False
    for event in history:
        before = lock.unlocked()
        try:
            event.act(lock, clock)
        except FableExecError:
            continue  # refused: the lock is as it was
        now = lock.unlocked()
        if now is None or now != before or event.token:
            authenticated = now is not None and event.token and has_token
    unlocked = lock.unlocked()
    # Seconds count from the unlock: two that differ only by when they began are one world.
    relative = None if unlocked is None else Unlocked(unlocked.scope, None if unlocked.expires_at is None else _SOME_SECONDS)
    return LockWorld(relative, authenticated)
