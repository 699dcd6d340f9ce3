"""Answers: exact in base64, honest in text, bounded in size."""

from __future__ import annotations

import hashlib
import json
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec import protocol as p
from fable_exec.errors import BrokerGone, InternalError
from fable_exec.frames import encode_frame
from fable_exec.outcome import Captured, EndedBy, Outcome, Survivor
from fable_exec.testing.strategies import json_values
from tests.protocol.examples import REQUEST_OF, RESULTS, captured, command_result

SEED_MEMBERS = {
    p.Probe: {"host", "capabilities", "available_executables", "writes_enabled", "read_locked_interpreters", "workspace"},
    p.InspectFiles: {"path", "content", "content_hash", "truncated"},
    p.WriteFile: {"path", "content_hash", "writes_enabled"},
    p.ExecuteCommand: {"command", "cwd", "exit_code", "timed_out", "output_limited", "stdout", "stderr", "success"},
}
NAMES = [f"{request.__name__}-{index}" for index, (request, _) in enumerate(RESULTS)]


def over_the_wire(result: p.Result, request: p.Request | None = None, **options: Any) -> dict[str, Any]:
    line = encode_frame(p.encode_answer(p.encode_result(result, request, **options), 1))
    answer = p.decode_answer(p.parse_answer(line))
    assert answer.id == 1 and answer.result is not None and answer.error is None
    return answer.result


@pytest.mark.parametrize(("request_type", "result"), RESULTS, ids=NAMES)
def test_every_result_survives_the_wire(request_type: type[p.Request], result: p.Result) -> None:
    request = REQUEST_OF.get(request_type)
    assert p.decode_result(request_type, over_the_wire(result, request)) == result
    assert p.decode_result(request_type, over_the_wire(result)) == result
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize(("request_type", "result"), RESULTS, ids=NAMES)
def test_members_that_old_peers_read_are_all_there(request_type: type[p.Request], result: p.Result) -> None:
    assert SEED_MEMBERS.get(request_type, set()) <= over_the_wire(result).keys()


@pytest.mark.parametrize(
    ("outcome", "exit_code", "signal", "timed_out", "output_limited", "success"),
    [
        (Outcome(ended_by=EndedBy.EXITED, exit_code=0), 0, None, False, False, True),
        (Outcome(ended_by=EndedBy.EXITED, exit_code=3), 3, None, False, False, False),
        (Outcome(ended_by=EndedBy.SIGNALED, signal=11), -11, 11, False, False, False),
        (Outcome(ended_by=EndedBy.TIMED_OUT, signal=9), None, 9, True, False, False),
        (Outcome(ended_by=EndedBy.IDLE_TIMED_OUT, exit_code=0), None, None, True, False, False),
        (Outcome(ended_by=EndedBy.OUTPUT_LIMITED, signal=9), -9, 9, False, True, False),
        (Outcome(ended_by=EndedBy.EXITED, exit_code=0, stdout=Captured(head=b"x", total_bytes=9)), 0, None, False, True, False),
        (Outcome(ended_by=EndedBy.BROKER_LOST), None, None, False, False, False),
    ],
)
def test_the_old_members_follow_from_the_outcome(
    outcome: Outcome, exit_code: int | None, signal: int | None, timed_out: bool, output_limited: bool, success: bool
) -> None:
    result = p.CommandResult.of(outcome, command=("x",), cwd=".", policy_digest="d")
    wire = over_the_wire(result)
    for source in (wire, {name: getattr(result, name) for name in wire if hasattr(result, name)}):
        assert (source["exit_code"], source["signal"]) == (exit_code, signal)
        assert (source["timed_out"], source["output_limited"], source["success"]) == (timed_out, output_limited, success)
    assert wire["outcome"] == outcome.ended_by.value


def test_text_that_is_not_utf8_says_so_and_base64_is_exact() -> None:
    result = command_result(captured_stdout=Captured(head=b"a\xffb"))
    wire = over_the_wire(result)
    assert (wire["stdout"], wire["encoding"], wire["stdout_total_bytes"]) == ("a�b", "utf-8-lossy", 3)
    seen = p.decode_result(p.ExecuteCommand, wire)
    assert (seen.stdout, seen.stdout_total_bytes, seen.stdout_omitted_bytes, seen.output_limited) == ("a�b", 3, 0, False)
    assert over_the_wire(command_result())["encoding"] == "utf-8"
    assert p.decode_result(p.ExecuteCommand, over_the_wire(result, REQUEST_OF[p.ExecuteCommand])) == result


