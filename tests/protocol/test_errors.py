"""Errors over the wire: the old names, the new codes, the same class on the other side, never too long."""

from __future__ import annotations

import errno
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec import errors
from fable_exec import protocol as p
from fable_exec.frames import encode_frame
from fable_exec.testing.strategies import json_values

NAMES: list[tuple[BaseException, str | None, str]] = [
    (errors.Denied("x"), None, "PermissionError"),
    (errors.WritesLocked("x"), None, "PermissionError"),
    (errors.ExecutableDenied("x"), None, "PermissionError"),
    (errors.ArgumentDenied("x"), None, "PermissionError"),
    (errors.PathDenied("x", reason="dotdot", path=".."), None, "PermissionError"),
    (errors.InvalidRequest("x"), None, "ValueError"),
    (errors.PolicyError("x"), None, "ValueError"),
    (errors.StateUnreadable("x"), None, "ValueError"),
    (errors.Conflict("x"), None, "ValueError"),
    (errors.InvalidJson("x"), None, "JSONDecodeError"),
    (errors.FrameTooLarge("x"), None, "InvalidFrame"),
    (errors.PathNotFound("x"), "stat_path", "FileNotFoundError"),
    (errors.PathNotFound("x"), "inspect_files", "ValueError"),
    (errors.PathExists("x"), None, "FileExistsError"),
    (errors.PathIsDirectory("x"), None, "IsADirectoryError"),
    (errors.PathNotDirectory("x"), None, "NotADirectoryError"),
    (errors.PathError("x"), None, "OSError"),
    (errors.LaunchFailed("x"), None, "OSError"),
    (errors.ConfinementUnavailable("x"), None, "OSError"),
    (errors.AuditUnavailable("x"), None, "OSError"),
    (errors.BrokerGone("x"), None, "OSError"),
    (errors.InternalError("x"), None, "OSError"),
    (TimeoutError("x"), None, "TimeoutError"),
    (PermissionError(13, "x"), None, "PermissionError"),
    (OSError(errno.ENOSPC, "No space"), None, "OSError"),
    (ValueError("x"), None, "ValueError"),
    (ZeroDivisionError("x"), None, "OSError"),
]


@pytest.mark.parametrize(("error", "action", "name"), NAMES, ids=[f"{type(case[0]).__name__}-{case[1]}" for case in NAMES])
def test_each_error_has_its_name_on_the_wire(error: BaseException, action: str | None, name: str) -> None:
    assert p.wire_error_name(error, action) == name
    wire = p.encode_error(error, action)
    assert (wire["ok"], wire["error"]) == (False, name)
    assert "id" not in wire


def every_class(kind: type[errors.FableExecError] = errors.FableExecError) -> Iterator[type[errors.FableExecError]]:
    """Of the errors room: a class of another room, once loaded, is none that the wire knows."""
    yield kind
    for subclass in kind.__subclasses__():
        if subclass.__module__ == errors.__name__:
            yield from every_class(subclass)


@pytest.mark.parametrize("kind", sorted(set(every_class()), key=str), ids=str)
def test_every_class_comes_out_on_the_other_side_and_survives_pickling(kind: type[errors.FableExecError]) -> None:
    wire = json.loads(encode_frame(p.encode_error(kind("why it was refused"), "inspect_files", 7)))
    assert wire["id"] == 7 and wire["code"] == kind.code
    seen = p.decode_error(wire)
    again = pickle.loads(pickle.dumps(seen))
    for error in (seen, again):
        assert type(error) is kind
        assert str(error) == "why it was refused"


def test_codes_are_not_shared() -> None:
    # A room may add a builtin to a class for its own door (the broker's MissingFile); it keeps the code of its parent.
    codes = [kind.code for kind in set(every_class()) if kind.__module__ == errors.__name__]
    assert len(codes) == len(set(codes))


def test_fields_a_caller_acts_on_come_along() -> None:
    cases: list[tuple[errors.FableExecError, dict[str, Any]]] = [
        (errors.PathDenied("m", reason="dotdot", path="a/../b"), {"reason": "dotdot", "path": "a/../b"}),
        (errors.LaunchFailed.at("exec", errno.ENOENT, "x"), {"stage": "exec", "errno": errno.ENOENT}),
        (errors.ConfinementUnavailable("m", protection="network", reason="no namespaces"), {"protection": "network"}),
    ]
    for error, fields in cases:
        seen = pickle.loads(pickle.dumps(p.decode_error(json.loads(encode_frame(p.encode_error(error))))))
        assert type(seen) is type(error)
        assert {name: getattr(seen, name) for name in fields} == fields


@pytest.mark.parametrize(("number", "advice"), [(errno.EAGAIN, "ulimit -u"), (errno.ETOOMANYREFS, "ulimit -n")])
def test_a_start_that_the_host_was_short_for_says_what_to_raise(number: int, advice: str) -> None:
    assert advice in str(errors.LaunchFailed.at("launcher", number, "x"))


def test_the_text_of_an_unexpected_error_stays_inside() -> None:
    wire = p.encode_error(RuntimeError("token=secret"), "probe")
    assert wire["code"] == "internal-error"
    assert "secret" not in json.dumps(wire) and "RuntimeError" in wire["message"]


@pytest.mark.parametrize("text", ["x" * 100_000, "漢" * 100_000, "\ud800" * 100_000, "😀" * 5000, "a\udcffb", "\x00" * 9000])
def test_a_message_is_bounded_valid_utf8(text: str) -> None:
    for error in (errors.Denied(text), OSError(text), errors.PathDenied(text, reason=text, path=text)):
        wire = p.encode_error(error)
        assert len(wire["message"].encode()) <= 8192
        assert sum(len(str(value).encode()) for value in wire.get("details", {}).values()) <= 2048
        assert text.encode("utf-8", "replace")[:1] in (b"?", wire["message"].encode()[:1]) or "�" in wire["message"]


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        ({"error": "PermissionError", "message": "m"}, errors.Denied),
        ({"error": "ValueError", "message": "m"}, errors.InvalidRequest),
        ({"error": "InvalidFrame", "message": "m"}, errors.FrameTooLarge),
        ({"error": "JSONDecodeError", "message": "m"}, errors.InvalidJson),
        ({"error": "FileNotFoundError", "message": "m"}, errors.PathNotFound),
        ({"error": "KeyError", "message": "m"}, errors.InternalError),
        ({"error": "ValueError", "message": "m", "code": "of-the-future"}, errors.InvalidRequest),
        ({"error": "ValueError", "message": "m", "code": "not-found"}, errors.PathNotFound),
        ({}, errors.InternalError),
    ],
)
def test_errors_of_older_and_newer_peers_are_understood(wire: dict[str, Any], kind: type[errors.FableExecError]) -> None:
    assert type(p.decode_error(wire)) is kind
    assert str(p.decode_error(wire)) == wire.get("message", "")


@pytest.mark.fuzz
@given(st.dictionaries(st.sampled_from(["ok", "error", "message", "code", "details", "id"]), json_values()))
def test_no_error_answer_makes_a_client_raise(members: dict[str, Any]) -> None:
    error = p.decode_error(members)
    assert isinstance(error, errors.FableExecError)
    assert p.decode_error(p.encode_error(error)).code == error.code


@pytest.mark.fuzz
@given(st.text(st.characters()), st.text(st.characters()))
def test_any_message_and_field_reads_back_as_it_was_written(message: str, path: str) -> None:
    wire = p.encode_error(errors.PathDenied(message, path=path))
    line = encode_frame(wire)
    line.decode()
    assert json.loads(line) == wire
