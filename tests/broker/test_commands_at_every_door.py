"""Commands, asked of every door: which run, where, with what, and how their end is told."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fable_exec import (
    Denied,
    EnvironmentPolicy,
    ExecutableDenied,
    InvalidRequest,
    LaunchFailed,
    PathDenied,
    PathNotDirectory,
    PathNotFound,
)
from fable_exec.outcome import EndedBy
from tests.doors import DOORS, opened, policy_for

SECRET_BYTES = bytes(range(256)) + "ä€😀".encode()


@pytest.mark.requires_ability("confinement")
def test_a_command_says_what_ran_where_and_how_it_ended(door: Any, workspace: Path) -> None:
    door.make_directory("sub")
    result = door.execute_command(["bash", "-c", "pwd; echo oops >&2; exit 3"], "sub", 20)
    assert (result.exit_code, result.signal, result.outcome, result.success) == (3, None, EndedBy.EXITED, False)
    assert (result.stdout, result.stderr, result.cwd) == (f"{workspace}/sub\n", "oops\n", "sub")
    assert result.command[0] == os.path.realpath(result.command[0])
    assert result.command[1:] == ("-c", "pwd; echo oops >&2; exit 3")
    assert (result.survivors, result.policy_digest) == ((), door.policy.digest)


@pytest.mark.parametrize("kind", sorted(DOORS))
def test_a_listed_program_that_was_not_found_is_not_told_as_unlisted(kind: str, workspace: Path, monkeypatch: Any) -> None:
    tool = workspace / "bin/tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    policy = policy_for(workspace, allowed_executables=("true", "tool", "gone"), environment=EnvironmentPolicy())
    told = {
        "gone": "executable 'gone' is on the allow-list, but it was not found in PATH when the broker started",
        "tool": f"executable 'tool' is on the allow-list, but it was not found in PATH when the broker started ({tool} is passed",
        "cat": "executable 'cat' is not on the allow-list",
    }
    with opened(kind, policy) as door:
        for name, text in told.items():
            with pytest.raises(ExecutableDenied) as caught:
                door.execute_command([name])
            assert str(caught.value).startswith(text)
            if hasattr(door.inner, "explain"):
                found = door.explain([name])
                assert (found.message, found.rule) == (str(caught.value), "not-listed" if name == "cat" else "not-found")


UNLISTED = {
    "cat": "'cat' is not on the allow-list, which has true, python3",
    "./tool": "python3; a program is named without a path, and a script of the workspace is run by its interpreter",
    "cat x | sh": "is not on the allow-list; no shell reads it",
}


@pytest.mark.parametrize("kind", sorted(DOORS))
def test_who_asks_for_what_is_not_listed_is_told_what_is(kind: str, workspace: Path) -> None:
    with opened(kind, policy_for(workspace, allowed_executables=("true", "/usr/bin/python3"))) as door:
        for name, told in UNLISTED.items():
            with pytest.raises(ExecutableDenied) as caught:
                door.execute_command([name])
            assert told in str(caught.value)


@pytest.mark.requires_ability("confinement")
def test_output_is_exact_whatever_the_bytes(door: Any) -> None:
    program = "import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stderr.buffer.write(b'\\xff\\xfe')"
    result = door.execute_command(["python3", "-c", program])
    assert (result.stdout_raw, result.stderr_raw) == (bytes(range(256)), b"\xff\xfe")
    assert (result.stdout_total_bytes, result.stdout_omitted_bytes) == (256, 0)


@pytest.mark.requires_ability("confinement")
def test_input_reaches_the_command_and_no_input_is_the_null_device(door: Any) -> None:
    assert door.execute_command(["cat"], stdin=SECRET_BYTES).stdout_raw == SECRET_BYTES
    assert door.execute_command(["cat"]).stdout_raw == b""


@pytest.mark.requires_ability("confinement")
def test_a_signal_is_reported_as_it_was(door: Any) -> None:
    result = door.execute_command(["bash", "-c", "kill -TERM $$"])
    assert (result.exit_code, result.signal, result.outcome) == (-signal.SIGTERM, signal.SIGTERM, EndedBy.SIGNALED)


@pytest.mark.requires_ability("confinement")
def test_a_deadline_ends_the_whole_tree_and_keeps_the_output(door: Any) -> None:
    result = door.execute_command(["bash", "-c", "echo partial; setsid sleep 600 & wait"], timeout_seconds=1.0)
    assert (result.exit_code, result.outcome, result.timed_out) == (None, EndedBy.TIMED_OUT, True)
    assert result.stdout == "partial\n"


@pytest.mark.requires_ability("confinement")
def test_silence_has_a_deadline_of_its_own(door: Any) -> None:
    result = door.execute_command(["bash", "-c", "echo x; sleep 60"], timeout_seconds=60, idle_timeout_seconds=1.0)
    assert (result.outcome, result.stdout) == (EndedBy.IDLE_TIMED_OUT, "x\n")


@pytest.mark.requires_ability("confinement")
def test_a_command_that_leaves_a_child_is_reported_with_it(door: Any) -> None:
    result = door.execute_command(["bash", "-c", "sleep 600 & echo done"])
    assert (result.stdout, result.outcome) == ("done\n", EndedBy.EXITED)
    assert [survivor.name in ("sleep", "bash") for survivor in result.survivors] == [True]  # bash until it has executed sleep


NO_DEADLINES = [(0, None), (-1, None), (3601, None), (float("nan"), None), (float("inf"), None), (1, 0), (True, None)]


def test_a_deadline_is_a_finite_number_of_seconds_within_the_policy(door: Any) -> None:
    for timeout, idle in NO_DEADLINES:
        with pytest.raises(InvalidRequest):
            door.execute_command(["true"], timeout_seconds=timeout, idle_timeout_seconds=idle)


NO_COMMANDS: list[Any] = [[], [""], ["true\0"], ["true", "a\0b"], "true", ["true", 1], ["\ud800"], None]


def test_a_command_is_a_list_of_texts_that_names_a_program(door: Any) -> None:
    for command in NO_COMMANDS:
        with pytest.raises(InvalidRequest):
            door.execute_command(command)


@pytest.mark.requires_ability("confinement")
def test_empty_arguments_are_arguments(door: Any) -> None:
    assert door.execute_command(["python3", "-c", "import sys; print(sys.argv[1:])", "", "x"]).stdout == "['', 'x']\n"


def test_only_the_listed_files_run(door: Any, workspace: Path) -> None:
    (workspace / "true").write_text("#!/bin/sh\necho planted\n")
    (workspace / "true").chmod(0o755)
    for name in ("ls", "./true", "bin/true", "../true", "/bin/nothing/true", "/tmp/true", "true/"):
        with pytest.raises(ExecutableDenied):
            door.execute_command([name])


@pytest.mark.requires_ability("confinement")
def test_the_registered_file_may_be_named_by_its_absolute_path(door: Any) -> None:
    path = door.execute_command(["true"]).command[0]
    assert door.execute_command([path]).success


NO_DIRECTORIES = {"nothing": PathNotFound, "file": PathNotDirectory, "link": PathDenied, "..": PathDenied, "/": PathDenied}


@pytest.mark.requires_ability("confinement")
def test_the_directory_of_a_command_is_checked_like_any_path(door: Any, workspace: Path) -> None:
    (workspace / "file").touch()
    (workspace / "link").symlink_to("/")
    for cwd, kind in NO_DIRECTORIES.items():
        with pytest.raises(kind):
            door.execute_command(["true"], cwd)


@pytest.mark.requires_ability("confinement")
def test_variables_of_a_request_are_refused_unless_the_policy_names_them(door: Any) -> None:
    for name in ("FOO", "LD_PRELOAD", "PATH", "HOME"):
        with pytest.raises(Denied, match=name):
            door.execute_command(["true"], env={name: "x"})
    assert door.execute_command(["true"], env={}).success


@pytest.mark.requires_ability("confinement")
def test_output_beyond_the_cap_ends_the_command_or_keeps_head_and_tail(door: Any) -> None:
    million = ["python3", "-c", "print('a' * 999_999)"]
    exactly = door.execute_command(million)
    assert (exactly.output_limited, len(exactly.stdout_raw)) == (False, 1_000_000)
    beyond = ["python3", "-c", "import sys; sys.stdout.write('h' * 600_000 + 't' * 600_000)"]
    killed = door.execute_command(beyond)
    assert (killed.outcome, killed.output_limited, killed.success) == (EndedBy.OUTPUT_LIMITED, True, False)
    assert killed.stdout_raw == b"h" * 600_000 + b"t" * 400_000
    kept = door.execute_command(beyond, on_output_limit="truncate")
    assert (kept.outcome, kept.exit_code, kept.output_limited) == (EndedBy.EXITED, 0, True)
    assert kept.stdout_raw == b"h" * 500_000 + b"t" * 500_000
    assert (kept.stdout_total_bytes, kept.stdout_omitted_bytes) == (1_200_000, 200_000)


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("kind", DOORS)
@pytest.mark.parametrize(
    ("first_line", "words"),
    [("echo hello", "for want of a #! line"), ("#!/no/such/one", "the interpreter '/no/such/one', which is not there")],
)
def test_a_script_that_cannot_be_started_is_told_what_its_first_line_lacks(
    kind: str, first_line: str, words: str, workspace: Path
) -> None:
    script = workspace / "script"
    script.write_text(f"{first_line}\n")
    script.chmod(0o755)
    with opened(kind, policy_for(workspace, allowed_executables=(str(script),)), unlocked=True) as door:
        with pytest.raises(LaunchFailed) as caught:
            door.execute_command(["script"])
    assert str(caught.value).startswith(f"{script}: cannot be started: ") and words in str(caught.value)