@pytest.mark.fuzz
@given(captured, captured)
def test_a_client_sees_the_same_output_as_a_caller_in_the_process(stdout: Captured, stderr: Captured) -> None:
    result = command_result(captured_stdout=stdout, captured_stderr=stderr)
    assert p.decode_result(p.ExecuteCommand, over_the_wire(result, REQUEST_OF[p.ExecuteCommand])) == result
    seen = p.decode_result(p.ExecuteCommand, over_the_wire(result))
    for name in ("stdout", "stderr", "stdout_total_bytes", "stderr_omitted_bytes", "output_limited", "success", "timed_out"):
        assert getattr(seen, name) == getattr(result, name)


def test_a_read_that_ends_inside_a_character_leaves_it_out_of_the_text_only() -> None:
    data = "ab漢".encode()[:4]
    digest = hashlib.sha256(data).hexdigest()
    result = p.InspectResult(path="a", data=data, content_hash=digest, truncated=True, total_bytes=5)
    wire = over_the_wire(result)
    assert (wire["content"], wire["encoding"], wire["content_hash"]) == ("ab", "utf-8", digest)
    assert p.decode_result(p.InspectFiles, over_the_wire(result, REQUEST_OF[p.InspectFiles])) == result
    whole = attrs.evolve(result, truncated=False)
    assert (whole.content, over_the_wire(whole)["encoding"]) == ("ab�", "utf-8-lossy")


WORST: list[bytes] = [b"\x00", b"\xff", b"a", "漢".encode(), b'"', b"\\", "😀".encode()]


@pytest.mark.parametrize("encoding", ["utf-8", "base64"])
@pytest.mark.parametrize("filler", WORST, ids=repr)
@pytest.mark.parametrize("bound", [20_000, 70_001])
def test_no_output_makes_an_answer_exceed_its_bound(filler: bytes, bound: int, encoding: Any) -> None:
    request = p.ExecuteCommand(command=("x",), encoding=encoding)
    for stdout, stderr in ((100_000, 0), (100_000, 100_000), (50, 100_000), (3000, 3000)):
        result = command_result(
            captured_stdout=Captured(head=filler * stdout),
            captured_stderr=Captured(head=filler * stderr, tail=b"end", total_bytes=10**9),
        )
        wire = p.encode_result(result, request, max_answer_bytes=bound)
        line = encode_frame(p.encode_answer(wire, "\x01" * 128))
        assert len(line) <= bound
        assert json.loads(line)["result"] == wire
        seen = p.decode_result(request, wire)
        for before, after in (
            (result.captured_stdout, seen.captured_stdout),
            (result.captured_stderr, seen.captured_stderr),
        ):
            assert after.total_bytes == before.total_bytes
            assert after.omitted_bytes >= before.omitted_bytes
        if wire["answer_limited"]:
            assert len(line) > bound * 0.85, "more was cut than had to be"
            assert wire["output_limited"] and not wire["success"]
        if encoding == "base64" and wire["answer_limited"]:
            assert filler * 10 in seen.stdout_raw and b"end".endswith(seen.captured_stderr.tail)


def test_an_answer_that_fits_is_not_touched() -> None:
    result = command_result(captured_stdout=Captured(head=b"\x00" * 2000))
    assert not p.encode_result(result, max_answer_bytes=20_000)["answer_limited"]
    assert p.encode_result(result, max_answer_bytes=20_000) == p.encode_result(result)


def test_the_stream_that_needs_little_keeps_it_all() -> None:
    result = command_result(captured_stdout=Captured(head=b"small"), captured_stderr=Captured(head=b"x" * 100_000))
    wire = p.encode_result(result, max_answer_bytes=20_000)
    assert wire["stdout"] == "small" and wire["stdout_omitted_bytes"] == 0
    assert wire["stderr_omitted_bytes"] == 100_000 - len(wire["stderr"])


def test_content_that_is_cut_further_is_hashed_again() -> None:
    data = b"\x00" * 10_000 + b"end"
    result = p.InspectResult(path="a", data=data, content_hash="0" * 64, truncated=False, total_bytes=len(data))
    wire = p.encode_result(result, max_answer_bytes=30_000)
    assert wire["truncated"] and wire["total_bytes"] == len(data)
    content = wire["content"].encode()
    assert data.startswith(content) and wire["content_hash"] == hashlib.sha256(content).hexdigest()
    assert len(encode_frame(p.encode_answer(wire))) <= 30_000


