"""The requests: one frozen value an action, checked when it is built, whoever builds it.

A request that exists is well formed; whether it is allowed is decided elsewhere. Members that bytes go into (`content`, `old`,
`new`, `stdin`, `data`) are bytes here and text on the wire. The wire table is docs/reference/protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, cast, get_args

import attrs

from fable_exec.errors import InvalidRequest
from fable_exec.outcome import OnOutputLimit
from fable_exec.protocol import rules

__all__ = [
    "ACTIONS",
    "BYTES_MEMBERS",
    "Append",
    "Cancel",
    "EditFile",
    "Encoding",
    "Envelope",
    "ExecuteCommand",
    "InspectFiles",
    "ListCommands",
    "ListDirectory",
    "MakeDirectory",
    "MovePath",
    "Probe",
    "ReadCommand",
    "RemovePath",
    "Request",
    "SearchFiles",
    "StartCommand",
    "StatPath",
    "WriteFile",
    "WriteStdin",
]

Encoding: TypeAlias = Literal["utf-8", "base64"]

_RULE = "fable_exec.rule"
_ENCODING = rules.one_of("utf-8", "base64")


def _by(rule: rules.Rule) -> dict[str, Any]:
    """Field metadata: the value must pass `rule`. attrs' own validators can be switched off for a whole process, this cannot."""
    return {_RULE: rule}


def _items(given: Iterable[str]) -> tuple[str, ...]:
    """What is given, as it is: a converter that tells type checkers that a list may be. The rule makes the tuple."""
    return cast("tuple[str, ...]", given)


@attrs.frozen(kw_only=True)
class Request:
    """What every request has: a checked set of members and the word of its action."""

    action: ClassVar[str]

    def __attrs_post_init__(self) -> None:
        for name, default, rule in _rules_of(type(self)):
            value = getattr(self, name)
            if value is not default:  # what was not given needs no check, and most members are not
                object.__setattr__(self, name, rule(value, name))


_RULES: dict[object, tuple[tuple[str, object, rules.Rule], ...]] = {}


def _rules_of(request_type: type[Request]) -> tuple[tuple[str, object, rules.Rule], ...]:
    """(member, its default, its rule) of each member that has a rule."""
    found = _RULES.get(request_type)
    if found is None:
        fields = attrs.fields(request_type)
        found = tuple((field.name, field.default, field.metadata[_RULE]) for field in fields if _RULE in field.metadata)
        _RULES[request_type] = found
    return found


@attrs.frozen(kw_only=True)
class Envelope:
    """A request as it came over the wire: `id` is echoed in its answer, None means that answers come in order."""

    request: Request
    id: str | int | None = None


@attrs.frozen(kw_only=True)
class Probe(Request):
    """What is this broker and what does it do?"""

    action: ClassVar[str] = "probe"


@attrs.frozen(kw_only=True)
class InspectFiles(Request):
    """Read one file. `max_bytes` None is the policy's cap, above which it is clamped."""

    action: ClassVar[str] = "inspect_files"
    path: str = attrs.field(metadata=_by(rules.path))
    max_bytes: int | None = attrs.field(default=None, metadata=_by(rules.optional(rules.count)))
    encoding: Encoding = attrs.field(default="utf-8", metadata=_by(_ENCODING))


@attrs.frozen(kw_only=True)
class WriteFile(Request):
    """Replace or create a file as a whole; with `expected_hash` only if the present content has that SHA-256."""

    action: ClassVar[str] = "write_file"
    path: str = attrs.field(metadata=_by(rules.path))
    content: bytes = attrs.field(metadata=_by(rules.data))
    expected_hash: str | None = attrs.field(default=None, metadata=_by(rules.optional(rules.digest)))


@attrs.frozen(kw_only=True)
class Append(Request):
    """Add bytes to the end of a file, which is created if there is none."""

    action: ClassVar[str] = "append"
    path: str = attrs.field(metadata=_by(rules.path))
    content: bytes = attrs.field(metadata=_by(rules.data))
    expected_hash: str | None = attrs.field(default=None, metadata=_by(rules.optional(rules.digest)))


@attrs.frozen(kw_only=True)
class EditFile(Request):
    """Replace the one place where `old` stands by `new`; refused if it is absent or not unique."""

    action: ClassVar[str] = "edit_file"
    path: str = attrs.field(metadata=_by(rules.path))
    old: bytes = attrs.field(metadata=_by(rules.data))
    new: bytes = attrs.field(metadata=_by(rules.data))
    expected_hash: str | None = attrs.field(default=None, metadata=_by(rules.optional(rules.digest)))

    def __attrs_post_init__(self) -> None:
        Request.__attrs_post_init__(self)
        if not self.old:
            raise InvalidRequest("old must not be empty")


@attrs.frozen(kw_only=True)
class ListDirectory(Request):
    """The entries of one directory, sorted by name; at most `max_entries` (None: the broker's own bound)."""

    action: ClassVar[str] = "list_directory"
    path: str = attrs.field(default=".", metadata=_by(rules.path))
    max_entries: int | None = attrs.field(default=None, metadata=_by(rules.optional(rules.count)))


@attrs.frozen(kw_only=True)
class StatPath(Request):
    """Kind, size and times of one path; a symbolic link is described, not followed."""

    action: ClassVar[str] = "stat_path"
    path: str = attrs.field(metadata=_by(rules.path))


@attrs.frozen(kw_only=True)
class MakeDirectory(Request):
    """Make a directory and the parents it lacks; one that exists already is no error."""

    action: ClassVar[str] = "make_directory"
    path: str = attrs.field(metadata=_by(rules.path))


