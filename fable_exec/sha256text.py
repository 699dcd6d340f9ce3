"""The one form in which a SHA-256 is written: 64 lower-case hexadecimal digits."""

from __future__ import annotations

__all__ = ["is_sha256", "sha256_given"]

_DIGITS = frozenset("0123456789abcdef")


def is_sha256(value: object) -> bool:
    """Whether it is a SHA-256 as it is written everywhere here."""
    return isinstance(value, str) and len(value) == 64 and _DIGITS.issuperset(value)


def sha256_given(text: str) -> str | None:
    """The digest that a person typed or a setting holds, with capitals or with blanks around it; None where it is none."""
    digest = text.strip().lower()
    return digest if is_sha256(digest) else None