def lists_too_long() -> list[p.Result]:
    entry = p.DirectoryEntry(name="漢" * 80, kind="file", size_bytes=1)
    match = p.SearchMatch(path="p" * 100, line=1, column=1, text="\x01" * 100)
    summary = p.CommandSummary(handle="c", command=("x" * 1000,) * 20, cwd=".", running=True, duration_seconds=1.0)
    return [
        p.ListResult(path=".", entries=(entry,) * 1000, truncated=False),
        p.SearchResult(matches=(match,) * 1000, truncated=False, files_searched=1, files_skipped=0),
        p.ListCommandsResult(commands=(summary,) * 64),
        p.StartResult(handle="c", command=("x" * 1000,) * 1000, cwd="."),
        command_result(command=("x" * 1000,) * 1000, survivors=tuple(Survivor(n, "sleep") for n in range(10_000))),
        p.ReadCommandResult(
            handle="c",
            running=False,
            stdout_data=b"\x00" * 50_000,
            stderr_data=b"\xff" * 50_000,
            result=command_result(captured_stdout=Captured(head=b"\x00" * 50_000)),
        ),
    ]


@pytest.mark.parametrize("result", lists_too_long(), ids=lambda result: type(result).__name__)
def test_no_list_makes_an_answer_exceed_its_bound(result: p.Result) -> None:
    wire = p.encode_result(result, max_answer_bytes=30_000)
    line = encode_frame(p.encode_answer(wire, "\x01" * 128))
    assert 1000 < len(line) <= 30_000
    if not isinstance(result, p.StartResult | p.CommandResult | p.ReadCommandResult):
        assert wire["truncated"] or isinstance(result, p.ListCommandsResult)


def test_polling_counts_what_the_bound_took() -> None:
    result = p.ReadCommandResult(handle="c", running=True, stdout_data=b"\x00" * 50_000, stderr_data=b"", stdout_omitted_bytes=5)
    wire = p.encode_result(result, max_answer_bytes=30_000)
    assert wire["stdout_omitted_bytes"] == 5 + 50_000 - len(wire["stdout"])


def test_a_bound_in_which_nothing_fits_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="cannot be made to fit"):
        p.encode_result(command_result(), max_answer_bytes=1100)


def test_names_that_are_not_utf8_become_replacement_characters() -> None:
    result = p.ListResult(
        path="\udcff", entries=(p.DirectoryEntry(name="a\udc80漢", kind="file", size_bytes=1),), truncated=False
    )
    wire = p.encode_result(result)
    assert (wire["path"], wire["entries"][0]["name"]) == ("�", "a�漢")
    json.dumps(wire, ensure_ascii=False).encode()


@pytest.mark.parametrize(("request_type", "result"), RESULTS, ids=NAMES)
def test_an_answer_of_the_wrong_form_is_broker_gone_and_nothing_else(request_type: type[p.Request], result: p.Result) -> None:
    wire = over_the_wire(result)
    derived = {"timed_out", "output_limited", "success", "encoding", "stdout_omitted_bytes", "stderr_omitted_bytes"}
    for name in wire:
        if name in derived:
            continue
        for wrong in (object, {"x": 1}, [[]], b"x"):
            with pytest.raises(BrokerGone):
                p.decode_result(request_type, {**wire, name: wrong})
    with pytest.raises(BrokerGone):
        p.decode_result(request_type, {"x": 1} if wire else [])  # type: ignore[arg-type]  # the point of the test


def test_members_of_a_newer_broker_are_left_alone() -> None:
    for request_type, result in RESULTS:
        assert p.decode_result(request_type, {**over_the_wire(result), "new_in_version_9": [1]}) == result


@pytest.mark.parametrize(
    "members",
    [{}, {"ok": True}, {"ok": True, "result": []}, {"ok": 1, "result": {}}, {"ok": None}, {"id": [], "ok": True, "result": {}}],
)
def test_what_is_neither_result_nor_error_is_broker_gone(members: dict[str, Any]) -> None:
    with pytest.raises(BrokerGone):
        p.decode_answer(members)


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b"\xff", b"3", b"[" * 100_000])
def test_a_line_of_the_broker_that_is_no_object_is_broker_gone(line: bytes) -> None:
    with pytest.raises(BrokerGone):
        p.parse_answer(line)


@pytest.mark.fuzz
@given(st.sampled_from(RESULTS), st.dictionaries(st.text(max_size=3), json_values(), max_size=2), json_values(), st.data())
def test_no_answer_makes_a_client_raise_anything_but_broker_gone(case: Any, extra: Any, value: Any, draw: st.DataObject) -> None:
    request_type, result = case
    wire = p.encode_result(result)
    name = draw.draw(st.sampled_from(sorted(wire)))
    for members in ({**wire, name: value, **extra}, {key: wire[key] for key in wire if key != name}, extra):
        try:
            p.decode_result(request_type, members)
        except BrokerGone:
            pass
