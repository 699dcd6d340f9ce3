"""A spawned broker from the host's side: how it starts, what happens when it dies, and that nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fable_exec import (
    AsyncBrokerClient,
    BrokerClient,
    BrokerGone,
    Denied,
    FrameTooLarge,
    LaunchFailed,
    PolicyError,
    WritesLocked,
)
from fable_exec.client.child import Child
from fable_exec.outcome import EndedBy
from tests.doors import TOKEN, opened, policy_for

CLIENTS = ["spawned", "asyncio_spawned"]


@pytest.fixture(params=CLIENTS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_a_policy_that_means_nothing_here_is_the_same_error_as_in_process(kind: str, workspace: Path) -> None:
    with pytest.raises(PolicyError, match="none of no-such-program could be found"):
        with opened(kind, policy_for(workspace, allowed_executables=("no-such-program",))) as door:
            door.probe()


def test_an_interpreter_that_cannot_be_started_says_so(workspace: Path) -> None:
    with pytest.raises(LaunchFailed):
        BrokerClient(policy_for(workspace), python="/no/such/python")
    with pytest.raises(BrokerGone, match="ended with status"):
        BrokerClient(policy_for(workspace), python="/bin/false")

    async def start() -> None:
        async with AsyncBrokerClient(policy_for(workspace), python="/bin/false"):
            pass

    with pytest.raises(BrokerGone, match="ended with status"):
        asyncio.run(start())


@pytest.mark.requires_ability("confinement")
def test_the_whole_policy_reaches_the_child_and_no_setting_of_the_host_changes_it(
    kind: str, workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FABLE_EXEC_WRITE_TOKEN_DIGEST", "0" * 64)
    monkeypatch.setenv("FABLE_BROKER_ADMIN_FILE", str(tmp_path / "nobody"))
    policy = policy_for(workspace, max_output_bytes=12345, on_output_limit="truncate")
    with opened(kind, policy, unlocked=True) as door:
        assert door.probe().policy_digest == policy.digest
        assert door.execute_command(["python3", "-c", "print('x' * 20_000)"]).stdout_total_bytes == 20_001


def test_a_client_started_in_a_workspace_runs_no_code_of_the_workspace(
    kind: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "fable_exec").mkdir()
    for name in ("fable_exec/__init__.py", "json.py", "attr.py", "sitecustomize.py"):
        (workspace / name).write_text("open('planted', 'w')\n")
    monkeypatch.chdir(workspace)
    with opened(kind, policy_for(workspace)) as door:
        assert door.probe().workspace == str(workspace)
    assert not (workspace / "planted").exists()


def test_a_request_too_long_for_the_broker_is_refused_before_it_is_sent(kind: str, workspace: Path) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door:
        with pytest.raises(FrameTooLarge, match=r"limits\.max_frame_bytes, or send content with append"):
            door.write_file("a", "x" * 2_000_000)
        assert door.write_file("a", "x" * 1_000_000).total_bytes == 1_000_000


@pytest.mark.requires_ability("confinement")
def test_a_killed_broker_is_gone_for_those_who_wait_and_those_who_come(kind: str, workspace: Path) -> None:
    with opened(kind, policy_for(workspace), unlocked=True) as door:
        door.probe()
        killer = threading.Timer(0.3, os.kill, (door.pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(BrokerGone):
            door.execute_command(["sleep", "600"])
        for refused in (door.probe, lambda: door.write_file("a", "x"), lambda: door.unlock_writes(TOKEN), door.lock_writes):
            with pytest.raises(BrokerGone):
                refused()
        killer.join()


@pytest.mark.requires_ability("confinement")
def test_a_broker_that_does_not_answer_any_more_is_killed_by_closing(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Child.wait, "__defaults__", (0.5,))
    client = BrokerClient(policy_for(workspace))
    os.kill(client.pid, signal.SIGSTOP)
    client.close()
    assert not Path(f"/proc/{client.pid}").exists()


@pytest.mark.requires_ability("confinement")
def test_closing_while_others_wait_ends_their_commands(workspace: Path) -> None:
    client = BrokerClient(policy_for(workspace))
    ended: list[Any] = []

    def wait() -> None:
        try:
            ended.append(client.execute_command(["sleep", "600"]).outcome)
        except BrokerGone:
            ended.append("gone")

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    while len(client._conversation.waiting) < 5:
        time.sleep(0.01)
    client.close()
    for thread in threads:
        thread.join(30)
    assert len(ended) == 5
    assert set(ended) <= {EndedBy.CANCELLED, EndedBy.BROKER_LOST, "gone"}


@pytest.mark.requires_ability("confinement")
def test_an_interrupt_ends_the_command_before_it_goes_on(workspace: Path) -> None:
    with BrokerClient(policy_for(workspace)) as client:
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(0.4, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            client.execute_command(["sleep", "600"])
        timer.join()
        assert client._conversation.waiting == []
        assert client.execute_command(["echo", "on"]).stdout == "on\n"


@pytest.mark.requires_ability("confinement")
def test_a_cancelled_task_ends_its_command_first(workspace: Path) -> None:
    async def cancel() -> None:
        async with AsyncBrokerClient(policy_for(workspace)) as client:
            task = asyncio.create_task(client.execute_command(["sleep", "600"]))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client._link is not None
            assert client._link._conversation.waiting == []
            assert (await client.execute_command(["echo", "on"])).stdout == "on\n"

    asyncio.run(cancel())


def test_a_task_cancelled_while_the_broker_starts_leaves_none(workspace: Path) -> None:
    async def cancel(after: float) -> None:
        task = asyncio.create_task(AsyncBrokerClient(policy_for(workspace)).start())
        await asyncio.sleep(after)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for after in (0, 0.001, 0.02, 0.1):
        asyncio.run(cancel(after))


@pytest.mark.requires_ability("confinement")
def test_one_slow_caller_does_not_hold_up_the_others(workspace: Path) -> None:
    with BrokerClient(policy_for(workspace)) as client:
        client.unlock_writes(TOKEN)
        script = "echo > begun; until test -e go; do sleep 0.01; done"
        slow = threading.Thread(target=client.execute_command, args=(["bash", "-c", script],))
        slow.start()
        while not (workspace / "begun").exists():
            time.sleep(0.01)
        for _ in range(20):
            client.probe()
        assert slow.is_alive()
        (workspace / "go").touch()
        slow.join()


@pytest.mark.requires_ability("confinement")
def test_a_listener_that_is_busy_does_not_keep_others_from_their_answers(workspace: Path) -> None:
    with BrokerClient(policy_for(workspace)) as client:
        busy, go_on = threading.Event(), threading.Event()

        def listen(event: Any) -> None:
            busy.set()
            go_on.wait(20)

        thread = threading.Thread(target=client.execute_command, args=(["echo", "x"],), kwargs={"on_event": listen})
        thread.start()
        assert busy.wait(20)
        assert client.execute_command(["echo", "y"]).stdout == "y\n"
        go_on.set()
        thread.join(20)


def test_large_requests_and_large_answers_pass_each_other(kind: str, workspace: Path) -> None:
    with opened(kind, policy_for(workspace, max_output_bytes=2_000_000), unlocked=True) as door:
        content = "x" * 900_000
        if kind == "asyncio_spawned":
            for number in range(4):
                door.write_file(f"f{number}", content)
                assert door.inspect_files(f"f{number}").content == content
            return
        errors: list[BaseException] = []

        def work(name: str) -> None:
            try:
                for _ in range(4):
                    door.inner.write_file(name, content)
                    assert door.inner.inspect_files(name).content == content
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(f"f{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []


def test_the_back_off_reaches_the_caller(kind: str, workspace: Path) -> None:
    with opened(kind, policy_for(workspace)) as door:
        for _ in range(5):
            with pytest.raises(Denied):
                door.unlock_writes("wrong")
        with pytest.raises(WritesLocked, match="too many wrong tokens"):
            door.unlock_writes(TOKEN)


def test_a_client_that_is_never_used_leaves_nothing(workspace: Path) -> None:
    async def unused() -> None:
        client = AsyncBrokerClient(policy_for(workspace))
        await client.close()
        with pytest.raises(BrokerGone):
            await client.probe()

    asyncio.run(unused())
    BrokerClient(policy_for(workspace)).close()


FROZEN = """
import os, sys
sys.frozen, python, sys.executable = True, sys.executable, sys.argv[2]
from pathlib import Path
from fable_exec import BrokerClient, Confinement, ExecutionBroker, LaunchFailed
from tests.doors import policy_for
kinds = ({}, {"confinement": Confinement.off()})
policies = [policy_for(Path(sys.argv[1]), allowed_executables=("true",), **more) for more in kinds]
for start in (*((lambda p=p: ExecutionBroker(p).execute_command(["true"])) for p in policies), lambda: BrokerClient(policies[0])):
    try:
        start()
    except LaunchFailed as error:
        print(error.stage, "is frozen" in str(error))
