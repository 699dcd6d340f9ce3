"""What is known of a process, written down, and the question whether two such records mean one process.

Pure: who looks is `looking`. The rules and what they were chosen against: docs/adr/0120-the-same-process.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from fable_exec.errors import StateUnreadable
from fable_exec.procident.tokens import BirthToken, TokenKind, is_boot_id

__all__ = ["Comparison", "ProcessIdentity", "compare"]


class Comparison(Enum):
    """Whether two identities mean one process."""

    SAME = "same"
    """Proved to be one process: a signal may be sent."""

    OTHER = "other"
    """Proved to be two: the recorded one is gone, if the other was found under its number."""

    UNKNOWN = "unknown"
    """Neither is proved: send no signal, and do not call the recorded one dead."""


def _boot_id_of_token(identity: ProcessIdentity) -> str:
    return identity.birth.boot_id if identity.birth else ""


@attrs.frozen
class ProcessIdentity:
    """What was known of a living process when somebody looked. What is None or "" could not be told there and then.

    Args:
        pid: Its number in the looker's PID namespace, 1 or more.
        birth: When it was born.
        unique_id: A number that the kernel gives to one process and to no other until the next boot: the pidfs inode of its
            descriptor (Linux 6.9), the unique id of proc_pidinfo (macOS).
        pid_namespace: Inode of the looker's PID namespace, 0 where there is one for all; `pid` means a process only there.
        boot_id: The kernel's name for the boot; that of the token where the token has one.
        time_namespace: Inode of the looker's time namespace, which shifts the ticks of a `proc` token.
    Raises:
        ValueError: A number is out of range, or the token was counted from another boot than `boot_id`.
    """

    pid: int
    birth: BirthToken | None = None
    unique_id: int | None = None
    pid_namespace: int | None = None
    boot_id: str = attrs.field(default=attrs.Factory(_boot_id_of_token, takes_self=True))
    time_namespace: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.pid < 1:
            raise ValueError(f"not the number of a process: {self.pid}")
        if any(number is not None and number < 0 for number in (self.unique_id, self.pid_namespace, self.time_namespace)):
            raise ValueError("the number of an inode is not negative")
        if self.boot_id and not is_boot_id(self.boot_id):
            raise ValueError(f"not the name of a boot: {self.boot_id[:100]!r}")
        if self.birth is not None and self.birth.kind is TokenKind.PROC and self.birth.boot_id != self.boot_id:
            raise ValueError("the birth token and the boot id are of two boots")

    def is_of_namespace(self, pid_namespace: int | None) -> bool:
        """Whether `pid` is known to mean its process in that PID namespace."""
        return pid_namespace is not None and pid_namespace == self.pid_namespace

    def to_members(self) -> dict[str, str | int | None]:
        """The identity as plain JSON members; `from_members` makes it again."""
        return {
            "pid": self.pid,
            "birth_token": None if self.birth is None else str(self.birth),
            "unique_id": self.unique_id,
            "pid_namespace": self.pid_namespace,
            "boot_id": self.boot_id,
            "time_namespace": self.time_namespace,
        }

    @classmethod
    def from_members(cls, members: Mapping[str, object]) -> ProcessIdentity:
        """The identity that `to_members` wrote. All but `pid` may be missing, which is the same as not known.

        Raises:
            StateUnreadable: A member is unknown, of another type, or not of its form. Nothing is guessed.
        """
        try:
            return cls(**_checked_members(members))  # type: ignore[arg-type]  # each is checked to be of its member's type
        except ValueError as error:
            raise StateUnreadable(f"the record is not a process identity: {error}") from error


_TYPES: Mapping[str, tuple[type, ...]] = {
    "pid": (int,),
    "birth_token": (str, type(None)),
    "unique_id": (int, type(None)),
    "pid_namespace": (int, type(None)),
    "boot_id": (str,),
    "time_namespace": (int, type(None)),
}


def _checked_members(members: Mapping[str, object]) -> dict[str, object]:
    """The arguments of a ProcessIdentity. ValueError for what cannot be one."""
    if "pid" not in members:
        raise ValueError("it has no pid")
    for name, value in members.items():
        if type(value) not in _TYPES.get(name, ()):  # exactly: True is no number
            raise ValueError(f"the member {str(name)[:100]!r} is unknown or of another type")
    given = dict(members)
    token = given.pop("birth_token", None)
    return {**given, "birth": BirthToken.parse(token) if isinstance(token, str) else None}


def compare(recorded: ProcessIdentity, live: ProcessIdentity) -> Comparison:
    """Whether `live`, found under the number of `recorded`, is the process that was recorded. The order does not matter.

    The kernel's own number decides where both have it. The moment of birth says OTHER where it differs, and SAME only where it is
    a whole token and neither side knows more than the other. In another PID namespace the number leads to somebody else, while
    the recorded process may live on: there it is SAME by the kernel's number or UNKNOWN.
    """
    is_one_namespace = recorded.is_of_namespace(live.pid_namespace)
    if is_one_namespace and recorded.pid != live.pid:
        return Comparison.OTHER
    by_number = _compare_unique_ids(recorded, live)
    if by_number is Comparison.SAME or (by_number is Comparison.OTHER and is_one_namespace):
        return by_number
    by_birth = _compare_births(recorded, live) if is_one_namespace else Comparison.UNKNOWN
    if by_birth is Comparison.SAME and (recorded.unique_id is None) != (live.unique_id is None):
        return Comparison.UNKNOWN  # hundreds can have one number within one tick: what one side knows the other must confirm
    return by_birth


def _compare_unique_ids(recorded: ProcessIdentity, live: ProcessIdentity) -> Comparison:
    """Two numbers are two processes, in one boot or in two; one number is one process in one boot only."""
    if recorded.unique_id is None or live.unique_id is None:
        return Comparison.UNKNOWN
    if recorded.unique_id != live.unique_id:
        return Comparison.OTHER
    return Comparison.SAME if recorded.boot_id and recorded.boot_id == live.boot_id else Comparison.UNKNOWN


def _compare_births(recorded: ProcessIdentity, live: ProcessIdentity) -> Comparison:
    """Two moments of one clock are two processes. Two names of a boot prove nothing: a container may show one of its own."""
    one, two = recorded.birth, live.birth
    if one is None or two is None or one.kind is not two.kind or one.kind is TokenKind.PS:
        return Comparison.UNKNOWN  # what ps says moves when the clock is set
    if one.kind is TokenKind.PROC and recorded.time_namespace != live.time_namespace:
        return Comparison.UNKNOWN
    if one.moment != two.moment:
        return Comparison.OTHER
    of_two_boots = bool(recorded.boot_id and live.boot_id) and recorded.boot_id != live.boot_id
    return Comparison.SAME if one == two and one.may_authorise and not of_two_boots else Comparison.UNKNOWN
