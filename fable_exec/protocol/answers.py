"""From the wire to a result: what a client makes of an answer.

The broker is trusted to be a broker, so members that are not known are left alone (it may be newer); but a value of the wrong
type is never bent into the right one. An answer that cannot be understood leaves the connection of no use: BrokerGone.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

import attrs

from fable_exec.errors import BrokerGone, FableExecError, InvalidRequest
from fable_exec.outcome import Captured, EndedBy
from fable_exec.protocol import command_results, requests, results
from fable_exec.protocol.decoding import to_bytes
from fable_exec.protocol.errors import decode_error
from fable_exec.protocol.rules import kind

__all__ = ["RESULTS", "Answer", "decode_answer", "decode_result", "parse_answer"]

if TYPE_CHECKING:
    from cattrs import Converter

_T = TypeVar("_T")

RESULTS: Mapping[type[requests.Request], type[results.Result]] = {
    requests.Probe: results.ProbeResult,
    requests.InspectFiles: results.InspectResult,
    requests.WriteFile: results.WriteResult,
    requests.EditFile: results.WriteResult,
    requests.Append: results.AppendResult,
    requests.ListDirectory: results.ListResult,
    requests.StatPath: results.StatResult,
    requests.MakeDirectory: results.MakeDirectoryResult,
    requests.MovePath: results.MoveResult,
    requests.RemovePath: results.RemoveResult,
    requests.SearchFiles: results.SearchResult,
    requests.ExecuteCommand: command_results.CommandResult,
    requests.StartCommand: command_results.StartResult,
    requests.ReadCommand: command_results.ReadCommandResult,
    requests.WriteStdin: command_results.WriteStdinResult,
    requests.Cancel: command_results.CancelResult,
    requests.ListCommands: command_results.ListCommandsResult,
}
"""Which result answers which request."""


@attrs.frozen(kw_only=True)
class Answer:
    """One answer line: the id it belongs to, and either the encoded result or the error."""

    id: str | int | None
    result: dict[str, Any] | None = None
    error: FableExecError | None = None


def parse_answer(line: bytes) -> dict[str, Any]:
    """The JSON object on a line of the broker's, an answer or an event."""
    try:
        members = json.loads(str(line, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise _not_understood(f"a line is not JSON ({type(error).__name__})") from None
    if not isinstance(members, dict):
        raise _not_understood(f"a line holds {kind(members)}")
    return members


def decode_answer(members: Mapping[str, Any]) -> Answer:
    """The answer that `members` are. The result stays encoded until `decode_result` knows its request."""
    echoed = members.get("id")
    if not (echoed is None or isinstance(echoed, str) or type(echoed) is int):
        raise _not_understood(f"id is {kind(echoed)}")
    result = members.get("result")
    if members.get("ok") is True and isinstance(result, dict):
        return Answer(id=echoed, result=result)
    if members.get("ok") is False:
        return Answer(id=echoed, error=decode_error(members))
    raise _not_understood("it is neither a result nor an error")


def decode_result(request: requests.Request | type[requests.Request], wire: Mapping[str, Any]) -> Any:
    """The typed result of `request` (RESULTS says of which type).

    Raises:
        BrokerGone: the members are not those of such a result.
    """
    request_type = request if isinstance(request, type) else type(request)
    result_type = RESULTS[request_type]
    read: Callable[[Mapping[str, Any]], Any] = _READERS.get(result_type, lambda members: _structured(members, result_type))
    try:
        return read(wire)
    except (InvalidRequest, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _not_understood(f"the result of {request_type.action} is not of its form: {error}") from None


def _not_understood(what: str) -> BrokerGone:
    return BrokerGone(f"the broker's answer cannot be understood: {what}")


@functools.cache
def _converter() -> Converter:
    from cattrs import Converter  # 40 ms that a broker's side, which reads no answers, should not pay

    converter = Converter(detailed_validation=False)
    for exact in (str, int, bool):
        converter.register_structure_hook(exact, _exactly(exact))
    converter.register_structure_hook(float, _seconds)
    converter.register_structure_hook_func(_is_tuple, _items)
    return converter


def _exactly(wanted: type[_T]) -> Callable[[Any, Any], _T]:
    def take(value: Any, _: Any) -> _T:
        if type(value) is not wanted:
            raise TypeError(f"{wanted.__name__} expected, not {kind(value)}")
        return value

    return take


def _seconds(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"a number expected, not {kind(value)}")
    return float(value)


def _is_tuple(wanted: Any) -> bool:
    origin: object = get_origin(wanted)
    return origin is tuple


def _items(value: Any, wanted: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"a list expected, not {kind(value)}")
    item_type = get_args(wanted)[0]
    return tuple(_structured(item, item_type) for item in value)


def _structured(members: Any, wanted: Any) -> Any:
    return _converter().structure(members, wanted)


def _bytes_of(members: Mapping[str, Any], name: str) -> bytes:
    return to_bytes(members[name], "base64" if members.get("encoding") == "base64" else "utf-8", name)


def _captured(members: Mapping[str, Any], name: str) -> Captured:
    data = _bytes_of(members, name)
    total = _structured(members[f"{name}_total_bytes"], int)
    if members.get("encoding") == "base64":
        head = _structured(members[f"{name}_head_bytes"], int)
        return Captured(head=data[:head], tail=data[head:], total_bytes=total)
    omitted = _structured(members[f"{name}_omitted_bytes"], int)
    return Captured(head=data, total_bytes=total, omitted_bytes=omitted)


def _inspected(members: Mapping[str, Any]) -> results.InspectResult:
    return results.InspectResult(
        data=_bytes_of(members, "content"),
        **_some(members, results.InspectResult, "path", "content_hash", "truncated", "total_bytes"),
    )


def _some(members: Mapping[str, Any], of: Any, *names: str) -> dict[str, Any]:
    """The named members, each of the type that `of` declares."""
    fields = attrs.fields_dict(attrs.resolve_types(of))
    return {name: _structured(members[name], fields[name].type) for name in names}


def _command(members: Mapping[str, Any]) -> command_results.CommandResult:
    computed = ("outcome", "captured_stdout", "captured_stderr", "exit_code", "signal")
    names = [name for name in attrs.fields_dict(command_results.CommandResult) if name not in computed]
    return command_results.CommandResult(
        outcome=EndedBy(members["outcome"]),
        captured_stdout=_captured(members, "stdout"),
        captured_stderr=_captured(members, "stderr"),
        exit_code=_structured(members["exit_code"], int | None),
        signal=_structured(members["signal"], int | None),
        **_some(members, command_results.CommandResult, *names),
    )


def _read_command(members: Mapping[str, Any]) -> command_results.ReadCommandResult:
    record = members.get("result")
    return command_results.ReadCommandResult(
        stdout_data=_bytes_of(members, "stdout"),
        stderr_data=_bytes_of(members, "stderr"),
        result=None if record is None else _command(record),
        **_some(
            members,
            command_results.ReadCommandResult,
            *("handle", "running", "stdout_omitted_bytes", "stderr_omitted_bytes"),
        ),
    )


_READERS: Mapping[type[results.Result], Callable[[Mapping[str, Any]], Any]] = {
    results.InspectResult: _inspected,
    command_results.CommandResult: _command,
    command_results.ReadCommandResult: _read_command,
}
