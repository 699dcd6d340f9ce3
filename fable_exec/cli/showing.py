"""What leaves this program: data on standard output, words for people on standard error, colours only where they are wanted."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fable_exec.cli.exits import Exit, of_failure
from fable_exec.cli.outlets import Outlet, OutletGone
from fable_exec.errors import FableExecError, InternalError, PolicyError
from fable_exec.outcome import display_line
from fable_exec.protocol import encode_error

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = [
    "SCHEMA_VERSION",
    "at_the_door",
    "one_line",
    "people_console",
    "print_array",
    "print_object",
    "print_parts",
    "print_text",
    "report",
    "say",
    "tell",
    "wants_color",
]

SCHEMA_VERSION = 1
"""Of every JSON object that is printed; it changes when a member changes its meaning or goes away, not when one is added."""
_UNWRAPPED_COLUMNS = 10_000


def print_object(members: Mapping[str, Any]) -> None:
    """One JSON object on one line of standard output. ASCII only, so that nothing in it can address a terminal."""
    _print_json({"schema_version": SCHEMA_VERSION, **members})


def print_array(items: Iterable[Any]) -> None:
    """The same of an array."""
    _print_json(list(items))


def _print_json(value: Any) -> None:
    Outlet(1).write(json.dumps(value, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n")


def print_text(text: str) -> None:
    """A document on standard output."""
    Outlet(1).write(text.encode("utf-8", "backslashreplace"))


def say(text: str) -> None:
    """One line for people. Whatever is in `text`, it stays one line and addresses no terminal."""
    with suppress(OSError, OutletGone):  # nobody listens
        tell(f"fable-exec: {one_line(text)}\n")


def tell(text: str) -> None:
    """All of `text` on standard error, also where others made that non-blocking and it is full.

    Raises:
        OutletGone: nobody reads it any more.
        OSError: such as a full disk.
    """
    with suppress(OSError):
        sys.stderr.flush()  # what others wrote by it, such as warnings, comes first
    Outlet(2).write(text.encode("utf-8", "backslashreplace"))


def one_line(text: str) -> str:
    """`text`, which anybody may have written, safe to show within a line."""
    return display_line(text)


def wants_color(is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """NO_COLOR beats FORCE_COLOR, which beats TERM=dumb and the question whether there is a terminal; empty is unset."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return is_terminal and environment.get("TERM", "dumb") not in ("dumb", "unknown")


def report(*parts: RenderableType) -> None:
    """Print something for people on standard error, folded and coloured as it suits who reads it."""
    tell(_rendered(parts, os.isatty(2), 0))


def print_parts(*parts: RenderableType, least_columns: int) -> None:
    """Print what was asked for, for people, on standard output, as `report` does: a list that is read on by a pager or grep.

    Args:
        least_columns: what a narrower terminal is left to fold by itself, so that words which are copied stay whole.
    """
    print_text(_rendered(parts, os.isatty(1), least_columns))


def _rendered(parts: Iterable[RenderableType], is_terminal: bool, least_columns: int) -> str:
    out = people_console(is_terminal)
    out.width = max(out.width, least_columns)
    with out.capture() as captured:
        for part in parts:
            out.print(part)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def people_console(is_terminal: bool) -> Console:
    """Where to draw for people. Lines are folded for a terminal only: what a program reads or a file keeps stays greppable."""
    from rich.console import Console

    colored = wants_color(is_terminal, os.environ)
    return Console(
        file=sys.stderr,
        force_terminal=colored,
        color_system="standard" if colored else None,
        width=None if is_terminal else _UNWRAPPED_COLUMNS,
        markup=False,
        emoji=False,
        highlight=False,
    )


def at_the_door(act: Callable[[], int], *, as_json: bool, status_of: Callable[[Exception], int] = of_failure) -> int:
    """Run `act` for its exit status; what it raises becomes words, or with `as_json` an object, and a status."""
    try:
        return act()
    except OutletGone:
        return Exit.PIPE_CLOSED
    except (FableExecError, OSError) as error:
        return _told(error, as_json, status_of)
    except Exception as error:  # a defect: its traceback is what its report needs
        traceback.print_exc()
        return _told(InternalError(f"defect in fable-exec: {type(error).__name__}"), as_json, status_of)


def _told(error: Exception, as_json: bool, status_of: Callable[[Exception], int]) -> int:
    if as_json:
        try:
            print_object(encode_error(error))
        except OutletGone:
            return Exit.PIPE_CLOSED
    else:
        for line in _words(error):
            say(line)
    return status_of(error)


def _words(error: Exception) -> list[str]:
    if isinstance(error, PolicyError) and error.faults:
        return [f"{path}: {text}" if path else text for path, text in error.faults]
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return [f"{error.filename}: {error.strerror}"]
    return [str(error) or type(error).__name__]
