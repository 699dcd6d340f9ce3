"""Errors on the wire, both ways.

`error` holds the name that peers of the protocol have always known, `code` the finer stable one of fable_exec.errors, `details`
the fields of the error that a caller may want to act on. Messages are bounded and always valid UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fable_exec import errors
from fable_exec.protocol.encoding import safe_text

__all__ = ["MAX_MESSAGE_BYTES", "bounded_message", "decode_error", "encode_error", "wire_error_name"]

MAX_MESSAGE_BYTES = 8192
_DETAILS = ("reason", "path", "protection", "stage", "errno")

_NAMES: tuple[tuple[type[BaseException], str], ...] = (
    (PermissionError, "PermissionError"),  # first: PathDenied is a ValueError too
    (errors.InvalidJson, "JSONDecodeError"),
    (errors.FrameTooLarge, "InvalidFrame"),
    (FileNotFoundError, "FileNotFoundError"),
    (FileExistsError, "FileExistsError"),
    (IsADirectoryError, "IsADirectoryError"),
    (NotADirectoryError, "NotADirectoryError"),
    (TimeoutError, "TimeoutError"),
    (OSError, "OSError"),
    (errors.Conflict, "ValueError"),
    (ValueError, "ValueError"),
)

_BY_NAME: Mapping[str, type[errors.FableExecError]] = {
    "PermissionError": errors.Denied,
    "ValueError": errors.InvalidRequest,
    "JSONDecodeError": errors.InvalidJson,
    "InvalidFrame": errors.FrameTooLarge,
    "FileNotFoundError": errors.PathNotFound,
    "FileExistsError": errors.PathExists,
    "IsADirectoryError": errors.PathIsDirectory,
    "NotADirectoryError": errors.PathNotDirectory,
    "TimeoutError": errors.PathError,
    "OSError": errors.PathError,
}


def wire_error_name(error: BaseException, action: str | None) -> str:
    """The word for `error`. A missing file has another one when it was to be read, as it always had."""
    if action == "inspect_files" and isinstance(error, FileNotFoundError):
        return "ValueError"
    return next((name for kind, name in _NAMES if isinstance(error, kind)), "OSError")


def encode_error(error: BaseException, action: str | None = None, request_id: str | int | None = None) -> dict[str, Any]:
    """The object of an error answer's line.

    Without `request_id` the one that decode_line left on the error is echoed. An error that is neither of this library nor the
    system's is a defect: its text stays here, only its type is told.
    """
    if request_id is None:
        request_id = getattr(error, "request_id", None)
    wire: dict[str, Any] = {} if request_id is None else {"id": request_id}
    wire.update(ok=False, error=wire_error_name(error, action), message=_message(error), code=_code(error))
    details = dict(_details(error))
    if details:
        wire["details"] = details
    return wire


def _code(error: BaseException) -> str:
    if isinstance(error, errors.FableExecError):
        return error.code
    return "os-error" if isinstance(error, OSError) else errors.InternalError.code


def _message(error: BaseException) -> str:
    if isinstance(error, errors.FableExecError | OSError):
        return bounded_message(str(error))
    return bounded_message(f"the broker failed with {type(error).__name__}; nothing is known about what was done")


def _details(error: BaseException) -> Iterator[tuple[str, str | int]]:
    if not isinstance(error, errors.FableExecError):
        return
    for name in _DETAILS:
        value = getattr(error, name, None)
        if isinstance(value, str) and value:
            yield name, bounded_message(value, 1024)
        elif type(value) is int:
            yield name, value


def bounded_message(text: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """`text` without lone surrogates, cut to at most `limit` bytes of UTF-8."""
    text = safe_text(text[: limit + 1])
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode("utf-8", "ignore") + "…"


def decode_error(wire: Mapping[str, Any]) -> errors.FableExecError:
    """The error that an answer with ``"ok": false`` stands for, of the class that was raised on the other side.

    An unknown `code` falls back on `error`, and an unknown `error` on InternalError, so that any peer can be understood.
    """
    kind = _BY_CODE.get(_word(wire, "code")) or _BY_NAME.get(_word(wire, "error"), errors.InternalError)
    details = wire.get("details")
    fields = details if isinstance(details, Mapping) else {}
    given = {name: fields[name] for name in _DETAILS if type(fields.get(name)) is (int if name == "errno" else str)}
    return kind(_word(wire, "message"), **given)


def _word(wire: Mapping[str, Any], name: str) -> str:
    value = wire.get(name)
    return bounded_message(value) if isinstance(value, str) else ""


def _with_subclasses(kind: type[errors.FableExecError]) -> Iterator[type[errors.FableExecError]]:
    yield kind
    for subclass in kind.__subclasses__():
        if subclass.__module__ == errors.__name__:
            yield from _with_subclasses(subclass)


_BY_CODE = {kind.code: kind for kind in _with_subclasses(errors.FableExecError)}
