"""The reason words of refusals, and the sentences that go with them: which rule, and what to do.

Pure. A word is stable and goes on the wire; a sentence may change.
"""

from __future__ import annotations

from fable_exec.errors import PathDenied

__all__ = ["LEXICAL_REASONS", "RESOLUTION_REASONS", "denied", "shown"]

MAX_SHOWN_CHARACTERS = 200

LEXICAL_REASONS = {
    "empty": "it is empty; '.' names the workspace itself",
    "nul": "it holds a NUL character, where the system would stop reading the name; remove it",
    "encoding": "it holds a lone surrogate that stands for no byte or for part of a valid character; send the name as UTF-8 text",
    "device-path": "it is a Windows device path; name the file relative to the workspace",
    "unc": "it names a network share; name the file relative to the workspace",
    "absolute": "it is absolute; name the file relative to the workspace",
    "drive": "it begins with a drive; name the file relative to the workspace",
    "backslash": "it holds a backslash, which separates names on one system and belongs to a name on another; use '/'",
    "dotdot": "'..' is never accepted, because after a link it leads elsewhere than it reads",
    "component-too-long": "one name in it is longer than 255 bytes (255 UTF-16 units on Windows); use a shorter one",
    "path-too-long": "it is longer than the profile allows; use a shorter path",
    "too-deep": "it has more than 128 components; use a flatter path",
    "control": "a name in it holds a control character or line separator; such a name may be opened but not created",
    "noncharacter": "a name in it holds a Unicode noncharacter; remove it",
    "ignorable": "a name in it holds an invisible formatting character; remove it",
    "private-use": "a name in it holds U+F000 to U+F0FF, which some systems turn into ':' and the like; remove it",
    "not-nfc": "a name in it is not in Unicode form NFC, so some systems would take it for another; send it in NFC",
    "colon": "a name in it holds ':', which names a stream on Windows; use another character",
    "win-illegal": 'a name in it holds one of < > " | ? *, which Windows cannot store; use another character',
    "edge-space": "a name in it begins or ends with a space, which some systems drop; remove it",
    "trailing-dot": "a name in it ends with a dot, which Windows drops; remove it",
    "reserved-name": "a name in it is a device on Windows (CON, NUL, COM1, ...), with any extension; use another name",
    "short-name": "a name in it has the form of a Windows short name (NAME~1) and could stand for another file; use another name",
    "protected-name": "the policy protects this name in every spelling",
}
"""Reasons of `WorkspacePath.parse`, in the order in which they are looked for; the first that fits is given."""

RESOLUTION_REASONS = {
    "symlink": "a symbolic link is on the way or at its end, and links are not followed; name the real file",
    "outside": "it left the workspace while it was resolved",
    "mount-crossing": "another file system is mounted on the way, which this workspace does not enter (no_xdev)",
    "not-regular": "it is not a regular file (a FIFO, socket or device); only regular files are opened",
    "hard-link": "the file has more than one name (hard link), so another place could change with it or already has;"
    " replace it instead of writing into it, or read it with file_trust = 'regular'",
    "writable-by-others": "other users can write the file, so what it says is not yours alone;"
    " take the permission away, or read it with file_trust = 'regular'",
    "control": LEXICAL_REASONS["control"],
}
"""Reasons of a Workspace operation that are rules of this library; facts of the file system are PathError instead."""


def shown(text: str) -> str:
    """`text` in quotes with escapes and bounded: safe in a terminal, in a log and in UTF-8."""
    clipped = text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"
    return repr(clipped)


def denied(reason: str, text: str, advice: str = "") -> PathDenied:
    """The refusal of `text`; `advice` takes the place of nothing, it is added."""
    rule = RESOLUTION_REASONS.get(reason) or LEXICAL_REASONS[reason]
    ending = f"; {advice}" if advice else ""
    return PathDenied(f"path {shown(text)} refused ({reason}): {rule}{ending}", reason=reason, path=text)
