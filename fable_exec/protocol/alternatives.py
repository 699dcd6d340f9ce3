"""What a pattern with braces stands for: `*.{ts,tsx}` is two. As a shell takes braces apart before it matches. Pure.

Braces without a comma of their own are plain characters, and so is a comma outside of braces. `?` fits a brace or a comma itself.
"""

from __future__ import annotations

from itertools import pairwise

from fable_exec.errors import InvalidRequest

__all__ = ["MAX_ALTERNATIVES", "MAX_CHARACTERS", "alternatives"]

MAX_ALTERNATIVES = 100
MAX_CHARACTERS = 1024
"""Of a pattern."""


def alternatives(text: str, name: str = "pattern") -> tuple[str, ...]:
    """Every pattern that `text` stands for. Raises InvalidRequest for a text that is too long, or stands for too many."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidRequest(f"{name} must be at most {MAX_CHARACTERS} characters long")
    whole: list[str] = []
    waiting = [text]
    while waiting:
        if len(whole) + len(waiting) > MAX_ALTERNATIVES:
            raise InvalidRequest(f"{name} {text!a:.200} stands for more than {MAX_ALTERNATIVES} patterns; ask for fewer at once")
        each = waiting.pop()
        group = _first_group(each)
        if group is None:
            whole.append(each)
        else:
            waiting += [each[: group[0]] + each[start + 1 : end] + each[group[-1] + 1 :] for start, end in pairwise(group)]
    return tuple(whole)


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
