"""What the tools take. Each class is the input schema of one: strict, and nothing beyond its fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

__all__ = [
    "Append",
    "Edit",
    "Execute",
    "Find",
    "List",
    "Look",
    "Make",
    "Move",
    "Nothing",
    "Read",
    "Remove",
    "Search",
    "Shell",
    "Write",
]

_STRICT = ConfigDict(extra="forbid", strict=True)

_Path = Annotated[str, Field(description="A path in the workspace.")]
_Encoding = Annotated[Literal["utf-8", "base64"], Field(description="How `content` is written.")]
_Hash = Annotated[str | None, Field(description="SHA-256 of the content the file must have now; otherwise nothing is written.")]
_Most = Annotated[int | None, Field(ge=1, description="At most so many; there is a bound anyway.")]


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """A tool without arguments."""

    __pydantic_config__ = _STRICT


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What both ways of running take."""

    __pydantic_config__ = _STRICT
    cwd: Annotated[str | None, Field(description="The directory to run in; the workspace itself without one.")] = None
    stdin: Annotated[str | None, Field(description="Standard input; empty without it.")] = None
    env: Annotated[dict[str, str], Field(description="Environment variables, as far as the policy lets requests set them.")] = (
        field(default_factory=dict)
    )
    timeout_seconds: Annotated[
        float | None, Field(gt=0, description="End everything after this time; the policy has a default and a limit.")
    ] = None
    idle_timeout_seconds: Annotated[float | None, Field(gt=0, description="End everything after this time without output.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class Execute(_Run):
    """Arguments of execute_command."""

    command: Annotated[
        list[str], Field(min_length=1, description="The program and its arguments, one each. No shell reads them.")
    ]


@dataclass(frozen=True, kw_only=True)
class Shell(_Run):
    """Arguments of run_shell."""

    text: Annotated[str, Field(min_length=1, description="What `sh -c` reads.")]


@dataclass(frozen=True, kw_only=True)
class Read:
    """Arguments of read_file."""

    __pydantic_config__ = _STRICT
    path: _Path
    max_bytes: Annotated[int | None, Field(ge=1, description="The first so many bytes; the policy has a limit.")] = None


@dataclass(frozen=True, kw_only=True)
class Write:
    """Arguments of write_file."""

    __pydantic_config__ = _STRICT
    path: _Path
    content: Annotated[str, Field(description="All that the file shall hold.")]
    encoding: _Encoding = "utf-8"
    expected_hash: _Hash = None


@dataclass(frozen=True, kw_only=True)
class Append:
    """Arguments of append_file."""

    __pydantic_config__ = _STRICT
    path: _Path
    content: Annotated[str, Field(description="What comes after all that is there.")]
    encoding: _Encoding = "utf-8"
    expected_hash: _Hash = None


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Arguments of edit_file."""

    __pydantic_config__ = _STRICT
    path: _Path
    old: Annotated[str, Field(min_length=1, description="Text that stands there exactly once.")]
    new: Annotated[str, Field(description="What takes its place.")]
    expected_hash: _Hash = None


@dataclass(frozen=True, kw_only=True)
class List:
    """Arguments of list_directory."""

    __pydantic_config__ = _STRICT
    path: _Path = "."
    max_entries: _Most = None


@dataclass(frozen=True, kw_only=True)
class Look:
    """Arguments of stat_path."""

    __pydantic_config__ = _STRICT
    path: _Path


@dataclass(frozen=True, kw_only=True)
class Make:
    """Arguments of make_directory."""

    __pydantic_config__ = _STRICT
    path: _Path


@dataclass(frozen=True, kw_only=True)
class Move:
    """Arguments of move_path."""

    __pydantic_config__ = _STRICT
    source: _Path
    destination: _Path
    replace: Annotated[bool, Field(description="Whether what has that name already may go.")] = False


@dataclass(frozen=True, kw_only=True)
class Remove:
    """Arguments of remove_path."""

    __pydantic_config__ = _STRICT
    path: _Path
    recursive: Annotated[bool, Field(description="With all that is below a directory.")] = False


@dataclass(frozen=True, kw_only=True)
class Search:
    """Arguments of search_files."""

    __pydantic_config__ = _STRICT
    query: Annotated[str, Field(min_length=1, description="Plain text within one line; no pattern.")]
    path: _Path = "."
    name_pattern: Annotated[str | None, Field(description="Only in files with such names, for example *.py or *.{c,h}.")] = None
    ignore_case: bool = False
    max_matches: _Most = None


@dataclass(frozen=True, kw_only=True)
class Find:
    """Arguments of find_files."""

    __pydantic_config__ = _STRICT
    pattern: Annotated[str, Field(min_length=1, description="For example src/**/*.{py,pyi}; ** is any number of directories.")]
    path: _Path = "."
    max_matches: _Most = None
