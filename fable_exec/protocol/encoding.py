"""From typed values to the wire: a request or a result to the object that stands on its line.

Every answer stays within a size: what does not fit is cut and the cut is counted. No string of an answer holds a lone surrogate.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from fable_exec.errors import InternalError, InvalidRequest
from fable_exec.outcome import Captured
from fable_exec.protocol.command_results import CommandResult, ListCommandsResult, ReadCommandResult, StartResult
from fable_exec.protocol.fitting import encoded_size, fit_items, fit_streams, written
from fable_exec.protocol.requests import BYTES_MEMBERS, Encoding, Request
from fable_exec.protocol.results import InspectResult, ListResult, Result, SearchResult

__all__ = ["DEFAULT_MAX_ANSWER_BYTES", "encode_answer", "encode_request", "encode_result", "safe_text"]

DEFAULT_MAX_ANSWER_BYTES = 16 * 1024 * 1024
_CUTTABLE: Mapping[type[Result], str] = {ListResult: "entries", SearchResult: "matches", ListCommandsResult: "commands"}
_ENVELOPE_BYTES = 1024
"""Kept free for what stands around a result: the longest id and the fixed words."""


def safe_text(text: str) -> str:
    """`text` with each lone surrogate (a file name that is not UTF-8) replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encode_request(request: Request, request_id: str | int | None = None) -> dict[str, Any]:
    """`request` as the object of its line. Members that have their default are left out.

    Bytes go as text where they are UTF-8 and as base64 where not. Where the encoding also says how the answer shall be written
    (execute_command) it is not changed: bytes that it cannot carry are an InvalidRequest.
    """
    wire: dict[str, Any] = {"action": request.action} if request_id is None else {"id": request_id, "action": request.action}
    fields = attrs.fields(type(request))
    names = BYTES_MEMBERS[type(request)]
    for field in fields:
        value = getattr(request, field.name)
        if field.name not in names and value not in (field.default, {}):
            wire[field.name] = list(value) if isinstance(value, tuple) else dict(value) if field.name == "env" else value
    given = {name: value for name in names if (value := getattr(request, name)) is not None}
    encoding = _encoding_for(request, given)
    if encoding == "base64" and given:
        wire["encoding"] = "base64"
    for name, value in given.items():
        wire[name] = base64.b64encode(value).decode("ascii") if encoding == "base64" else value.decode()
    return wire


def _encoding_for(request: Request, given: dict[str, bytes]) -> Encoding:
    chosen: Encoding | None = getattr(request, "encoding", None)
    if chosen == "base64":
        return "base64"
    for name, value in given.items():
        try:
            value.decode()
        except UnicodeDecodeError:
            if chosen is None:
                return "base64"
            raise InvalidRequest(f'{name} is not UTF-8; ask for encoding "base64"') from None
    return "utf-8"


def encode_answer(result: dict[str, Any], request_id: str | int | None = None) -> dict[str, Any]:
    """The object of an answer's line around an encoded result."""
    return {"ok": True, "result": result} if request_id is None else {"id": request_id, "ok": True, "result": result}


def encode_result(
    result: Result, request: Request | None = None, *, max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES
) -> dict[str, Any]:
    """`result` as the `result` member of an answer whose line is at most `max_answer_bytes` long.

    `request` says how bytes are written (its `encoding`, text if there is none). What is cut is marked: output by its counts and
    `answer_limited`, content by `truncated` with a hash of what is left, lists by `truncated`.

    Raises:
        InternalError: the bound is so small that not even the fixed members fit.
    """
    encoding: Encoding = getattr(request, "encoding", "utf-8")
    room = max_answer_bytes - _ENVELOPE_BYTES
    if isinstance(result, CommandResult):
        return _command(result, encoding, room)
    if isinstance(result, ReadCommandResult):
        return _read_command(result, encoding, room)
    if isinstance(result, InspectResult):
        return _inspected(result, encoding, room)
    return _with_fitted_lists(result, room)


