"""The rules for one path of a boundary: what it must be, and its one resolved form. Looks at the disk, changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePath

from fable_exec.policy.forms import encodable, expanded

__all__ = ["enclosing", "leads_through", "overlap", "overlapping", "resolved", "resolved_directory", "resolved_file"]

_NEVER = "\n\r\t"


def resolved(given: object) -> Path:
    """The real path that `given` (a string or path, `~` expanded) names.

    Raises:
        ValueError: it breaks a rule, or is not there; the text says which.
    """
    if not isinstance(given, (str, PurePath)):
        raise ValueError(f"must be a path, not {type(given).__name__}")
    # An empty string would be the current directory to pathlib; an empty Path already is.
    text = expanded(_writable_in_a_line(str(given) if str(given) != "." else ""))
    if not PurePath(text).is_absolute():
        raise ValueError("must be absolute")
    try:
        found = Path(text).resolve(strict=True)
    except FileNotFoundError:
        raise ValueError("does not exist") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before 3.13
        raise ValueError(f"cannot be resolved: {getattr(error, 'strerror', None) or error}") from None
    _writable_in_a_line(str(found))
    if found == Path(found.anchor):
        raise ValueError("must not be the root of the file system: that is everything")
    return found


def resolved_directory(given: object) -> Path:
    """`resolved`, of a directory."""
    found = resolved(given)
    if not found.is_dir():
        raise ValueError("must be a directory")
    return found


def resolved_file(given: object) -> Path:
    """`resolved`, of a regular file."""
    found = resolved(given)
    if not found.is_file():
        raise ValueError("must be a regular file")
    return found


def overlap(one: PurePath, other: PurePath) -> bool:
    """Whether one of them is the other, or holds it."""
    return one.is_relative_to(other) or other.is_relative_to(one)


def overlapping(path: PurePath, others: Iterable[PurePath]) -> PurePath | None:
    """The first of `others` that overlaps `path`."""
    return next((other for other in others if overlap(path, other)), None)


def enclosing(path: PurePath, places: Iterable[PurePath]) -> PurePath | None:
    """The first of `places` that is `path` or holds it."""
    return next((place for place in places if path.is_relative_to(place)), None)


def leads_through(given: str | PurePath, directory: PurePath) -> bool:
    """Whether the way of `given` has a name in `directory`, which whoever writes there can make a link to anywhere."""
    parts = PurePath(expanded(str(given))).parts
    above = (Path(*parts[:place]) for place in range(1, len(parts)) if parts[place] != "..")
    return any(each.resolve().is_relative_to(directory) for each in above)


def _writable_in_a_line(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    if any(character in text for character in _NEVER):
        raise ValueError("must not contain a newline, carriage return or tab")
    return encodable(text)
