"""The answer of an argument rule, and the refusal that carries it out of the parsers. It decides nothing."""

from __future__ import annotations

import attrs

__all__ = ["Refused", "Verdict", "shown"]

_LONGEST_SHOWN = 80


@attrs.frozen(kw_only=True)
class Verdict:
    """What the argument rules say about one argv. `bool(verdict)` is not defined on purpose: ask `allowed`."""

    allowed: bool
    tool: str
    """The name the rule was looked up by: the last component of argv[0]."""
    rule: str
    """The rule that decided: the tool with its sub-commands, and after a `:` the option or the check that refused."""
    reason: str = ""
    """Why not, for a person: which argument, what is wrong with it, what to do. Empty when allowed."""
    read_only: bool = False
    """Allowed, and no accepted form of it can write: neither this command nor one that it runs."""
    inner: tuple[Verdict, ...] = ()
    """The commands that this one runs by its arguments, in their order; all allowed when this one is."""

    def __bool__(self) -> bool:
        raise TypeError("a verdict has no truth value; ask .allowed")


class Refused(Exception):
    """Leaves the parsers with the rule's last part and the reason; `judging` turns it into a Verdict and nobody else sees it."""

    def __init__(self, rule: str, reason: str, inner: tuple[Verdict, ...] = ()) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason
        self.inner = inner


def shown(text: str) -> str:
    """`text` for a message: quoted, escaped to ASCII, bounded."""
    return ascii(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…")
