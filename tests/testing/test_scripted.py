"""The scripted runner: real decisions and real types about commands that never ran, and no claim that anything held."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from fable_exec import (
    AsyncExecutionBroker,
    Conflict,
    EndedBy,
    ExecutableDenied,
    ExecutionBroker,
    Exited,
    LaunchFailed,
    Output,
    Started,
    Survivor,
    WritesLocked,
)
from fable_exec.broker.confined import ConfinedCommands
from fable_exec.testing import Reply, ScriptedRunner, nothing_left
from fable_exec.testing.leaks import children
from fable_exec.testing.scripted import _ScriptedCommands
from tests.doors import TOKEN, policy_for


@pytest.fixture(autouse=True)
def _no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> Any:
    def refused(*_: object, **__: object) -> Any:
        raise AssertionError("a process was to be started")

    for name in ("fork", "posix_spawn", "execve"):
        monkeypatch.setattr(f"os.{name}", refused)
    before = children()
    with nothing_left():
        yield
    assert children() == before


def scripted(workspace: Path, runner: ScriptedRunner, **more: Any) -> ExecutionBroker:
    broker = ExecutionBroker(policy_for(workspace, **more), commands=runner)
    broker.unlock_writes(TOKEN)
    return broker


def test_what_is_scripted_comes_back_as_a_real_result(workspace: Path) -> None:
    runner = ScriptedRunner().when("python3", "-m", "pytest", reply=Reply(stdout="2 passed\n", stderr=b"\xff", lasts_seconds=1.5))
    runner.when("false", reply=Reply(exit_code=1)).when("sleep", reply=Reply(signal=15, survivors=(Survivor(7, "sleep"),)))
    with scripted(workspace, runner) as broker:
        result = broker.execute_command(["python3", "-m", "pytest", "-q"], stdin="in")
        assert (result.stdout, result.stderr_raw, result.exit_code, result.success) == ("2 passed\n", b"\xff", 0, True)
        assert (result.outcome, result.duration_seconds, result.policy_digest) == (EndedBy.EXITED, 1.5, broker.policy.digest)
        assert broker.execute_command(["false"]).exit_code == 1
        ended = broker.execute_command(["sleep", "9"])
        assert (ended.outcome, ended.signal, ended.exit_code) == (EndedBy.SIGNALED, 15, -15)
        assert ended.survivors == (Survivor(7, "sleep"),)
    assert [each.argv for each in runner.ran] == [("python3", "-m", "pytest", "-q"), ("false",), ("sleep", "9")]
    assert runner.ran[0].stdin == b"in"


def test_nothing_is_ever_told_as_active(workspace: Path) -> None:
    with scripted(workspace, ScriptedRunner().when(reply=Reply())) as broker:
        told = [*broker.execute_command(["true"]).confinement, *broker.probe().confinement, *broker.explain(["true"]).applied]
        assert len(told) > 20
        assert {each.state for each in told} == {"unavailable"}
        assert {each.reason for each in told} == {"scripted by a test: no process was started, and nothing held anything"}
        assert "scripted" in broker.explain(["true"]).plan


def test_the_brokers_own_rules_hold_and_what_is_refused_is_not_on_record(workspace: Path) -> None:
    runner = ScriptedRunner().when(reply=Reply(stdout="x"))
    with ExecutionBroker(policy_for(workspace), commands=runner) as broker:
        with pytest.raises(WritesLocked):
            broker.execute_command(["python3", "-c", ""])
        with pytest.raises(WritesLocked):
            broker.write_file("a", "x")
        assert broker.execute_command(["cat", "a"]).stdout == "x"
        assert runner.ran[-1].read_only
        broker.unlock_writes(TOKEN)
        with pytest.raises(ExecutableDenied):
            broker.execute_command(["nobody-allowed-this"])
        assert broker.write_file("a", "real").created
        assert (workspace / "a").read_text() == "real"
    assert [each.argv for each in runner.ran] == [("cat", "a")]


def test_caps_and_deadlines_of_the_policy_count_without_waiting(workspace: Path) -> None:
    runner = ScriptedRunner().when("cat", reply=Reply(stdout=b"abcdefghij")).when("sleep", reply=Reply(lasts_seconds=3600))
    with scripted(workspace, runner, max_output_bytes=4) as broker:
        killed = broker.execute_command(["cat"])
        assert (killed.outcome, killed.stdout_raw, killed.stdout_omitted_bytes) == (EndedBy.OUTPUT_LIMITED, b"abcd", 6)
        cut = broker.execute_command(["cat"], on_output_limit="truncate")
        assert (cut.outcome, cut.stdout_raw, cut.output_limited) == (EndedBy.EXITED, b"abij", True)
        late = broker.execute_command(["sleep", "3600"], timeout_seconds=900)
        assert (late.outcome, late.exit_code, late.duration_seconds) == (EndedBy.TIMED_OUT, None, 900)
        silent = broker.execute_command(["sleep", "3600"], timeout_seconds=900, idle_timeout_seconds=500)
        assert (silent.outcome, silent.duration_seconds) == (EndedBy.IDLE_TIMED_OUT, 500)


def test_a_reply_may_be_computed_and_may_be_that_it_never_started(workspace: Path) -> None:
    runner = ScriptedRunner().when("cat", reply=lambda ran: Reply(stdout=ran.stdin.upper()))
    runner.when("true", reply=Reply(error=LaunchFailed.at("exec", 2, "/usr/bin/true")))
    with scripted(workspace, runner) as broker:
        assert broker.execute_command(["cat"], stdin="hello").stdout == "HELLO"
        with pytest.raises(LaunchFailed):
            broker.execute_command(["true"])
        with pytest.raises(AssertionError, match=r"nothing is scripted for \['echo', 'x'\]"):
            broker.execute_command(["echo", "x"])


def test_a_started_command_tells_its_events_is_fed_and_is_cancelled(workspace: Path) -> None:
    runner = ScriptedRunner().when("cat", reply=Reply(stdout="ready\n", hangs=True)).when("echo", reply=Reply(stdout="done"))
    with scripted(workspace, runner) as broker:
        with broker.start_command(["cat"], keep_stdin_open=True) as started:
            events = iter(started.events())
            assert isinstance(next(events), Started)
            said = next(events)
            assert isinstance(said, Output) and (said.stream, said.data) == ("stdout", b"ready\n")
            started.write_stdin("more")
            started.close_stdin()
            with pytest.raises(Conflict):
                started.write_stdin("too late")
            assert started.wait(0.05) is None
            started.cancel()
            assert isinstance(next(events), Exited)
            result = started.wait()
            assert result is not None and (result.outcome, result.stdout) == (EndedBy.CANCELLED, "ready\n")
        assert runner.ran[-1].stdin == b"more"
        handle = broker.start_background(["echo"]).handle
        found = broker.read_command(handle, wait_seconds=10)
        while found.running:
            found = broker.read_command(handle, wait_seconds=10)
        assert found.result is not None and found.result.stdout == "done"


def test_one_that_hangs_is_ended_by_its_real_deadline(workspace: Path) -> None:
    with scripted(workspace, ScriptedRunner().when(reply=Reply(hangs=True))) as broker:
        result = broker.execute_command(["sleep", "1"], timeout_seconds=0.2)
    assert result.outcome is EndedBy.TIMED_OUT and result.duration_seconds >= 0.2


def test_the_asyncio_broker_is_scripted_the_same_way(workspace: Path) -> None:
    async def use() -> None:
        runner = ScriptedRunner().when("echo", reply=Reply(stdout="hi")).when("sleep", reply=Reply(hangs=True))
        async with AsyncExecutionBroker(policy_for(workspace), commands=runner) as broker:
            await broker.unlock_writes(TOKEN)
            assert (await broker.execute_command(["echo"])).stdout == "hi"
            waiting = asyncio.create_task(broker.execute_command(["sleep", "9"]))
            while len(runner.ran) < 2:
                await asyncio.sleep(0.001)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async with await broker.start_command(["sleep", "9"]) as started:
                await started.cancel()
                result = await started.wait()
                assert result is not None and result.outcome is EndedBy.CANCELLED

    asyncio.run(use())


def test_everything_that_would_start_a_process_is_replaced() -> None:
    public = {name for name, each in vars(ConfinedCommands).items() if not name.startswith("_") and inspect.isfunction(each)}
    starts_nothing = {"sentry", "close"}
    assert public - set(vars(_ScriptedCommands)) == starts_nothing
