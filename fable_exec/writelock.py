"""The write lock: locked at the start, unlocked by a token for some paths or all, for a time or until it is locked again.

It compares tokens and counts failures; what a lock forbids is said in fable_exec.decision. Nothing of the token is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections.abc import Callable

import attrs

from fable_exec._sys.forks import ProcessLock
from fable_exec.decision import UnlockScope
from fable_exec.errors import Denied, InvalidRequest, WritesLocked

__all__ = ["FREE_FAILURES", "LONGEST_BACK_OFF_SECONDS", "Unlocked", "WriteLock", "now"]

FREE_FAILURES = 5
"""Wrong tokens without a pause; from the last of them on each costs twice the pause before."""
FIRST_BACK_OFF_SECONDS = 1.0
LONGEST_BACK_OFF_SECONDS = 60.0
_LONGEST_TOKEN_CHARACTERS = 64 * 1024
_NO_DIGEST = (
    "nothing can unlock them: the policy has no write_token_digest; choose a token and set it to the token's SHA-256, "
    "as `printf %s TOKEN | sha256sum` prints it"
)


def now() -> float:
    """Seconds of a clock that nobody can set and that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@attrs.frozen
class Unlocked:
    """An unlock in force. `scope` None is the whole workspace, `expires_at` None is until locked."""

    scope: UnlockScope | None = None
    expires_at: float | None = None


class WriteLock:
    """Thread-safe. `digest` is the SHA-256 of the admin's token in hexadecimal; without one it can never be unlocked."""

    def __init__(self, digest: str | None, clock: Callable[[], float] = now) -> None:
        self._digest = digest
        self._clock = clock
        self._mutex = ProcessLock()
        self._unlocked: Unlocked | None = None
        self._failures = 0
        self._blocked_until = -math.inf

    @property
    def failures(self) -> int:
        """Wrong tokens since the last right one."""
        return self._failures

    @property
    def retry_after_seconds(self) -> float:
        """How long the back-off still lasts, 0 when a token would be looked at now."""
        return max(0.0, self._blocked_until - self._clock())

    def unlocked(self) -> Unlocked | None:
        """The unlock in force, None while locked."""
        unlocked = self._unlocked
        if unlocked is None or unlocked.expires_at is None or self._clock() < unlocked.expires_at:
            return unlocked
        return None

    def unlock(self, token: str, expires_in_seconds: float | None = None, scope: UnlockScope | None = None) -> None:
        """Unlock if `token` is right, instead of any unlock before. The token is looked at also when already unlocked.

        Raises:
            WritesLocked: there is no digest, the token is empty, or the back-off lasts.
            Denied: the token is wrong; an unlock in force stays.
            InvalidRequest: an argument is not of its form.
        """
        lifetime = _checked_lifetime(expires_in_seconds)
        if not isinstance(token, str) or len(token) > _LONGEST_TOKEN_CHARACTERS:
            raise InvalidRequest("token must be text of bounded length")
        if self._digest is None:
            raise WritesLocked(f"workspace writes are locked, and {_NO_DIGEST}")
        if not token:
            raise WritesLocked("workspace writes are locked, and the token is empty")
        with self._mutex:
            self._refuse_during_back_off()
            if not _is_right(token, self._digest):
                self._count_failure()
                raise Denied("invalid write authorization")
            self._failures = 0
            self._unlocked = Unlocked(scope, None if lifetime is None else self._clock() + lifetime)

    def lock(self) -> None:
        """Lock again. Idempotent."""
        with self._mutex:
            self._unlocked = None

    def _refuse_during_back_off(self) -> None:
        wait = self.retry_after_seconds
        if wait > 0:
            raise WritesLocked(f"too many wrong tokens: the next one is looked at in {wait:.1f} s")

    def _count_failure(self) -> None:
        self._failures += 1
        beyond = self._failures - FREE_FAILURES
        if beyond >= 0:
            pause = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(beyond, 10), LONGEST_BACK_OFF_SECONDS)
            self._blocked_until = self._clock() + pause


def _checked_lifetime(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if type(seconds) not in (int, float) or not math.isfinite(seconds) or seconds <= 0:
        raise InvalidRequest("expires_in_seconds must be a finite number above 0")
    return float(seconds)


def _is_right(token: str, digest: str) -> bool:
    supplied = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
    return hmac.compare_digest(supplied, digest)
