"""Patterns for paths below a directory: which names fit, and which directories are worth a look. Pure.

A pattern is names joined by "/", each a shell pattern for one name (`*` fits dot files too, as in pathlib), and `**` for any
number of directories; braces hold alternatives.
"""

from __future__ import annotations

import fnmatch

import attrs

from fable_exec.errors import InvalidRequest
from fable_exec.protocol import rules
from fable_exec.protocol.alternatives import MAX_CHARACTERS, alternatives

__all__ = ["PathPattern", "PathPatterns"]


@attrs.frozen
class PathPattern:
    """One pattern without alternatives, taken apart. `dotted`: whether wildcards fit names that begin with a dot."""

    parts: tuple[str, ...]
    dotted: bool = True

    @classmethod
    def parse(cls, text: str, *, dotted: bool = True) -> PathPattern:
        """Raises InvalidRequest for what is no text, an empty or overlong one, and one with "..", which nothing could fit."""
        parts = tuple(part for part in rules.phrase(text, "pattern").split("/") if part not in ("", "."))
        if not parts or len(text) > MAX_CHARACTERS:
            raise InvalidRequest(f"pattern must be 1 to {MAX_CHARACTERS} characters and name something")
        if ".." in parts:
            raise InvalidRequest(f"pattern {rules.shown(text)} has '..', which no path of a workspace has")
        deduplicated = (part for at, part in enumerate(parts) if part != "**" or at == 0 or parts[at - 1] != "**")
        return cls(tuple(deduplicated), dotted)

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether the path of these names is one that is looked for."""
        return len(self.parts) in self._reached(names)

    def leads_on(self, names: tuple[str, ...]) -> bool:
        """Whether something below the directory of these names could fit."""
        return any(at < len(self.parts) for at in self._reached(names))

    def _reached(self, names: tuple[str, ...]) -> set[int]:
        """How many parts can have been used up after these names."""
        reached = self._with_skipped({0})
        for name in names:
            reached = self._with_skipped({after for at in reached for after in self._step(at, name)})
        return reached

    def _step(self, at: int, name: str) -> tuple[int, ...]:
        if at == len(self.parts) or (name.startswith(".") and not (self.dotted or self.parts[at].startswith("."))):
            return ()
        if self.parts[at] == "**":
            return (at,)
        return (at + 1,) if fnmatch.fnmatchcase(name, self.parts[at]) else ()

    def _with_skipped(self, reached: set[int]) -> set[int]:
        """`**` may stand for no directory at all; at the end it fits whatever is below."""
        return reached | {at + 1 for at in reached if at < len(self.parts) and self.parts[at] == "**"}


@attrs.frozen
class PathPatterns:
    """What a path must fit one of."""

    alternatives: tuple[PathPattern, ...]

    @classmethod
    def parse(cls, text: str) -> PathPatterns:
        """Raises InvalidRequest for what PathPattern refuses, and for braces that stand for too many patterns."""
        return cls(tuple(map(PathPattern.parse, alternatives(rules.phrase(text, "pattern")))))

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether the path of these names is one that is looked for."""
        return any(each.fits(names) for each in self.alternatives)

    def leads_on(self, names: tuple[str, ...]) -> bool:
        """Whether something below the directory of these names could fit."""
        return any(each.leads_on(names) for each in self.alternatives)
