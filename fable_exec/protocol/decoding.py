"""From the wire to a request: a line to an object, an object to a typed request.

Whatever a peer sends, only InvalidRequest (InvalidJson among them) comes out of here. A member that is null counts as not given.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from fable_exec.errors import InvalidRequest
from fable_exec.protocol import rules
from fable_exec.protocol.json_text import parse_json
from fable_exec.protocol.requests import ACTIONS, BYTES_MEMBERS, CommandRequest, Envelope, Request

__all__ = ["RequestLimits", "decode_line", "decode_request", "parse_line", "request_id", "to_bytes"]


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some hosts on Windows begin what they write with one; a reader may ignore it (RFC 8259, 8.1)."""

_MEMBERS = {
    request: {"action", "id", *(field.name for field in attrs.fields(request)), *(["encoding"] if names else [])}
    for request, names in BYTES_MEMBERS.items()
}

_REQUIRED = {
    request: [field.name for field in attrs.fields(request) if field.default is attrs.NOTHING] for request in BYTES_MEMBERS
}


class RequestLimits(Protocol):
    """What decoding needs of a policy's limits."""

    @property
    def max_timeout_seconds(self) -> float: ...


def decode_line(line: bytes | bytearray | memoryview, limits: RequestLimits | None = None) -> Envelope:
    """The request on one line, with its id.

    Raises:
        InvalidRequest: the line is no request. Its attribute `request_id` is the id to echo, as far as one could be read.
    """
    members = parse_line(line)
    echoed = request_id(members)
    try:
        return Envelope(id=echoed, request=decode_request(members, limits))
    except InvalidRequest as error:
        error.request_id = echoed  # type: ignore[attr-defined]  # only what this function raises has it
        raise


def parse_line(line: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The JSON object on one line, with all bounds of fable_exec.protocol.json_text."""
    members = parse_json(line[len(_BYTE_ORDER_MARK) :] if line[: len(_BYTE_ORDER_MARK)] == _BYTE_ORDER_MARK else line)
    if not isinstance(members, dict):
        raise InvalidRequest(f"a request must be a JSON object, not {rules.kind(members)}")
    return members


def request_id(members: Mapping[str, Any]) -> str | int | None:
    """The `id` of a request that is otherwise not looked at."""
    value = members.get("id")
    return None if value is None else rules.identifier(value, "id")


def decode_request(members: Mapping[str, Any], limits: RequestLimits | None = None) -> Request:
    """The request that `members` describe; `id` is allowed and left to `request_id`.

    With `limits`, deadlines beyond the policy's are refused here too.
    """
    if not isinstance(members, Mapping):
        raise InvalidRequest(f"a request must be a JSON object, not {rules.kind(members)}")
    request_type = _request_type(members.get("action"))
    names = _MEMBERS[request_type]
    for name in members:
        if name not in names:
            has = ", ".join(sorted(names - {"action", "id"})) or "none but action and id"
            raise InvalidRequest(f"{request_type.action} has no member {rules.shown(name)}; it has {has}")
    given = {name: value for name, value in members.items() if value is not None and name not in ("action", "id")}
    _require(request_type, given)
    _turn_text_into_bytes(request_type, given)
    request = request_type(**given)
    if limits is not None and isinstance(request, CommandRequest):
        _check_deadlines(request, limits)
    return request


def _request_type(action: object) -> type[Request]:
    if not isinstance(action, str):
        there = f"; there are {', '.join(sorted(ACTIONS))}"
        raise InvalidRequest(f"action is missing{there}" if action is None else f"action must be text, not {rules.kind(action)}")
    request_type = ACTIONS.get(action)
    if request_type is None:
        raise InvalidRequest(f"there is no action {rules.shown(action)}; there are {', '.join(sorted(ACTIONS))}")
    return request_type


def _require(request_type: type[Request], given: Mapping[str, Any]) -> None:
    for name in _REQUIRED[request_type]:
        if name not in given:
            raise InvalidRequest(f"{request_type.action} needs {name}")


def _turn_text_into_bytes(request_type: type[Request], given: dict[str, Any]) -> None:
    names = BYTES_MEMBERS[request_type]
    if not names:
        return
    has_encoding = hasattr(attrs.fields(request_type), "encoding")
    encoding = given.get("encoding", "utf-8") if has_encoding else given.pop("encoding", "utf-8")
    for name in names:
        if name in given:
            given[name] = to_bytes(given[name], encoding, name)


def to_bytes(value: object, encoding: object, name: str) -> bytes:
    """The bytes that the text `value` of the wire stands for."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text, not {rules.kind(value)}")
    if encoding == "utf-8":
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"{name} holds a lone surrogate") from None
    if encoding != "base64":
        raise InvalidRequest(f'encoding must be "utf-8" or "base64", not {rules.shown(encoding)}')
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{name} is not base64") from None


def _check_deadlines(request: CommandRequest, limits: RequestLimits) -> None:
    for name in ("timeout_seconds", "idle_timeout_seconds"):
        seconds = getattr(request, name)
        if seconds is not None and seconds > limits.max_timeout_seconds:
            raise InvalidRequest(f"{name} must be at most {limits.max_timeout_seconds:g} under this policy")
