"""The programs behind `make test` and `make test-all` do what the Makefile counts on."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import abilities
from tests.boxes import Finished
from tools import test_all, test_with

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = str(PROJECT / "tools" / "as_ordinary_user.py")
Box = Callable[..., Finished]


@pytest.mark.requires_ability("root")
def test_the_ordinary_user_has_nobodys_id_a_private_home_and_its_own_copy_of_the_tree() -> None:
    script = 'id -u; id -G; umask; stat -c "%a %u" "$HOME"; pwd; echo "$HOME"; ls Makefile; touch tests/new && cat /etc/shadow'
    finished = subprocess.run([sys.executable, PROGRAM, "--", "sh", "-c", script], capture_output=True, text=True)
    _, uid, groups, umask, home_state, tree, home, makefile = finished.stdout.splitlines()
    assert 20_000 <= int(uid) < 60_000
    assert (groups, umask, home_state, makefile) == (uid, "0022", f"700 {uid}", "Makefile")
    assert tree == f"{home}/tree"
    assert "Permission denied" in finished.stderr
    assert finished.returncode == 1
    assert not Path(home).exists()
    assert not (PROJECT / "tests" / "new").exists()


@pytest.mark.requires_ability("root")
def test_a_process_that_the_ordinary_user_leaves_is_ended_and_fails_the_run(pid_box: Box) -> None:
    marker = f"left-{uuid.uuid4().hex}"
    script = f"setsid sh -c 'exec sleep 300 #{marker}' >/dev/null 2>&1 </dev/null & exit 0"
    finished = pid_box([sys.executable, PROGRAM, "--", "sh", "-c", script], timeout=30)
    assert finished.returncode == 1, finished
    assert "left running by the ordinary user's run: pid" in finished.stderr


def test_the_ordinary_users_program_refuses_to_run_without_a_command() -> None:
    assert subprocess.run([sys.executable, PROGRAM], capture_output=True).returncode == 2


@pytest.mark.requires_ability("confinement")
def test_on_a_kernel_without_landlock_what_needs_it_is_skipped_with_the_reason() -> None:
    program = str(PROJECT / "tools" / "without_landlock.py")
    argv = [sys.executable, program, "--", sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    finished = subprocess.run(
        [*argv, "tests/broker/test_long_commands.py"],
        cwd=PROJECT, env={**os.environ, "FABLE_EXEC_REQUIRE_ABILITIES": "auto"}, capture_output=True, text=True,
    )  # fmt: skip
    assert "for want of the kernel ability confinement: landlock: Function not implemented" in finished.stdout
    assert "passed" not in finished.stdout and "failed" not in finished.stdout
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert subprocess.run([sys.executable, program], capture_output=True).returncode == 2


@pytest.mark.parametrize(("profile", "examples"), [("quick", "100 30"), ("deep", "100000 10000")])
def test_slow_properties_get_a_tenth_of_the_examples_of_the_deep_profile(profile: str, examples: str) -> None:
    program = """
import tests.conftest
from hypothesis import settings
from tests.fuzzing import A_TENTH
print(settings.default.max_examples, A_TENTH.max_examples)
"""
    environment = {**os.environ, "HYPOTHESIS_PROFILE": profile, "PYTHONPATH": str(PROJECT)}
    finished = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == examples


def test_the_running_interpreters_version_is_among_those_found() -> None:
    found = test_all.interpreters()
    assert sys.version_info[:2] in found
    assert all(minor >= (3, 11) for minor in found)


def test_the_adapters_that_are_tried_are_the_extras_that_have_a_module() -> None:
    found = test_with.adapters(_project())
    assert "mcp" in found and "cli" not in found
    assert found["deepagents"].groups == ["suite-deepagents"]
    assert all(each.files for each in found.values())


def test_every_verifier_has_tests_that_are_skipped_without_it() -> None:
    found = test_with.verifiers(_project())
    assert PROJECT / "tests" / "attest" / "test_verifiers.py" in found["sigstore"].files
    for name, each in found.items():
        assert each.files, name
        assert name.replace("-", "_") in abilities.SITUATION


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to try: adapters or verifiers"),
        (["mcp"], "say what to try: adapters or verifiers"),
        (["--", "adapters"], "say what to try: adapters or verifiers"),
        (["adapters", "mcp", "no-such", "--", "-q"], "there is none of adapters called no-such; there are mcp"),
        (["verifiers", "mcp"], "there is none of verifiers called mcp; there are in-toto"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_is_installed(
    arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert test_with.main(arguments) == 2
    assert said in capfd.readouterr().err


def _project() -> dict[str, Any]:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())
