"""The pytest plugin in runs of its own: its fixtures, its leak check, and what it costs whoever does not use it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fable_exec import ExecutionBroker, WritesLocked
from fable_exec.audit import AuditLog, verify_log
from fable_exec.testing import FakeClock
from tests.doors import TOKEN, policy_for

PROJECT = Path(__file__).resolve().parents[2]

EMBEDDERS_TESTS = """
import os, threading, pytest
from fable_exec import BrokerPolicy, ExecutionBroker, WritesLocked
from fable_exec.testing import BrokerConformance

def test_the_broker_works(fable_broker, fable_workspace):
    assert fable_broker.write_file("a", "x").created
    assert (fable_workspace / "a").read_text() == "x"

@pytest.fixture
def another(fable_policy):
    return fable_policy

class TestWithAPolicyOfItsOwn:
    @pytest.fixture
    def fable_policy(self, fable_workspace):
        return BrokerPolicy(workspace=fable_workspace, allowed_executables=("true",), write_token_digest="0" * 64)

    def test_it_stays_locked(self, fable_broker):
        with pytest.raises(WritesLocked):
            fable_broker.write_file("a", "x")

    def test_that_leaves_nothing_whatever_the_order(self, fable_broker, fable_leak_check):
        assert fable_broker.execute_command(["true"]).success

@pytest.mark.usefixtures("fable_leak_check")
def test_that_leaves_nothing(fable_broker):
    fable_broker.write_file("a", "x")

@pytest.mark.usefixtures("fable_leak_check")
def test_that_leaves_a_descriptor():
    os.open("/", os.O_RDONLY)

@pytest.fixture
def opened_before():
    yield (number := os.open("/", os.O_RDONLY))
    os.close(number)

def test_that_leaves_another_of_the_same_number(opened_before, fable_leak_check):
    os.close(opened_before)
    assert os.open("/usr", os.O_RDONLY) == opened_before

@pytest.mark.usefixtures("fable_leak_check")
def test_that_leaves_a_child():
    if os.fork() == 0:
        os.execlp("sleep", "sleep", "3")

class Wrong(ExecutionBroker):
    def append(self, path, content, *, expected_hash=None):
        return super().append(path, content + b"!", expected_hash=expected_hash)

class TestWrong(BrokerConformance):
    def make_broker(self, policy):
        return Wrong(policy)
"""


def run(directory: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    pytest_alone = [sys.executable, "-m", "pytest", "-p", "fable_exec.testing.plugin", "-p", "no:cacheprovider", "-q"]
    command = [*pytest_alone, "-W", "error", "-rA", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=100).stdout


@pytest.mark.requires_ability("confinement")
def test_the_fixtures_work_and_the_leak_check_finds_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(EMBEDDERS_TESTS)
    told = run(tmp_path, "-k", "not Wrong or replaced_whole")
    results = {line.split("::", 1)[1].split(" ")[0]: line.split(" ")[0] for line in told.splitlines() if "test_mine.py::" in line}
    assert results == {
        "test_the_broker_works": "PASSED",
        "TestWithAPolicyOfItsOwn::test_it_stays_locked": "PASSED",
        "test_that_leaves_nothing": "PASSED",
        "TestWithAPolicyOfItsOwn::test_that_leaves_nothing_whatever_the_order": "PASSED",
        "test_that_leaves_a_descriptor": "ERROR",
        "test_that_leaves_another_of_the_same_number": "ERROR",
        "test_that_leaves_a_child": "ERROR",
        "TestWrong::test_a_file_is_replaced_whole_and_appended_to_at_its_end": "FAILED",
    }, told
    assert "assert 8 == 7" in told, "a check that fails shows both sides"


def test_who_does_not_use_it_loads_nothing_of_it() -> None:
    program = "import json, sys, fable_exec.testing.plugin; print(json.dumps([m for m in sys.modules if 'fable_exec' in m]))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    ours = ["fable_exec", "fable_exec.errors", "fable_exec.lazynames", "fable_exec.testing", "fable_exec.testing.plugin"]
    assert sorted(json.loads(told)) == ours


@pytest.mark.parametrize("missing", ["hypothesis", "pytest"])
def test_without_its_extra_it_says_which_extra_that_is(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from fable_exec.testing import BrokerConformance"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert told.returncode == 1
    assert (
        f"fable_exec.errors.ExtraMissing: this needs {missing}, which is not installed: pip install '.[testing]'" in told.stderr
    )


def test_it_is_an_entry_point_of_the_distribution() -> None:
    [found] = [each for each in importlib.metadata.entry_points(group="pytest11") if each.value == "fable_exec.testing.plugin"]
    assert found.name == "fable_exec"


def test_a_name_that_is_not_there_is_told_and_every_name_is() -> None:
    import fable_exec.testing as testing

    assert [name for name in testing.__all__ if not hasattr(testing, name)] == []
    assert set(testing.__all__) <= set(dir(testing))
    modules = {path.stem for path in Path(testing.__path__[0]).iterdir()}
    assert modules & set(testing.__all__) == {"strategies"}, "a module that is imported takes the place of a name"
    with pytest.raises(AttributeError, match="no attribute 'nobody'"):
        _ = testing.nobody  # type: ignore[attr-defined]  # which type checkers see too


def test_the_clock_moves_when_it_is_told_to(workspace: Path, tmp_path: Path) -> None:
    clock = FakeClock(utc=datetime(2031, 5, 4, tzinfo=UTC))
    with ExecutionBroker(policy_for(workspace), clock=clock) as broker:
        broker.unlock_writes(TOKEN, expires_in_seconds=600)
        clock.advance(599)
        assert broker.write_file("a", "x").created
        clock.advance(1)
        with pytest.raises(WritesLocked):
            broker.write_file("b", "x")
    with AuditLog(tmp_path / "log", clock=clock.utc) as log:
        log.append("note")
    assert verify_log(tmp_path / "log").ok
    assert "2031-05-04T00:10:00" in (tmp_path / "log").read_text()
    with pytest.raises(ValueError, match="forwards"):
        clock.advance(-1)