with BrokerClient(policies[0], python=python) as door:
    print(door.execute_command(["true"]).success)
"""


@pytest.mark.requires_ability("confinement")
def test_a_frozen_application_is_not_started_again_in_place_of_the_launcher_program(workspace: Path, tmp_path: Path) -> None:
    """Its sys.executable is the application: each of them would start the next one."""
    application = tmp_path / "application"
    application.write_text(f"#!/bin/sh\necho started >> {tmp_path}/started\n")
    application.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FROZEN, str(workspace), str(application)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [*["interpreter True"] * 3, "True"], done.stderr[-2000:]
    assert not (tmp_path / "started").exists()


NO_ROOM = """
import os, resource, sys
from pathlib import Path
from fable_exec import BrokerClient, FableExecError
from tests.doors import policy_for
stages = set()
policy = policy_for(Path(sys.argv[1]), allowed_executables=("true",))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
before = sorted(os.listdir("/proc/self/fd"))
for more in range(12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + more, hard))
    try:
        BrokerClient(policy).close()
    except FableExecError as error:  # the broker inherits the limit, and may be what finds no room
        stages.add(getattr(error, "stage", ""))
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print("server" in stages, sorted(os.listdir("/proc/self/fd")) == before)
"""


@pytest.mark.requires_ability("linux")
def test_a_host_without_room_for_a_broker_is_told_so_and_loses_nothing(workspace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NO_ROOM, str(workspace)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "True True\n", done.stderr[-2000:]
