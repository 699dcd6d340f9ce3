"""Patterns for files as deepagents means them: over `PathPattern`, with alternatives in braces. Pure.

Without "/" a pattern is for the name, at any depth; with "/" for the path below the directory that is searched, and a leading "/"
is that directory. Names that begin with a dot fit where the pattern has the dot itself. Only files are looked for.
"""

from __future__ import annotations

import re

import attrs

from fable_exec.adapters.globbing import PathPattern
from fable_exec.protocol import rules
from fable_exec.protocol.alternatives import alternatives

__all__ = ["FilePattern"]

_SET = re.compile(r"\[\^(.[^]]*\])")
"""A set that is negated as in regular expressions. fnmatch, which knows "!", would take "^" for one of the set."""


@attrs.frozen
class FilePattern:
    """One pattern: what a path must fit one of."""

    alternatives: tuple[PathPattern, ...]
    is_for_names: bool

    @classmethod
    def parse(cls, text: str) -> FilePattern:
        """Raises InvalidRequest for what PathPattern refuses, and for braces that stand for too many patterns."""
        found = (_alternative(each) for each in alternatives(rules.phrase(text, "pattern")))
        return cls(tuple(each for each in found if each is not None), "/" not in text)

    @property
    def only_name(self) -> str | None:
        """The one pattern that the name of every file fits that fits this; None where there are several, or any name does."""
        last = {each.parts[-1] for each in self.alternatives}
        return last.pop() if len(last) == 1 else None

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether the file of these names is one that is looked for."""
        asked = names[-1:] if self.is_for_names else names
        return any(each.fits(asked) for each in self.alternatives)

    def leads_on(self, names: tuple[str, ...]) -> bool:
        """Whether a file below the directory of these names could fit."""
        return self.is_for_names or any(each.leads_on(names) for each in self.alternatives)


def _alternative(text: str) -> PathPattern | None:
    """A pattern without braces; None for one of directories, or of nothing, which no file fits."""
    if not text or text.endswith("/"):
        return None
    parsed = PathPattern.parse(_SET.sub(r"[!\1", text), dotted=False)
    below = ("*",) if len(parsed.parts) > 1 and parsed.parts[-1] == "**" else ()  # a file is below the directory before the "**"
    return attrs.evolve(parsed, parts=parsed.parts + below)
