"""Protected names (.git, .env) compared as any file system might compare them, on every host. Pure.

The workspace may sit on a volume that folds case, drops ignorable characters (HFS+), cuts at ":" or has short names (NTFS).
An exact compare is the usual bug. Sources: git's verify_path with protectHFS and protectNTFS, CVE-2014-9390, CVE-2019-1352.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable

__all__ = ["folded", "is_protected", "protected_forms"]


def folded(name: str) -> str:
    """`name` as the most forgiving volume sees it."""
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    trimmed = visible.split(":", 1)[0].rstrip(". ")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", trimmed).casefold())


def protected_forms(protected: Iterable[str]) -> frozenset[str]:
    """Every folded form of the protected names, with the short name that NTFS gives each ("git~1" for ".git").

    Raises:
        ValueError: an entry that is not a single name, or that folds to nothing.
    """
    return _forms(tuple(protected))


@functools.lru_cache(maxsize=64)
def _forms(protected: tuple[str, ...]) -> frozenset[str]:
    forms: set[str] = set()
    for name in protected:
        form = folded(name)
        if not form or "/" in name or "\0" in name:
            raise ValueError(f"a protected name must be a single name, not {name!r}")
        forms |= {form, _short_name(form)}
    return frozenset(forms)


def _short_name(form: str) -> str:
    """The first short name NTFS makes from a long name: the stem without dots and spaces, six characters, then "~1"."""
    stem, dot, extension = form.lstrip(".").rpartition(".")
    if not dot:
        stem, extension = extension, ""
    squeezed = stem.replace(".", "").replace(" ", "")[:6]
    return f"{squeezed}~1" + (f".{extension[:3]}" if extension else "")


def is_protected(name: str, forms: frozenset[str]) -> bool:
    """Whether `name` is one of the protected names in some spelling; `forms` comes from `protected_forms`."""
    return bool(forms) and folded(name) in forms
