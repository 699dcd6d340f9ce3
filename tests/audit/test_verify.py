"""Verification finds every edit, cut, reorder and duplicate that the file itself can show, and says where."""

from __future__ import annotations

import itertools
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fable_exec.audit import AuditHead, AuditLog, verify_log
from tests.fuzzing import A_TENTH

LINES = 5


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("audit") / "log"
    with AuditLog(path) as log:
        for number in range(LINES):
            log.append("decision", number=number, command=["git", "status"])
    return path.read_bytes()


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., tuple[bool, int | None]]:
    def verify(content: bytes, expected_head: str | None = None) -> tuple[bool, int | None]:
        (tmp_path / "log").write_bytes(content)
        report = verify_log(tmp_path / "log", expected_head=expected_head)
        assert report.ok == (report.reason == "") == (report.first_bad is None)
        return report.ok, report.first_bad

    return verify


def test_a_log_as_written_holds(whole: bytes, check: Callable[..., tuple[bool, int | None]]) -> None:
    assert check(whole) == (True, None)
    assert check(b"") == (True, None)


def test_any_one_byte_that_is_changed_removed_or_added_is_found(
    whole: bytes, check: Callable[..., tuple[bool, int | None]]
) -> None:
    for place in range(len(whole)):
        line = whole[:place].count(b"\n") + 1
        for edited in (
            whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :],
            whole[:place] + whole[place + 1 :],
            whole[:place] + b" " + whole[place:],
            whole[:place] + b"\n" + whole[place:],
        ):
            ok, first_bad = check(edited)
            assert not ok, (place, edited)
            assert first_bad in (line, line + 1)
    assert not check(whole + b"\n")[0]


@pytest.mark.fuzz
@settings(A_TENTH, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_splice_is_found(data: st.DataObject, whole: bytes, check: Callable[..., tuple[bool, int | None]]) -> None:
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    edited = whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:]
    cut_at_a_line = whole.startswith(edited) and (edited.endswith(b"\n") or not edited)
    assert check(edited)[0] == (edited == whole or cut_at_a_line)


def test_every_other_order_of_the_lines_is_found(whole: bytes, check: Callable[..., tuple[bool, int | None]]) -> None:
    lines = whole.splitlines(keepends=True)
    for order in itertools.permutations(range(LINES)):
        first_wrong = next((place for place, number in enumerate(order) if place != number), None)
        expected = (True, None) if first_wrong is None else (False, first_wrong + 1)
        assert check(b"".join(lines[number] for number in order)) == expected


@pytest.mark.parametrize("number", range(LINES))
def test_a_removed_or_repeated_line_is_found_where_it_is(
    number: int, whole: bytes, check: Callable[..., tuple[bool, int | None]]
) -> None:
    lines = whole.splitlines(keepends=True)
    if number < LINES - 1:
        assert check(b"".join(lines[:number] + lines[number + 1 :])) == (False, number + 1)
    assert check(b"".join(lines[: number + 1] + lines[number:])) == (False, number + 2)


def test_a_cut_tail_is_found_by_a_head_noted_elsewhere(
    whole: bytes, check: Callable[..., tuple[bool, int | None]], tmp_path: Path
) -> None:
    lines = whole.splitlines(keepends=True)
    (tmp_path / "log").write_bytes(whole)
    head = verify_log(tmp_path / "log").head.digest
    for kept in range(LINES):
        cut = b"".join(lines[:kept])
        assert check(cut) == (True, None)
        assert check(cut, head) == (False, kept + 1)
    assert check(whole, head) == (True, None)


def test_a_noted_head_stays_good_while_the_log_grows(tmp_path: Path) -> None:
    heads = [AuditHead().digest]
    with AuditLog(tmp_path / "log") as log:
        for _ in range(5):
            log.append("x")
            heads.append(log.head.digest)
            assert all(verify_log(tmp_path / "log", expected_head=head).ok for head in heads)
    assert not verify_log(tmp_path / "log", expected_head="f" * 64).ok


def test_a_log_made_anew_is_found_by_a_noted_head(tmp_path: Path) -> None:
    heads = []
    for name in ("true", "forged"):
        with AuditLog(tmp_path / name) as log:
            log.append("decision", command=[name])
            heads.append(log.head.digest)
    assert verify_log(tmp_path / "forged").ok
    assert not verify_log(tmp_path / "forged", expected_head=heads[0]).ok


@pytest.mark.parametrize("rubbish", [b"\n", b"x\n", b"\0" * 20_000, b"y" * 20_000 + b"\n", b"{}\n" * 10, b"\xff\xfe\n"])
def test_bytes_between_the_lines_are_found(rubbish: bytes, whole: bytes, check: Callable[..., tuple[bool, int | None]]) -> None:
    lines = whole.splitlines(keepends=True)
    for place in range(LINES + 1):
        assert check(b"".join(lines[:place]) + rubbish + b"".join(lines[place:])) == (False, place + 1)


def test_torn_bytes_named_by_a_gap_may_not_change_either(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with AuditLog(path) as log:
        log.append("x")
    path.write_bytes(path.read_bytes() + b'{"sequence":2,"time":"20')
    with AuditLog(path) as log:
        log.append("x")
    whole = path.read_bytes()
    assert verify_log(path).ok
    start = whole.index(b"\n") + 1
    for place in range(start, whole.index(b"\n", start) + 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert not verify_log(path).ok
        path.write_bytes(whole[:place] + whole[place + 1 :])
        assert not verify_log(path).ok


def test_what_is_not_a_readable_regular_file_is_an_os_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("gone", "fifo", ".", "link"):
        with pytest.raises(OSError):
            verify_log(tmp_path / name)


def test_a_long_log_is_verified_in_constant_memory(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / str(count)
        with AuditLog(path) as log:
            for number in range(count):
                log.append("decision", number=number, text="x" * 500)
        tracemalloc.start()
        assert verify_log(path).lines == count
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(2000) < peak(100) + 50_000


def test_lines_written_during_verification_are_no_fault(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log") as log:
        for _ in range(50):
            log.append("x")
            assert verify_log(tmp_path / "log").ok
