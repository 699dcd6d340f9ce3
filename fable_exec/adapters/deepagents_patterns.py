"""Patterns for files as deepagents means them: over `PathPattern`, with alternatives in braces. Pure.

Without "/" a pattern is for the name, at any depth; with "/" for the path below the directory that is searched, and a leading "/"
is that directory. Names that begin with a dot fit where the pattern has the dot itself. Only files are looked for.
"""

from __future__ import annotations

import re
from itertools import pairwise

import attrs

from fable_exec.adapters.globbing import MAX_CHARACTERS, PathPattern
from fable_exec.errors import InvalidRequest
from fable_exec.protocol import rules

__all__ = ["FilePattern"]

_MAX_ALTERNATIVES = 100
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
        if len(rules.phrase(text, "pattern")) > MAX_CHARACTERS:
            raise InvalidRequest(f"pattern must be at most {MAX_CHARACTERS} characters long")
        alternatives = (_alternative(each) for each in _expanded(text))
        return cls(tuple(each for each in alternatives if each is not None), "/" not in text)

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


def _expanded(text: str) -> list[str]:
    """Every text that `text` stands for, by its braces."""
    whole: list[str] = []
    waiting = [text]
    while waiting:
        if len(whole) + len(waiting) > _MAX_ALTERNATIVES:
            raise InvalidRequest(
                f"pattern {rules.shown(text)} stands for more than {_MAX_ALTERNATIVES} patterns; ask for fewer at once"
            )
        each = waiting.pop()
        group = _first_group(each)
        if group is None:
            whole.append(each)
        else:
            waiting += [each[: group[0]] + each[start + 1 : end] + each[group[-1] + 1 :] for start, end in pairwise(group)]
    return whole


def _first_group(text: str) -> tuple[int, ...] | None:
    """Where the first braces that hold a comma of their own open, have their commas, and close. Others are plain characters."""
    open_groups: list[list[int]] = []
    closed: list[tuple[int, ...]] = []
    for at, character in enumerate(text):
        if character == "{":
            open_groups.append([at])
        elif character == "," and open_groups:
            open_groups[-1].append(at)
        elif character == "}" and open_groups:
            group = open_groups.pop()
            if len(group) > 1:
                closed.append((*group, at))
    return min(closed, default=None)