@attrs.frozen(kw_only=True)
class MovePath(Request):
    """Rename `source` to `destination`; an existing destination is refused unless `replace` is true."""

    action: ClassVar[str] = "move_path"
    source: str = attrs.field(metadata=_by(rules.path))
    destination: str = attrs.field(metadata=_by(rules.path))
    replace: bool = attrs.field(default=False, metadata=_by(rules.flag))


@attrs.frozen(kw_only=True)
class RemovePath(Request):
    """Remove a file or an empty directory, with `recursive` a whole directory."""

    action: ClassVar[str] = "remove_path"
    path: str = attrs.field(metadata=_by(rules.path))
    recursive: bool = attrs.field(default=False, metadata=_by(rules.flag))


@attrs.frozen(kw_only=True)
class SearchFiles(Request):
    """Lines that hold `query`, which is plain text (a pattern of the model's could run for ever), in the files below `path`.

    `name_pattern` is a shell pattern for file names, such as ``*.py`` or ``*.{c,h}``.
    """

    action: ClassVar[str] = "search_files"
    query: str = attrs.field(metadata=_by(rules.line))
    path: str = attrs.field(default=".", metadata=_by(rules.path))
    name_pattern: str | None = attrs.field(default=None, metadata=_by(rules.optional(rules.name_pattern)))
    ignore_case: bool = attrs.field(default=False, metadata=_by(rules.flag))
    max_matches: int | None = attrs.field(default=None, metadata=_by(rules.optional(rules.count)))


@attrs.frozen(kw_only=True)
class CommandRequest(Request):
    """What running in front and running in the background have in common. None means the policy's default."""

    command: tuple[str, ...] = attrs.field(converter=_items, metadata=_by(rules.argv))
    cwd: str | None = attrs.field(default=None, metadata=_by(rules.optional(rules.path)))
    timeout_seconds: float | None = attrs.field(default=None, metadata=_by(rules.optional(rules.timeout)))
    idle_timeout_seconds: float | None = attrs.field(default=None, metadata=_by(rules.optional(rules.timeout)))
    stdin: bytes | None = attrs.field(default=None, metadata=_by(rules.optional(rules.data)))
    env: Mapping[str, str] = attrs.field(factory=dict, hash=False, metadata=_by(rules.environment))
    on_output_limit: OnOutputLimit | None = attrs.field(
        default=None, metadata=_by(rules.optional(rules.one_of(*get_args(OnOutputLimit))))
    )


@attrs.frozen(kw_only=True)
class ExecuteCommand(CommandRequest):
    """Run a command to its end. With `stream` its output also comes as events while it runs."""

    action: ClassVar[str] = "execute_command"
    stream: bool = attrs.field(default=False, metadata=_by(rules.flag))
    encoding: Encoding = attrs.field(default="utf-8", metadata=_by(_ENCODING))


@attrs.frozen(kw_only=True)
class StartCommand(CommandRequest):
    """Start a command in the background; the answer is its handle. With `keep_stdin_open` more input may follow `stdin`."""

    action: ClassVar[str] = "start_command"
    keep_stdin_open: bool = attrs.field(default=False, metadata=_by(rules.flag))


@attrs.frozen(kw_only=True)
class ReadCommand(Request):
    """The output of a background command since the last read; waits up to `wait_seconds` for some, or for its end."""

    action: ClassVar[str] = "read_command"
    handle: str = attrs.field(metadata=_by(rules.handle))
    wait_seconds: float = attrs.field(default=0.0, metadata=_by(rules.waiting_time))
    encoding: Encoding = attrs.field(default="utf-8", metadata=_by(_ENCODING))


@attrs.frozen(kw_only=True)
class WriteStdin(Request):
    """Send input to a background command, and with `close` end its input."""

    action: ClassVar[str] = "write_stdin"
    handle: str = attrs.field(metadata=_by(rules.handle))
    data: bytes = attrs.field(default=b"", metadata=_by(rules.data))
    close: bool = attrs.field(default=False, metadata=_by(rules.flag))


@attrs.frozen(kw_only=True)
class Cancel(Request):
    """End the whole tree of the request with id `target`, or of the background command `handle`: exactly one is given."""

    action: ClassVar[str] = "cancel"
    target: str | int | None = attrs.field(default=None, metadata=_by(rules.optional(rules.identifier)))
    handle: str | None = attrs.field(default=None, metadata=_by(rules.optional(rules.handle)))

    def __attrs_post_init__(self) -> None:
        Request.__attrs_post_init__(self)
        if (self.target is None) == (self.handle is None):
            raise InvalidRequest("cancel needs either target or handle")


@attrs.frozen(kw_only=True)
class ListCommands(Request):
    """The background commands whose handles are known."""

    action: ClassVar[str] = "list_commands"


_REQUESTS: tuple[type[Request], ...] = (
    ExecuteCommand,
    InspectFiles,
    Probe,
    WriteFile,
    Append,
    Cancel,
    EditFile,
    ListCommands,
    ListDirectory,
    MakeDirectory,
    MovePath,
    ReadCommand,
    RemovePath,
    SearchFiles,
    StartCommand,
    StatPath,
    WriteStdin,
)

ACTIONS: Mapping[str, type[Request]] = {
    **{request.action: request for request in _REQUESTS},
    "probe_capabilities": Probe,
}
"""Every word that may stand in `action`, and the request it means."""

BYTES_MEMBERS: Mapping[type[Request], tuple[str, ...]] = {
    request: tuple(name for name in ("content", "old", "new", "stdin", "data") if hasattr(attrs.fields(request), name))
    for request in _REQUESTS
}
"""The members of each request that hold bytes, and text on the wire."""
