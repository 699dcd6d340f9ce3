"""The sandbox "fable" by inspect-ai's own self check, each row a test, and what a caller of its methods is told.

Where inspect-ai is not installed this is skipped. Whole evaluations are in test_inspect_ai_evals.py; what the sandbox does is
tried by the other files of its name, which do not need inspect-ai.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import InvalidRequest
from tests import abilities
from tests.adapters.inspect_samples import sample_names
from tests.cli.typed import is_running
from tests.waiting import until

pytestmark = [
    pytest.mark.requires_ability("inspect_ai"),
    pytest.mark.requires_ability("confinement", "own_proc"),
]

ADDS_A_USER = "test_exec_as_user"
"""The one row that fails: it adds a user to the system as root, and runs commands as that one."""


def rows() -> list[str]:
    if abilities.missing("inspect_ai"):
        return ["the self check"]
    from inspect_ai.util._sandbox import self_check

    return list(self_check.__all__)


def within(body: Callable[[Any], Awaitable[Any]], config: Any = None) -> Any:
    from fable_exec.adapters.inspect_ai import FableSandboxEnvironment

    async def act() -> Any:
        environments = await FableSandboxEnvironment.sample_init("task", config, {})
        try:
            return await body(environments["default"])
        finally:
            await FableSandboxEnvironment.sample_cleanup("task", config, environments, False)

    return asyncio.run(act())


@pytest.mark.parametrize("row", rows())
def test_the_self_check(row: str) -> None:
    from inspect_ai.util import SandboxUserUnsupportedError
    from inspect_ai.util._sandbox import self_check

    check = getattr(self_check, row)
    if row != ADDS_A_USER:
        within(check)
        return
    with pytest.raises((AssertionError, SandboxUserUnsupportedError)):
        within(check)


def test_the_self_check_is_as_long_as_it_was() -> None:
    assert len(rows()) >= 44
    assert ADDS_A_USER in rows()


def test_the_evaluations_own_user_may_be_asked_for_and_no_other() -> None:
    from inspect_ai.util import SandboxUserUnsupportedError

    async def body(sandbox: Any) -> None:
        for user in (str(os.geteuid()), *(user.pw_name for user in pwd.getpwall() if user.pw_uid == os.geteuid())):
            assert (await sandbox.exec(["id", "-u"], user=user)).stdout == f"{os.geteuid()}\n"
        for other in ("no-such-user-here", "65533"):
            with pytest.raises(SandboxUserUnsupportedError, match=other):
                await sandbox.exec(["id", "-u"], user=other)

    within(body)


def test_partial_output_is_kept_at_a_timeout_and_at_both_limits(tmp_path: Path) -> None:
    from inspect_ai.util import OutputLimitExceededError
    from inspect_ai.util._sandbox.limits import override_max_exec_output_size

    async def body(sandbox: Any) -> None:
        with pytest.raises(TimeoutError) as late:
            await sandbox.exec(["sh", "-c", "echo out; echo err >&2; sleep 60"], timeout=1)
        assert getattr(late.value, "truncated_output", "") == "out\nerr\n"
        with override_max_exec_output_size(1024), pytest.raises(OutputLimitExceededError) as theirs:
            await sandbox.exec(["sh", "-c", "yes"])
        assert (theirs.value.limit_str, theirs.value.truncated_output) == ("1 KiB", "y\n" * 512)
        with pytest.raises(OutputLimitExceededError) as ours:
            await sandbox.exec(["sh", "-c", "yes"])
        assert (ours.value.limit_str, ours.value.truncated_output) == ("3000 bytes", "y\n" * 1500)
        await sandbox.write_file("large", b"x" * 3001)
        with pytest.raises(OutputLimitExceededError, match="3000 bytes"):
            await sandbox.read_file("large")

    (tmp_path / "policy.toml").write_text("max_output_bytes = 3000\n")
    within(body, str(tmp_path / "policy.toml"))


def test_output_that_is_no_text_is_shown_as_far_as_it_is() -> None:
    async def body(sandbox: Any) -> None:
        done = await sandbox.exec(["printf", r"gr\303\274n \377 end"])
        assert done.stdout == "grün \ufffd end"
        await sandbox.write_file("no-text", b"\xc3\x28\r\n")
        assert await sandbox.read_file("no-text", text=False) == b"\xc3\x28\r\n"
        with pytest.raises(UnicodeDecodeError):
            await sandbox.read_file("no-text")

    within(body)


def test_a_sandbox_that_is_gone_is_unavailable_and_no_failed_command() -> None:
    from inspect_ai.util import SandboxUnavailableError

    marker = f"7{time.time_ns() % 10**9}"

    async def body(sandbox: Any) -> None:
        running = asyncio.ensure_future(sandbox.exec(["sh", "-c", f"sleep {marker} & sleep {marker}"]))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        await sandbox._operations.close()
        with pytest.raises(SandboxUnavailableError):
            await running
        for call in (sandbox.exec(["sh", "-c", "true"]), sandbox.write_file("a", "b"), sandbox.read_file("a")):
            with pytest.raises(SandboxUnavailableError):
                await call

    within(body)


def test_a_task_is_refused_before_its_first_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fable_exec.adapters.inspect_ai import FableSandboxEnvironment
    from fable_exec.errors import PolicyError

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "policy.toml").write_text("colour = 1\n")
    with pytest.raises(PolicyError, match="colour"):
        asyncio.run(FableSandboxEnvironment.task_init("startup", str(tmp_path / "policy.toml")))
    with pytest.raises(InvalidRequest, match="path of a policy"):
        asyncio.run(FableSandboxEnvironment.task_init("startup", object()))
    with pytest.raises(InvalidRequest, match="asyncio"):
        FableSandboxEnvironment.task_init("startup", None).send(None)  # as in a loop that is not asyncio's
    asyncio.run(FableSandboxEnvironment.task_init("startup", None))
    assert sample_names(tmp_path) == []


def test_commands_run_where_inspect_ai_has_moved_its_bound_on_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(sandbox: Any) -> None:
        assert (await sandbox.exec(["sh", "-c", "echo done"])).stdout == "done\n"

    monkeypatch.setitem(sys.modules, "inspect_ai.util._subprocess", None)
    within(body)


def test_many_samples_have_descriptors_enough() -> None:
    from fable_exec.adapters.inspect_ai import FableSandboxEnvironment

    program = "ulimit -n 320; exec \"$0\" -c '{}'".format(
        "from fable_exec.adapters.inspect_ai import FableSandboxEnvironment as F; print(F.default_concurrency())"
    )
    told = subprocess.run(["bash", "-c", program, sys.executable], capture_output=True, text=True, check=True).stdout
    assert told == "10\n"
    assert FableSandboxEnvironment.config_files() == ["fable.toml", "fable.json"]
    assert not FableSandboxEnvironment.is_docker_compatible()


def test_the_framework_is_loaded_by_its_own_adapter_alone() -> None:
    program = (
        "import sys, fable_exec, fable_exec.adapters, fable_exec.adapters.inspect_ai_operations;"
        "print([name for name in sys.modules if name.startswith(('inspect_ai', 'anyio', 'pydantic'))])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