def _with_fitted_lists(result: Result, room: int) -> dict[str, Any]:
    wire: dict[str, Any] = _plain(result)
    if encoded_size(wire) <= room:
        return wire
    if isinstance(result, StartResult):
        wire["command"] = fit_items(wire["command"], room // 2)
    if isinstance(result, ListCommandsResult):
        for summary in wire["commands"]:
            summary["command"] = fit_items(summary["command"], room // (2 * len(wire["commands"])))
    name = _CUTTABLE.get(type(result))
    if name is not None:
        kept = fit_items(wire[name], room - encoded_size({**wire, name: []}) - 1)
        wire.update({name: kept, "truncated": len(kept) < len(wire[name])})
    return _checked(wire, room)


def _plain(value: Any) -> Any:
    """`value` in the types of JSON: attrs values as objects, tuples as lists, enums by their word."""
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if attrs.has(type(value)):
        return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    return value


def _checked(wire: dict[str, Any], room: int) -> dict[str, Any]:
    size = encoded_size(wire)
    if size > room:
        raise InternalError(f"an answer of {size} bytes cannot be made to fit into {room}")
    return wire


def _inspected(result: InspectResult, encoding: Encoding, room: int) -> dict[str, Any]:
    content = Captured(head=result.data, total_bytes=len(result.data) + result.truncated)
    fixed = {"path": safe_text(result.path), "content_hash": result.content_hash, "total_bytes": result.total_bytes}
    kept, _ = fit_streams(content, Captured(), encoding, room - encoded_size(fixed) - 128)
    cut = len(kept.head) < len(result.data)
    return {
        "path": fixed["path"],
        "content": written(kept, encoding),
        "content_hash": hashlib.sha256(kept.head).hexdigest() if cut else result.content_hash,
        "truncated": result.truncated or cut,
        "total_bytes": result.total_bytes,
        "encoding": _encoding_word(encoding, kept),
    }


def _encoding_word(encoding: Encoding, *streams: Captured) -> str:
    """How the text of an answer stands for its bytes: "base64", "utf-8", or "utf-8-lossy" where bytes had to be replaced."""
    if encoding == "base64":
        return encoding
    return "utf-8" if all(stream.is_utf8 for stream in streams) else "utf-8-lossy"


def _command(result: CommandResult, encoding: Encoding, room: int) -> dict[str, Any]:
    fixed = _command_without_output(result)
    fixed_size = encoded_size(fixed)
    if fixed_size > room // 2:
        for name in ("command", "survivors", "denials"):
            fixed[name] = fit_items(fixed[name], room // 8)
        fixed["denials_omitted"] += len(result.denials) - len(fixed["denials"])
        fixed["answer_limited"] = True
        fixed_size = encoded_size(_checked(fixed, room - 512))
    stdout, stderr = fit_streams(result.captured_stdout, result.captured_stderr, encoding, room - fixed_size - 512)
    cut = (stdout, stderr) != (result.captured_stdout, result.captured_stderr)
    limited = result.output_limited or cut
    fixed.update(
        output_limited=limited,
        success=result.success and not limited,
        encoding=_encoding_word(encoding, stdout, stderr),
        answer_limited=bool(result.answer_limited or cut or fixed["answer_limited"]),
    )
    for name, stream in (("stdout", stdout), ("stderr", stderr)):
        fixed[name] = written(stream, encoding)
        fixed[f"{name}_total_bytes"] = stream.total_bytes
        fixed[f"{name}_omitted_bytes"] = stream.omitted_bytes
        if encoding == "base64":
            fixed[f"{name}_head_bytes"] = len(stream.head)
    return fixed


def _command_without_output(result: CommandResult) -> dict[str, Any]:
    return {
        "command": [safe_text(item) for item in result.command],
        "cwd": safe_text(result.cwd),
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "output_limited": result.output_limited,
        "stdout": "",
        "stderr": "",
        "success": result.success,
        "outcome": result.outcome.value,
        "signal": result.signal,
        "survivors": [_plain(survivor) for survivor in result.survivors],
        "duration_seconds": result.duration_seconds,
        "user_cpu_seconds": result.user_cpu_seconds,
        "system_cpu_seconds": result.system_cpu_seconds,
        "peak_rss_bytes": result.peak_rss_bytes,
        "peak_processes": result.peak_processes,
        "confinement": [_plain(applied) for applied in result.confinement],
        "denials": [_plain(denial) for denial in result.denials],
        "denials_omitted": result.denials_omitted,
        "observed": result.observed.value,
        "policy_digest": result.policy_digest,
        "answer_limited": result.answer_limited,
    }


def _read_command(result: ReadCommandResult, encoding: Encoding, room: int) -> dict[str, Any]:
    """Half of the room is for this piece, half for the record of a command that has ended."""
    room = room - 1024
    ended = result.result
    record = None if ended is None else _command(ended, encoding, room // 2)
    left = room // 2 if record is not None else room
    stdout, stderr = fit_streams(Captured(head=result.stdout_data), Captured(head=result.stderr_data), encoding, left)
    return {
        "handle": result.handle,
        "running": result.running,
        "stdout": written(stdout, encoding),
        "stderr": written(stderr, encoding),
        "stdout_omitted_bytes": result.stdout_omitted_bytes + stdout.omitted_bytes,
        "stderr_omitted_bytes": result.stderr_omitted_bytes + stderr.omitted_bytes,
        "encoding": _encoding_word(encoding, stdout, stderr),
        "result": record,
    }
