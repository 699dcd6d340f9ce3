"""Birth tokens: when a process was born, in the words of whoever knows. Opaque, compared whole, never reckoned with.

Pure. What two tokens say of two processes is `identity.compare`'s.
"""

from __future__ import annotations

import re
from enum import Enum

import attrs

__all__ = ["BirthToken", "TokenKind"]

_NUMBER = r"(?:0|[1-9][0-9]{0,19})"
_BOOT_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


class TokenKind(Enum):
    """Who says it; the value is the token's first word."""

    PROC = "proc"
    DARWIN = "darwin"
    PS = "ps"


_MOMENTS = {
    TokenKind.PROC: re.compile(_NUMBER),
    TokenKind.DARWIN: re.compile(rf"{_NUMBER}:(?:0|[1-9][0-9]{{0,5}})"),
    TokenKind.PS: re.compile(r"[!-~](?:[ -~]{0,62}[!-~])?"),
}


@attrs.frozen
class BirthToken:
    """The moment in which a process was born.

    ===================== ============================================== ==========================
    text                  who says it                                    may authorise a signal
    ===================== ============================================== ==========================
    proc:BOOT_ID:TICKS    Linux: clock ticks since that boot             yes
    proc::TICKS           the same where the boot's name is hidden       no: every boot has it again
    darwin:SEC:USEC       macOS: the kernel's record of the fork         yes
    ps:LSTART             ps(1): to the second, and moves with the clock never
    ===================== ============================================== ==========================

    Args:
        kind: Who says it.
        moment: TICKS, SEC:USEC or LSTART.
        boot_id: The boot that TICKS are counted from, a UUID in lower case; "" where it is not known. Of PROC only.
    Raises:
        ValueError: Not of this form. Numbers have no leading zeros, so that one moment has one text.
    """

    kind: TokenKind
    moment: str
    boot_id: str = ""

    def __attrs_post_init__(self) -> None:
        if not _MOMENTS[self.kind].fullmatch(self.moment):
            raise ValueError(f"not a birth token: {str(self)[:100]!r}")
        if self.boot_id and (self.kind is not TokenKind.PROC or not is_boot_id(self.boot_id)):
            raise ValueError(f"not the name of a boot: {self.boot_id[:100]!r}")

    @classmethod
    def parse(cls, text: str) -> BirthToken:
        """The token that `str()` would write as `text`. ValueError for anything else."""
        word, _, moment = text.partition(":")
        try:
            kind = TokenKind(word)
        except ValueError:
            raise ValueError(f"not a birth token: {text[:100]!r}") from None
        boot_id = ""
        if kind is TokenKind.PROC:
            boot_id, separator, moment = moment.partition(":")
            if not separator:
                raise ValueError(f"not a birth token: {text[:100]!r}")
        return cls(kind, moment, boot_id)

    def __str__(self) -> str:
        boot = f"{self.boot_id}:" if self.kind is TokenKind.PROC else ""
        return f"{self.kind.value}:{boot}{self.moment}"

    @property
    def may_authorise(self) -> bool:
        """Whether finding this token again may authorise a signal."""
        return self.kind is TokenKind.DARWIN or bool(self.boot_id)


def is_boot_id(text: str) -> bool:
    """Whether `text` is a boot's name in its one form: a UUID in lower case."""
    return bool(_BOOT_ID.fullmatch(text))
