"""Requests: the seed's and ours, in one form or refused with one bounded error."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec import protocol as p
from fable_exec.errors import InvalidJson, InvalidRequest
from fable_exec.frames import encode_frame
from fable_exec.outcome import OnOutputLimit
from fable_exec.policy import BrokerPolicy, json_schema
from fable_exec.testing.strategies import json_values, request_lines, request_members
from tests.protocol.examples import REQUESTS, SHA

SEED_REQUESTS: list[tuple[dict[str, Any], p.Request]] = [
    ({"action": "probe"}, p.Probe()),
    ({"action": "probe_capabilities"}, p.Probe()),
    ({"action": "inspect_files", "path": "a"}, p.InspectFiles(path="a")),
    ({"action": "inspect_files", "path": "a", "max_bytes": None}, p.InspectFiles(path="a")),
    ({"action": "inspect_files", "path": "a", "max_bytes": 5}, p.InspectFiles(path="a", max_bytes=5)),
    ({"action": "write_file", "path": "a", "content": "x"}, p.WriteFile(path="a", content=b"x")),
    ({"action": "write_file", "path": "a", "content": ""}, p.WriteFile(path="a", content=b"")),
    ({"action": "execute_command", "command": ["ls"]}, p.ExecuteCommand(command=("ls",))),
    (
        {"action": "execute_command", "command": ["ls", ""], "cwd": None, "timeout_seconds": None},
        p.ExecuteCommand(command=("ls", "")),
    ),
    (
        {"action": "execute_command", "command": ["ls"], "cwd": "a", "timeout_seconds": 3},
        p.ExecuteCommand(command=("ls",), cwd="a", timeout_seconds=3.0),
    ),
]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "action is missing"),
    ({"action": None}, "action is missing"),
    ({"action": 3}, "action must be text"),
    ({"action": ["probe"]}, "action must be text"),
    ({"action": "unlock_writes", "token": "x"}, 'there is no action "unlock_writes"'),
    ({"action": "x" * 10_000}, "there is no action"),
    ({"action": "\ud800\x1b[2J"}, "there is no action"),
    ({"action": "nope"}, "there are append, cancel, edit_file, execute_command"),
    ({"action": "execute_command", "timeout": 3}, "timeout_seconds"),
    ({"action": "probe", "token": None}, 'probe has no member "token"; it has none but action and id'),
    ({"action": "probe", "sandbox": False}, "has no member"),
    ({"action": "probe", "encoding": "utf-8"}, "has no member"),
    ({"action": "inspect_files"}, "inspect_files needs path"),
    ({"action": "inspect_files", "path": None}, "needs path"),
    ({"action": "inspect_files", "path": ""}, "path must not be blank"),
    ({"action": "inspect_files", "path": " \t"}, "path must not be blank"),
    ({"action": "inspect_files", "path": ["a"]}, "path must be text, not a list"),
    ({"action": "inspect_files", "path": "\udc80"}, "lone surrogate"),
    ({"action": "inspect_files", "path": "a", "max_bytes": 0}, "max_bytes must be at least 1"),
    ({"action": "inspect_files", "path": "a", "max_bytes": -1}, "at least 1"),
    ({"action": "inspect_files", "path": "a", "max_bytes": True}, "must be an integer, not a boolean"),
    ({"action": "inspect_files", "path": "a", "max_bytes": "9"}, "must be an integer, not text"),
    ({"action": "inspect_files", "path": "a", "max_bytes": 3.0}, "must be an integer, not a number"),
    ({"action": "inspect_files", "path": "a", "encoding": "latin-1"}, "encoding must be"),
    ({"action": "inspect_files", "path": "a", "encoding": ["utf-8"]}, "encoding must be"),
    ({"action": "write_file", "path": "a"}, "write_file needs content"),
    ({"action": "write_file", "path": "a", "content": None}, "needs content"),
    ({"action": "write_file", "path": "a", "content": 5}, "content must be text"),
    ({"action": "write_file", "path": "a", "content": "\ud83d"}, "content holds a lone surrogate"),
    ({"action": "write_file", "path": "a", "content": "a", "encoding": "base64"}, "content is not base64"),
    ({"action": "write_file", "path": "a", "content": "YQ==\n", "encoding": "base64"}, "content is not base64"),
    ({"action": "write_file", "path": "a", "content": "é", "encoding": "base64"}, "content is not base64"),
    ({"action": "write_file", "path": "a", "content": "a", "encoding": "utf-16"}, "encoding must be"),
    ({"action": "write_file", "path": "a", "content": "a", "encoding": {}}, "encoding must be"),
    ({"action": "write_file", "path": "a", "content": "a", "expected_hash": "abc"}, "64 hexadecimal"),
    ({"action": "write_file", "path": "a", "content": "a", "expected_hash": "\u0660" * 64}, "64 hexadecimal"),
    ({"action": "edit_file", "path": "a", "old": "", "new": "b"}, "old must not be empty"),
    ({"action": "execute_command"}, "needs command"),
    ({"action": "execute_command", "command": "ls -l"}, "command must be a list of strings, not text"),
    ({"action": "execute_command", "command": {"0": "ls"}}, "command must be a list"),
    ({"action": "execute_command", "command": 7}, "command must be a list"),
    ({"action": "execute_command", "command": []}, "must name a program"),
    ({"action": "execute_command", "command": [""]}, "command[0] must not be empty"),
    ({"action": "execute_command", "command": ["ls", None]}, "command[1] must be text, not null"),
    ({"action": "execute_command", "command": ["ls", "a\0b"]}, "command[1] must not hold NUL"),
    ({"action": "execute_command", "command": ["ls", "\ud800"]}, "command[1] holds a lone surrogate"),
    ({"action": "execute_command", "command": ["ls"], "cwd": ""}, "cwd must not be blank"),
    ({"action": "execute_command", "command": ["ls"], "timeout_seconds": 0}, "more than 0"),
    ({"action": "execute_command", "command": ["ls"], "timeout_seconds": -1}, "more than 0"),
    ({"action": "execute_command", "command": ["ls"], "timeout_seconds": 3601}, "at most 3600"),
    ({"action": "execute_command", "command": ["ls"], "timeout_seconds": 10**400}, "must be finite"),
    ({"action": "execute_command", "command": ["ls"], "timeout_seconds": float("nan")}, "must be finite"),
    ({"action": "execute_command", "command": ["ls"], "timeout_seconds": float("inf")}, "must be finite"),
    ({"action": "execute_command", "command": ["ls"], "timeout_seconds": True}, "number of seconds, not a boolean"),
    ({"action": "execute_command", "command": ["ls"], "timeout_seconds": "3"}, "number of seconds, not text"),
    ({"action": "execute_command", "command": ["ls"], "env": ["A=1"]}, "env must be an object"),
    ({"action": "execute_command", "command": ["ls"], "env": {"A": 1}}, "must be text, not an integer"),
    ({"action": "execute_command", "command": ["ls"], "env": {"": "x"}}, "no variable can have"),
    ({"action": "execute_command", "command": ["ls"], "env": {"A=B": "x"}}, "no variable can have"),
    ({"action": "execute_command", "command": ["ls"], "env": {"A": "\0"}}, "must not hold NUL"),
    ({"action": "execute_command", "command": ["ls"], "on_output_limit": "ignore"}, '"kill" or "truncate"'),
    ({"action": "execute_command", "command": ["ls"], "stream": 1}, "true or false"),
    ({"action": "execute_command", "command": ["ls"], "stream": "false"}, "true or false"),
    ({"action": "start_command", "command": ["ls"], "stream": True}, "has no member"),
    ({"action": "cancel"}, "either target or handle"),
    ({"action": "cancel", "target": 1, "handle": "c"}, "either target or handle"),
    ({"action": "cancel", "target": 1.5}, "text or an integer"),
    ({"action": "read_command", "handle": ""}, "1 to 128"),
    ({"action": "read_command", "handle": "c", "wait_seconds": -0.1}, "between 0"),
    ({"action": "inspect_files", "path": "\udcff"}, "a command can rename what has a name that is not UTF-8"),
    ({"action": "probe", 5: 6}, "has no member"),  # type: ignore[dict-item]  # the member's name is no text
]


@pytest.mark.parametrize(("wire", "request_"), SEED_REQUESTS, ids=[json.dumps(case[0]) for case in SEED_REQUESTS])
def test_requests_of_peers_that_know_four_actions_mean_what_they_meant(wire: dict[str, Any], request_: p.Request) -> None:
    assert p.decode_request(wire) == request_
    assert p.decode_line(encode_frame(wire)) == p.Envelope(request=request_, id=None)


@pytest.mark.parametrize(("wire", "reason"), REFUSED, ids=[ascii(case[0])[:60] for case in REFUSED])
def test_a_request_that_is_not_of_its_form_is_refused_and_says_why(wire: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        p.decode_request(wire)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400
    str(caught.value).encode()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [None, 5, "probe", ["probe"], True, 1.5])
def test_what_is_no_object_is_no_request(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        p.decode_request(value)
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        p.decode_line(json.dumps(value).encode())


@pytest.mark.parametrize("request_", REQUESTS, ids=[type(request).__name__ for request in REQUESTS])
def test_every_request_survives_the_wire_pickling_and_its_own_copy(request_: p.Request) -> None:
    line = encode_frame(p.encode_request(request_, "id-1"))
    assert p.decode_line(line) == p.Envelope(request=request_, id="id-1")
    assert pickle.loads(pickle.dumps(request_)) == request_
    assert attrs.evolve(request_) == request_
    hash(request_)


def test_every_action_has_an_example_and_every_request_a_result() -> None:
    assert {type(request) for request in REQUESTS} == set(p.ACTIONS.values()) == set(p.RESULTS)


def test_the_capabilities_begin_with_the_four_that_every_peer_knows() -> None:
    assert p.CAPABILITIES[:4] == ("execute_command", "inspect_files", "probe_capabilities", "write_file")
    assert set(p.CAPABILITIES) == set(p.ACTIONS) - {"probe"}


@pytest.mark.parametrize("request_", REQUESTS, ids=[type(request).__name__ for request in REQUESTS])
def test_null_for_a_member_that_may_be_left_out_means_its_default(request_: p.Request) -> None:
    wire = p.encode_request(request_)
    for field in attrs.fields(type(request_)):
        if field.default is not attrs.NOTHING and field.name not in wire:
            wire[field.name] = None
    assert p.decode_request(wire) == request_


def test_no_request_can_name_a_token_an_unlock_or_a_switch_for_the_sandbox() -> None:
    names = {field.name for request in p.ACTIONS.values() for field in attrs.fields(request)}
    assert not [name for name in names | set(p.ACTIONS) if any(word in name for word in ("token", "lock", "sandbox", "policy"))]


@pytest.mark.parametrize("value", ["a", "x" * 128, "", "é漢", 0, -1, 2**63 - 1, -(2**63)])
def test_an_id_is_echoed_as_it_came(value: Any) -> None:
    assert p.decode_line(encode_frame({"action": "probe", "id": value})).id == value


@pytest.mark.parametrize("value", ["x" * 129, "\ud800", 2**63, 1.0, True, [1], {}])
def test_an_id_that_cannot_be_echoed_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="id"):
        p.decode_line(encode_frame({"action": "probe", "id": value}))


@pytest.mark.parametrize("line", [b'{"id":7,"action":"nope"}', b'{"id":7,"action":"inspect_files"}', b'{"id":7}'])
def test_a_refusal_still_knows_which_request_it_answers(line: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        p.decode_line(line)
    assert p.encode_error(caught.value)["id"] == 7
    assert p.encode_error(pickle.loads(pickle.dumps(caught.value)))["id"] == 7


UNREADABLE_IDS = [
    b'{"id":7,"id":7}',
    b'{"id":7,"max_bytes":' + b"9" * 30 + b"}",
    b'{"id":7',
    b'{"id":[7]}',
    b'{"id":7,"a":NaN}',
    b"7",
]


@pytest.mark.parametrize("line", UNREADABLE_IDS)
def test_where_no_id_can_be_read_the_answer_has_none(line: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        p.decode_line(line)
    assert "id" not in p.encode_error(caught.value)
    assert " at at " not in str(caught.value)


@pytest.mark.parametrize("data", [bytes, bytearray, memoryview])
def test_a_byte_order_mark_before_a_request_is_ignored_and_nowhere_else(data: Any) -> None:
    mark, line = b"\xef\xbb\xbf", b'{"id":7,"action":"probe"}'
    assert p.decode_line(data(mark + line)) == p.decode_line(line)
    for other in (mark * 2 + line, line + mark, line[:1] + mark + line[1:], mark, mark[:2]):
        with pytest.raises(InvalidRequest):
            p.decode_line(data(other))


def test_a_policy_may_lower_the_longest_deadline() -> None:
    limits = SimpleNamespace(max_timeout_seconds=10.0)
    wire = {"action": "execute_command", "command": ["ls"], "timeout_seconds": 10}
    assert p.decode_request(wire, limits)
    for name in ("timeout_seconds", "idle_timeout_seconds"):
        with pytest.raises(InvalidRequest, match=f"{name} must be at most 10"):
            p.decode_request({**wire, name: 10.5}, limits)


def test_a_request_built_in_python_is_checked_like_one_from_the_wire() -> None:
    wrong: Any = "ls -l"
    with pytest.raises(InvalidRequest, match="list of strings"):
        p.ExecuteCommand(command=wrong)
    attrs.validators.set_disabled(True)
    try:
        with pytest.raises(InvalidRequest, match="at least 1"):
            p.InspectFiles(path="a", max_bytes=0)
    finally:
        attrs.validators.set_disabled(False)
    assert p.WriteFile(path="a", content=b"", expected_hash=SHA.upper()).expected_hash == SHA


def test_bytes_that_text_cannot_carry_need_base64_where_the_answer_depends_on_it() -> None:
    with pytest.raises(InvalidRequest, match="base64"):
        p.encode_request(p.ExecuteCommand(command=("x",), stdin=b"\xff"))
    assert p.encode_request(p.WriteFile(path="a", content=b"\xff"))["encoding"] == "base64"


@pytest.mark.fuzz
@given(request_members() | json_values())
def test_no_value_makes_decoding_raise_anything_but_invalid_request(value: Any) -> None:
    try:
        request = p.decode_request(value)
    except InvalidRequest as error:
        assert len(str(error)) < 2000
        str(error).encode()
    else:
        assert p.decode_request(p.encode_request(request)) == request


@pytest.mark.fuzz
@given(st.binary() | request_lines())
def test_no_line_makes_decoding_raise_anything_but_invalid_request(line: bytes) -> None:
    try:
        p.decode_line(line)
    except InvalidRequest as error:
        answer = p.encode_error(error)
        assert answer["error"] in ("ValueError", "JSONDecodeError")
        assert (answer["error"] == "JSONDecodeError") is isinstance(error, InvalidJson)
        assert len(encode_frame(answer)) < 10_000


def test_what_happens_at_the_cap_is_one_set_of_words_everywhere() -> None:
    words = get_args(OnOutputLimit)
    assert get_args(get_type_hints(BrokerPolicy)["on_output_limit"]) == words
    assert json_schema()["properties"]["on_output_limit"]["anyOf"][0]["enum"] == list(words)
    for word in words:
        assert p.ExecuteCommand(command=("ls",), on_output_limit=word).on_output_limit == word
