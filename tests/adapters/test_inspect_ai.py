"""The sandbox "fable" through inspect-ai's own self check. Where inspect-ai is not installed this is skipped.

What the sandbox does is tried by test_inspect_ai_operations.py, which does not need it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.requires_ability("inspect_ai"), pytest.mark.requires_ability("confinement")]

PROGRAMS = ("bash", "sh", "python3", "ls", "rm", "rmdir", "mkdir", "touch", "chmod", "sleep", "cat", "whoami")
OUTSIDE_OR_OTHER_USERS = {
    "test_cwd_absolute",
    "test_cwd_custom",
    "test_exec_as_nonexistent_user",
    "test_exec_as_user",
    "test_read_and_write_file_including_directory_absolute",
    "test_read_file_is_directory",
    "test_write_binary_file_is_directory",
    "test_write_text_file_is_directory",
}
"""Checks that write to /tmp or start commands elsewhere, which ours may not, or that switch users."""


def test_the_self_check_passes_but_for_what_leaves_the_directory(tmp_path: Path) -> None:
    from inspect_ai.util._sandbox.self_check import self_check

    from fable_exec.adapters.inspect_ai import FableSandboxEnvironment

    policy = tmp_path / "policy.toml"
    policy.write_text(f"allowed_executables = {list(PROGRAMS)}\n")

    async def act() -> dict[str, Any]:
        environments = await FableSandboxEnvironment.sample_init("task", str(policy), {})
        try:
            said: dict[str, Any] = await self_check(environments["default"])
            return said
        finally:
            await FableSandboxEnvironment.sample_cleanup("task", str(policy), environments, False)

    failed = {name: said for name, said in asyncio.run(act()).items() if said is not True}
    assert failed.keys() <= OUTSIDE_OR_OTHER_USERS, failed
