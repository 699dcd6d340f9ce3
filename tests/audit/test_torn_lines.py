"""What a crash or somebody else did to the file: taken up where it is, named by a gap, or shown as a break."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fable_exec.audit import AuditLog, verify_log
from fable_exec.errors import AuditUnavailable
from tests.audit.logs import written


def test_a_torn_last_line_becomes_a_gap_that_names_it_wherever_it_was_torn(path: Path, tmp_path: Path) -> None:
    whole = written(path)
    last = len(b"".join(whole.splitlines(keepends=True)[:2]))
    for cut in range(last + 1, len(whole) - 1):
        torn = tmp_path / f"torn-{cut}"
        torn.touch(mode=0o600)
        torn.write_bytes(whole[:cut])
        assert not verify_log(torn).ok
        with AuditLog(torn) as log:
            log.append("after")
        report = verify_log(torn)
        assert (report.ok, report.lines, report.gaps) == (True, 4, 1)
        assert torn.read_bytes().startswith(whole[:cut])
        torn.unlink()


def test_a_first_line_that_was_torn_becomes_a_gap(path: Path) -> None:
    first = written(path, 1)
    for cut in range(1, len(first) - 1):
        path.write_bytes(first[:cut])
        with AuditLog(path) as log:
            log.append("after")
        assert (verify_log(path).ok, verify_log(path).lines, verify_log(path).gaps) == (True, 2, 1)


def test_zeros_after_a_power_cut_become_a_gap(path: Path) -> None:
    whole = written(path)
    path.write_bytes(whole + bytes(4096))
    with AuditLog(path) as log:
        log.append("after")
    assert (verify_log(path).ok, verify_log(path).gaps) == (True, 1)


def test_a_last_line_without_its_newline_is_whole_and_no_gap(path: Path) -> None:
    path.write_bytes(written(path)[:-1])
    assert not verify_log(path).ok
    with AuditLog(path) as log:
        log.append("after")
    assert (verify_log(path).ok, verify_log(path).lines, verify_log(path).gaps) == (True, 4, 0)


def test_a_gap_that_was_torn_itself_is_named_by_the_next(path: Path) -> None:
    whole = written(path)
    path.write_bytes(whole + b'{"sequence":4,"ti' + b'\n{"sequence":4,"time":"2026')
    with AuditLog(path) as log:
        log.append("after")
    assert (verify_log(path).ok, verify_log(path).lines, verify_log(path).gaps) == (True, 5, 1)


def test_a_log_cut_while_it_is_open_shows_the_break(path: Path) -> None:
    with AuditLog(path) as log:
        for _ in range(3):
            log.append("x")
        os.truncate(path, path.stat().st_size - 10)
        log.append("x")
    report = verify_log(path)
    assert (report.ok, report.lines) == (False, 2)
    assert lines_that_parse(path)[-1]["sequence"] == 4


def lines_that_parse(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def test_a_log_emptied_while_it_is_open_shows_the_break(path: Path) -> None:
    with AuditLog(path) as log:
        log.append("x")
        os.truncate(path, 0)
        log.append("x")
    assert verify_log(path).first_bad == 1


def test_a_deleted_log_takes_no_more_lines(path: Path) -> None:
    with AuditLog(path) as log:
        log.append("x")
        path.unlink()
        with pytest.raises(AuditUnavailable, match="deleted"):
            log.append("x")
