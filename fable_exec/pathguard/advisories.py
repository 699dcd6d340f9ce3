"""Hints about a path that is accepted as it stands: it may not mean what its author thought. Pure; never a refusal.

Nothing is expanded or decoded anywhere: "~/x" is a directory called "~". An embedder may show the hint to the model.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["advisories_of"]

_ENVIRONMENT = re.compile(r"\$[A-Za-z_{(]|%[A-Za-z_][A-Za-z0-9_]*%")
_GLOB = re.compile(r"[*?\[\]]")

# Characters that read as a separator, dot or colon, or that some ANSI code page or NFKC turns into one.
_SEPARATOR_LOOKALIKES = frozenset(
    "\u2044\u2215\u29f8\u2afb\u2571\uff0f"  # slashes
    "\u2216\u29f5\u29f9\u27cd\ufe68\uff3c\u00a5\u20a9"  # backslashes, with the yen and won signs of code pages 932 and 949
    "\u2024\u2025\u2026\uff0e\ufe52\u3002"  # dots
    "\uff1a\u02d0\u02f8\u2236\ua789\ufe13\ufe55"  # colons
)
_MEANINGFUL = frozenset("./\\:")


def advisories_of(components: tuple[str, ...]) -> tuple[str, ...]:
    """The hints that apply, each once, in a fixed order."""
    joined = "/".join(components)
    found = []
    if joined.startswith("~"):
        found.append("home-like")
    if _ENVIRONMENT.search(joined):
        found.append("env-like")
    if _GLOB.search(joined):
        found.append("glob-like")
    if any(component.startswith("-") for component in components):
        found.append("option-like")
    if not joined.isascii() and any(_looks_like_another(character) for character in joined if character > "\x7f"):
        found.append("lookalike")
    return tuple(found)


def _looks_like_another(character: str) -> bool:
    if character in _SEPARATOR_LOOKALIKES or "\uff01" <= character <= "\uff5e":
        return True
    return not _MEANINGFUL.isdisjoint(unicodedata.normalize("NFKC", character))
