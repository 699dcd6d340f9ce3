"""A log from its first line to its close, on a path or on a descriptor."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

import pytest

from fable_exec.audit import AuditHead, AuditLog, verify_log
from fable_exec.errors import AuditUnavailable
from tests.audit.logs import lines


def test_a_new_log_is_private_and_starts_a_chain(path: Path) -> None:
    with AuditLog(path) as log:
        assert log.head == AuditHead()
        first = log.append("started", policy_digest="a" * 64)
        second = log.append("decision", allowed=True)
        assert (first and first.sequence, second and second.sequence) == (1, 2)
        assert log.head == second
    assert path.stat().st_mode & 0o777 == 0o600
    assert [line["sequence"] for line in lines(path)] == [1, 2]
    assert lines(path)[1]["previous"] == lines(path)[0]["digest"]
    assert verify_log(path).ok
    assert log.head == second


def test_the_time_is_utc_whatever_zone_the_clock_has(path: Path) -> None:
    moments = iter([datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2026, 1, 2, 3, 0, tzinfo=timezone(timedelta(hours=2)))])
    with AuditLog(path, clock=lambda: next(moments)) as log:
        log.append("x")
        log.append("x")
    assert [line["time"] for line in lines(path)] == ["2026-01-02T03:04:05.000000Z", "2026-01-02T01:00:00.000000Z"]


def test_facts_may_have_any_name(path: Path) -> None:
    with AuditLog(path) as log:
        log.append("x", kind="k", self="s", when="w", sequence=9)
    assert lines(path)[0]["facts"] == {"kind": "k", "self": "s", "when": "w", "sequence": 9}


def test_an_existing_chain_goes_on(path: Path) -> None:
    for _ in range(3):
        with AuditLog(path) as log:
            log.append("x")
    assert verify_log(path).lines == 3


@pytest.mark.skipif(sys.platform != "linux", reason="a descriptor is opened anew through /proc")
def test_a_log_on_a_descriptor_leaves_it_open(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with AuditLog(fd) as log:
            log.append("x")
        with AuditLog(fd) as log:
            log.append("x")
        os.fstat(fd)
    finally:
        os.close(fd)
    assert verify_log(path).lines == 2


def test_nothing_is_inherited_by_programs_and_nothing_stays_open(path: Path) -> None:
    before = set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()
    log = AuditLog(path)
    assert not os.get_inheritable(log._writer().fd)
    log.close()
    log.close()
    assert sys.platform != "linux" or set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(AuditUnavailable, match="closed"):
        log.append("x")
    with pytest.raises(AuditUnavailable, match="closed"):
        log.sync()


@pytest.mark.parametrize("on_failure", ["refuse", "continue"])
def test_a_line_to_a_log_that_is_closed_in_that_moment_is_unavailable(
    path: Path, on_failure: Literal["refuse", "continue"], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(path, on_failure=on_failure)
    writer = AuditLog._writer

    def closed_meanwhile(self: AuditLog) -> object:
        found = writer(self)
        self.close()
        return found

    monkeypatch.setattr(AuditLog, "_writer", closed_meanwhile)
    with pytest.raises(AuditUnavailable, match="is closed"):
        log.append("decision")
