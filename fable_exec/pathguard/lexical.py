"""Text to checked components, or a refusal: the lexical layer. Pure, the same on every platform, and it trusts nobody below it.

It refuses; it never repairs: only "." and empty components are dropped, and that a directory was asked for ("a/", "a/.") is
remembered. No percent, tilde, environment, glob, quote or white-space processing, ever.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable

import attrs

from fable_exec.errors import PathDenied
from fable_exec.pathguard.advisories import advisories_of
from fable_exec.pathguard.names import has_control, portable_fault, windows_fault
from fable_exec.pathguard.protection import is_protected, protected_forms
from fable_exec.pathguard.reasons import denied

__all__ = ["PathProfile", "WorkspacePath"]

MAX_COMPONENT_UNITS = 255
MAX_PORTABLE_COMPONENTS = 128


class PathProfile(enum.Enum):
    """Which names are acceptable: to every system (for names to create), or to one (for names that exist)."""

    PORTABLE = "portable"
    POSIX = "posix"
    WINDOWS = "windows"

    @classmethod
    def host(cls) -> PathProfile:
        """The profile of the system this runs on."""
        return cls.WINDOWS if sys.platform == "win32" else cls.POSIX


_MAX_PATH_UNITS = {PathProfile.PORTABLE: 1023, PathProfile.POSIX: 4095, PathProfile.WINDOWS: 32766}


@attrs.frozen(kw_only=True)
class WorkspacePath:
    """A path below some workspace that passed the lexical rules: a tuple of names, empty for the workspace itself.

    Holds no handle and says nothing about what exists. `advisories` are hints, see docs/reference/paths.md.
    """

    components: tuple[str, ...]
    directory_required: bool = False
    profile: PathProfile = attrs.field(default=PathProfile.PORTABLE, eq=False)
    advisories: tuple[str, ...] = attrs.field(default=(), eq=False)

    def __attrs_post_init__(self) -> None:
        # The last line of defence against a value that did not come from parse(): the resolvers rely on exactly this.
        for name in self.components:
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise ValueError(f"{name!r} is not a single name of a path; use WorkspacePath.parse")

    @classmethod
    def parse(cls, text: str, profile: PathProfile = PathProfile.PORTABLE, protected: Iterable[str] = ()) -> WorkspacePath:
        """Check `text` against the rules of `profile` and return its names.

        Args:
            text: the path as it came; a byte that is not UTF-8 is a lone surrogate U+DC80 to U+DCFF (`os.fsdecode`).
            protected: single names that are refused in every spelling.

        Raises:
            PathDenied: with the first reason that fits, in the order of docs/reference/paths.md.
        """
        if not isinstance(text, str):
            raise TypeError(f"a path is a str, not {type(text).__name__}")
        text = str.__str__(text)
        components = _checked_components(text, profile)
        _check_names(components, text, profile, protected_forms(protected))
        return cls(
            components=components,
            directory_required=_asks_for_directory(text, profile),
            profile=profile,
            advisories=advisories_of(components),
        )

    @property
    def is_root(self) -> bool:
        """Whether this is the workspace itself."""
        return not self.components

    @property
    def name(self) -> str:
        """The last name, or "." for the workspace itself."""
        return self.components[-1] if self.components else "."

    @property
    def parent(self) -> WorkspacePath:
        """The directory that holds it; the workspace is its own."""
        return attrs.evolve(self, components=self.components[:-1], directory_required=False, advisories=())

    def child(self, name: str, protected: Iterable[str] = ()) -> WorkspacePath:
        """The path of the entry `name` in this directory, checked like any other text.

        Raises:
            PathDenied: also when `name` holds a separator.
        """
        return WorkspacePath.parse("/".join((*self.components, name)), self.profile, protected)

    def creation_fault(self) -> str | None:
        """The reason why the last name may be opened but not created, or None."""
        return "control" if self.components and has_control(self.components[-1]) else None

    def __str__(self) -> str:
        return "/".join(self.components) or "."


def _checked_components(text: str, profile: PathProfile) -> tuple[str, ...]:
    """The rules about the text as a whole, in their order, then its real components."""
    if not text:
        raise denied("empty", text)
    if "\0" in text:
        raise denied("nul", text)
    _check_encoding(text, profile)
    _check_anchor(text, profile)
    if profile is PathProfile.PORTABLE and "\\" in text:
        raise denied("backslash", text, f"did you mean {text.replace(chr(92), '/')[:MAX_COMPONENT_UNITS]!r}?")
    pieces = _split(text, profile)
    if ".." in pieces:
        raise denied("dotdot", text, _cleaned_form(pieces))
    components = tuple(piece for piece in pieces if piece not in ("", "."))
    _check_lengths(text, components, profile)
    return components


def _check_encoding(text: str, profile: PathProfile) -> None:
    """Refuse surrogates. Only POSIX names are bytes: there U+DC80 to U+DCFF stand for a byte that is not part of UTF-8.

    Escapes that together spell valid UTF-8 are refused as well: the same bytes would have two texts, and rules about the
    text (protected names) would look at the wrong one. `os.fsdecode` never makes them.
    """
    if text.isascii():
        return
    try:
        text.encode("utf-8")
        return
    except UnicodeEncodeError:
        if profile is not PathProfile.POSIX:
            raise denied("encoding", text) from None
    try:
        canonical = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise denied("encoding", text) from None
    if canonical != text:
        raise denied("encoding", text)


def _check_anchor(text: str, profile: PathProfile) -> None:
    """Refuse a path that says by itself where it begins."""
    if profile is PathProfile.WINDOWS:
        unified = text.replace("/", "\\")
        if unified.startswith(("\\\\?\\", "\\\\.\\", "\\??\\")) or unified in ("\\\\?", "\\\\.", "\\??"):
            raise denied("device-path", text)
        if unified.startswith("\\\\"):
            raise denied("unc", text)
        if unified.startswith("\\"):
            raise denied("absolute", text)
    if text.startswith("/"):
        raise denied("absolute", text)
    # subst makes drives of more than letters (CVE-2019-1351).
    if profile is not PathProfile.POSIX and text[1:2] == ":" and text[0].isascii():
        raise denied("drive", text)


def _split(text: str, profile: PathProfile) -> list[str]:
    return (text.replace("\\", "/") if profile is PathProfile.WINDOWS else text).split("/")


def _asks_for_directory(text: str, profile: PathProfile) -> bool:
    unified = text.replace("\\", "/") if profile is PathProfile.WINDOWS else text
    return unified.endswith(("/", "/."))


def _cleaned_form(pieces: list[str]) -> str:
    """What to do about "..": the path without it, if it stays inside."""
    kept: list[str] = []
    for piece in pieces:
        if piece == "..":
            if not kept:
                return "it leads out of the workspace"
            kept.pop()
        elif piece not in ("", "."):
            kept.append(piece)
    return f"use {('/'.join(kept) or '.')[:MAX_COMPONENT_UNITS]!r} if that is what is meant"


def _check_lengths(text: str, components: tuple[str, ...], profile: PathProfile) -> None:
    if any(_units(name, profile) > MAX_COMPONENT_UNITS for name in components):
        raise denied("component-too-long", text)
    if _units(text, profile) > _MAX_PATH_UNITS[profile]:
        raise denied("path-too-long", text)
    if profile is PathProfile.PORTABLE and len(components) > MAX_PORTABLE_COMPONENTS:
        raise denied("too-deep", text)


def _units(text: str, profile: PathProfile) -> int:
    """Its length as the file system counts: bytes, or UTF-16 units on Windows."""
    if text.isascii():
        return len(text)
    if profile is PathProfile.WINDOWS:
        return len(text.encode("utf-16-le")) // 2
    return len(text.encode("utf-8", "surrogateescape"))


def _check_names(components: tuple[str, ...], text: str, profile: PathProfile, forms: frozenset[str]) -> None:
    for name in components:
        reason = _name_fault(name, profile)
        if reason is None and is_protected(name, forms):
            reason = "protected-name"
        if reason is not None:
            raise _name_denied(reason, name, text)


def _name_fault(name: str, profile: PathProfile) -> str | None:
    if profile is PathProfile.PORTABLE:
        return portable_fault(name)
    return windows_fault(name) if profile is PathProfile.WINDOWS else None


def _name_denied(reason: str, name: str, text: str) -> PathDenied:
    return denied(reason, text, f"the name is {name[:MAX_COMPONENT_UNITS]!r}" if name != text else "")
