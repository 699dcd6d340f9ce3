"""Read a git configuration file as git would, and keep only what cannot run anything. Pure text in, text out.

Git itself is never asked: it would read the very file. Source of the syntax: git-config(1), "Syntax". A line that is not
understood is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Setting", "hooks_path", "parse", "unsafe_settings", "without_unsafe"]


class Setting(NamedTuple):
    """One `key = value`; `name` is section.subsection.key, section and key in lower case."""

    section: str
    subsection: str | None
    key: str
    value: str

    @property
    def name(self) -> str:
        """As `git config --list` prints it."""
        middle = "" if self.subsection is None else f".{self.subsection}"
        return f"{self.section}{middle}.{self.key}"


_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]')
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(=?)")
_SAFE_CORE = {
    "repositoryformatversion",
    "filemode",
    "bare",
    "logallrefupdates",
    "ignorecase",
    "precomposeunicode",
    "symlinks",
}
_ORDINARY_URL = re.compile(
    r"(?:https?|git|ssh|file)://[^\s'\"`$;&|<>\x00-\x1f-][^\s'\"`$;&|<>\x00-\x1f]*|/[^\s\x00-\x1f]*|\.{0,2}/[^\x00-\x1f]*"
)
_SCP_URL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*:(?!:)[^\s\x00-\x1f:-][^\x00-\x1f]*")


def parse(text: str) -> Iterator[Setting]:
    """Every setting that git would see, in order; nothing is expanded or followed."""
    section, subsection = "", None
    for line in _logical_lines(text):
        match = _SECTION.match(line)
        while match is not None:
            section, subsection = _section_of(match)
            line = line[match.end() :]
            match = _SECTION.match(line)
        found = _KEY.match(line)
        if found is not None:
            value = _value(line[found.end() :]) if found.group(2) else "true"
            yield Setting(section, subsection, found.group(1).lower(), value)


def unsafe_settings(text: str) -> tuple[Setting, ...]:
    """The settings that are not on the safe list: any of them may name a program, a file or another place."""
    return tuple(setting for setting in parse(text) if not _is_safe(setting))


def without_unsafe(text: str) -> str:
    """The safe settings alone, written anew."""
    lines: list[str] = []
    last: tuple[str, str | None] | None = None
    for setting in parse(text):
        if not _is_safe(setting):
            continue
        if (setting.section, setting.subsection) != last:
            last = (setting.section, setting.subsection)
            lines.append(
                f"[{setting.section}]" if setting.subsection is None else f'[{setting.section} "{_escaped(setting.subsection)}"]'
            )
        lines.append(f'\t{setting.key} = "{_escaped(setting.value)}"')
    return "\n".join([*lines, ""])


def hooks_path(text: str) -> str | None:
    """The last core.hooksPath, or None."""
    found = None
    for setting in parse(text):
        if (setting.section, setting.subsection, setting.key) == ("core", None, "hookspath"):
            found = setting.value
    return found


def _is_safe(setting: Setting) -> bool:
    section, key = setting.section, setting.key
    if section == "core":
        return setting.subsection is None and key in _SAFE_CORE
    if section == "remote":
        return key == "fetch" or (key == "url" and _is_ordinary_url(setting.value))
    if section == "branch":
        return key in ("remote", "merge", "rebase", "description") and not setting.value.startswith("-")
    if section == "extensions":
        return key in ("objectformat", "refstorage", "worktreeconfig")
    if section == "submodule":
        return key == "active" or (key == "url" and _is_ordinary_url(setting.value))
    return section == "user" and key in ("name", "email")


def _is_ordinary_url(url: str) -> bool:
    """No `ext::` and other helpers, no leading dash: gitremote-helpers(7), CVE-2017-1000117."""
    return _ORDINARY_URL.fullmatch(url) is not None or _SCP_URL.fullmatch(url) is not None


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations joined; a byte order mark and comments are git's to skip."""
    pending = ""
    for line in text.removeprefix("\ufeff").splitlines():
        pending += line
        if _ends_with_backslash(pending):
            pending = pending[:-1]
            continue
        stripped = pending.lstrip()
        if stripped and stripped[0] not in "#;":
            yield pending
        pending = ""
    if pending:
        yield pending


def _ends_with_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _section_of(match: re.Match[str]) -> tuple[str, str | None]:
    name, quoted = match.group(1).lower(), match.group(2)
    if quoted is not None:
        return name, re.sub(r"\\(.)", r"\1", quoted)
    section, dot, subsection = name.partition(".")
    return section, subsection if dot else None


def _value(text: str) -> str:
    """Quotes removed, escapes resolved, comment and outer space cut, as git does."""
    out: list[str] = []
    quoted, kept = False, 0
    characters = iter(text.strip())
    for character in characters:
        if character == '"':
            quoted = not quoted
        elif character == "\\":
            following = next(characters, "")
            out.append({"n": "\n", "t": "\t", "b": "\b"}.get(following, following))
        elif character in "#;" and not quoted:
            break
        else:
            out.append(character)
            if not quoted and character.isspace():
                continue
        kept = len(out)
    return "".join(out[:kept])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
