"""`fable-exec run`: what comes out, and the exit status of every ending."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.typed import PROGRAM, environment, is_running, the_object, typed, typed_here
from tests.hosts import unique_sleep
from tests.waiting import until


def run(workspace: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return typed_here("run", "--workspace", str(workspace), *arguments, **options)  # type: ignore[arg-type]  # passed on as given


def run_by_itself(workspace: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    """In a process of its own, which is slower: for what has to do with streams, signals and time."""
    return typed("run", "--workspace", str(workspace), *arguments, **options)  # type: ignore[arg-type]  # passed on as given


ENDINGS: dict[str, tuple[list[str], int]] = {
    "success": (["--", "true"], 0),
    "the command's own status": (["--", "false"], 1),
    "any status": (["--unlocked", "--", "sh", "-c", "exit 77"], 77),
    "a status of ours that the command chose": (["--unlocked", "--", "sh", "-c", "exit 125"], 125),
    "a signal": (["--unlocked", "--", "sh", "-c", "kill -9 $$"], 137),
    "another signal": (["--unlocked", "--", "sh", "-c", "kill -15 $$"], 143),
    "the deadline": (["--timeout", "0.2", "--", "sleep", "60"], 124),
    "the idle deadline": (["--idle-timeout", "0.2", "--", "sleep", "60"], 124),
    "an interpreter while locked": (["--", "sh", "-c", "exit 0"], 0),
    "an interpreter that nothing holds": (["--confinement", "off", "--", "sh", "-c", "exit 0"], 126),
    "a writer that nothing holds": (["--confinement", "off", "--", "touch", "file"], 126),
    "a reader that nothing holds": (["--confinement", "off", "--", "true"], 0),
    "a wrapper is no interpreter": (["--", "env", "true"], 0),
    "not on the allow-list": (["--allow", "true", "--", "false"], 126),
    "on the allow-list": (["--allow", "true", "--allow", "false", "--", "false"], 1),
    "on the allow-list by the other spelling": (["--allow", "true", "--allow-executable", "false", "--", "false"], 1),
    "not on the allow-list of the other spelling": (["--allow-executable", "true", "--", "false"], 126),
    "a relative name": (["--", "./true"], 126),
    "a directory": (["--", "/usr"], 126),
    "not executable": (["--", "/etc/passwd"], 126),
    "not found": (["--", "no-such-program"], 127),
    "not found by its path": (["--", "/no/such/program"], 127),
    "a directory outside": (["--cwd", "..", "--", "true"], 126),
    "no such directory": (["--cwd", "nowhere", "--", "true"], 125),
    "no such workspace": (["--workspace", "/no/such/place", "--", "true"], 125),
    "no command": ([], 2),
    "an empty name": (["--", ""], 2),
    "an unknown flag": (["--no-such-flag", "--", "true"], 2),
    "no number": (["--timeout", "soon", "--", "true"], 2),
    "not a finite time": (["--timeout", "nan", "--", "true"], 2),
    "no time at all": (["--timeout", "0", "--", "true"], 2),
    "beyond the longest time": (["--timeout", "3601", "--", "true"], 2),
    "no variable": (["--env", "NAME", "--", "true"], 2),
    "where programs are found": (["--env", "PATH=/", "--", "true"], 2),
    "two kinds of output": (["--json", "--stream", "--", "true"], 2),
}


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("arguments, status", ENDINGS.values(), ids=ENDINGS)
def test_every_ending_has_its_exit_status(arguments: list[str], status: int, workspace: Path) -> None:
    finished = typed_here("run", "--workspace", str(workspace), *arguments)
    assert (finished.returncode, finished.stdout) == (status, b""), finished.stderr
    assert b"Traceback" not in finished.stderr


IN_JSON = (
    "the command's own status",
    "a signal",
    "the deadline",
    "an interpreter that nothing holds",
    "not found",
    "no such workspace",
    "no such directory",
    "not a finite time",
)


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("arguments, status", [ENDINGS[name] for name in IN_JSON], ids=IN_JSON)
def test_with_json_each_kind_of_ending_has_the_same_exit_status_and_is_one_object(
    arguments: list[str], status: int, workspace: Path
) -> None:
    finished = typed_here("run", "--workspace", str(workspace), "--json", *arguments)
    assert finished.returncode == status, finished.stderr
    answer = the_object(finished)
    assert answer["ok"] is ("result" in answer)
    assert answer["ok"] or (answer["error"] and answer["code"] and answer["message"])
    assert b"Traceback" not in finished.stderr


def test_a_run_needs_a_workspace_from_somewhere(tmp_path: Path) -> None:
    finished = typed("run", "--", "true", cwd=tmp_path)
    assert finished.returncode == 2
    assert b"--workspace" in finished.stderr


@pytest.mark.requires_ability("confinement")
def test_output_passes_through_byte_by_byte_on_its_own_stream(workspace: Path) -> None:
    data = bytes(range(256)) * 300
    (workspace / "data").write_bytes(data)
    for flag in ("--stream", "--no-stream"):
        finished = run_by_itself(workspace, "--unlocked", flag, "--", "sh", "-c", "cat data; cat data >&2")
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, data, data)


@pytest.mark.requires_ability("confinement")
def test_output_streams_before_the_end(workspace: Path) -> None:
    argv = ["run", "--workspace", str(workspace), "--stdin", "--", "cat"]
    with subprocess.Popen([*PROGRAM, *argv], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in (b"one\n", b"two\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == line
        process.stdin.close()
        assert process.wait(timeout=20) == 0


@pytest.mark.requires_ability("confinement")
def test_input_that_does_not_block_is_waited_for_all_the_same(workspace: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)  # as the event loop of a parent does that shares it
    argv = ["run", "--workspace", str(workspace), "--stdin", "--", "cat"]
    with subprocess.Popen([*PROGRAM, *argv], env=environment(), stdin=reading, stdout=subprocess.PIPE) as process:
        os.close(reading)
        with open(writing, "wb", buffering=0) as given:
            for line in (b"one\n", b"two\n"):
                given.write(line)
                assert process.stdout is not None and process.stdout.readline() == line
        assert process.wait(timeout=20) == 0


@pytest.mark.requires_ability("confinement")
def test_a_stream_has_no_cap_without_a_policy_and_what_is_kept_has(workspace: Path) -> None:
    megabytes = ["--unlocked", "--", "sh", "-c", "head -c 3000000 /dev/zero"]
    assert len(run_by_itself(workspace, *megabytes).stdout) == 3_000_000
    kept = run(workspace, "--no-stream", *megabytes)
    assert (len(kept.stdout), kept.returncode) == (1_000_000, 0)
    assert b"2000000 bytes of stdout omitted" in kept.stderr
    result = the_object(run(workspace, "--json", *megabytes))["result"]
    assert (result["stdout_total_bytes"], result["output_limited"], result["exit_code"]) == (3_000_000, True, 0)


@pytest.mark.requires_ability("confinement")
def test_a_policy_that_ends_a_command_for_its_output_is_told_by_the_status(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('allowed_executables = ["yes"]\nmax_output_bytes = 1000\n')
    finished = run(workspace, "--policy", str(policy), "--", "yes")
    assert (finished.returncode, len(finished.stdout)) == (137, 1000)
    assert b"too much output" in finished.stderr


@pytest.mark.requires_ability("confinement")
def test_standard_input_is_empty_unless_it_is_asked_for(workspace: Path) -> None:
    data = bytes(range(256)) * 1000
    left = run_by_itself(workspace, "--", "cat", stdin=data)
    assert (left.returncode, left.stdout) == (0, b"") and b"--stdin passes it on" in left.stderr
    fed = run_by_itself(workspace, "--stdin", "--", "cat", stdin=data)
    assert (fed.stdout, fed.stderr) == (data, b"")
    assert b"--stdin" in run_by_itself(workspace, "--", "false", stdin=b"x").stderr
    for unasked in (
        run_by_itself(workspace, "--", "echo", "x", stdin=b"x"),
        run_by_itself(workspace, "--", "true"),
    ):  # a loop over lines; no input
        assert unasked.stderr == b""


@pytest.mark.requires_ability("confinement")
def test_a_command_that_reads_nothing_ends_all_the_same(workspace: Path) -> None:
    finished = run_by_itself(workspace, "--stdin", "--", "true", stdin=b"x" * 1_000_000)
    assert (finished.returncode, finished.stderr) == (0, b"")


@pytest.mark.requires_ability("confinement")
def test_flags_that_look_like_ours_reach_the_command(workspace: Path) -> None:
    assert run(workspace, "--", "echo", "--json", "--help", "--").stdout == b"--json --help --\n"
    assert run(workspace, "echo", "--json").stdout == b"--json\n"


@pytest.mark.requires_ability("confinement")
def test_the_command_gets_its_directory_and_its_variables(workspace: Path) -> None:
    (workspace / "below").mkdir()
    finished = run(workspace, "--cwd", "below", "--env", "COLOUR=red=blue", "--env", "EMPTY=", "--", "env", env={"SECRET": "s"})
    lines = finished.stdout.decode().splitlines()
    assert {"COLOUR=red=blue", "EMPTY="} <= set(lines)
    assert not [line for line in lines if line.startswith("SECRET")]
    assert run(workspace, "--cwd", "below", "--", "pwd").stdout.decode().strip() == str(workspace / "below")


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("flags", [(), ("--confinement", "off")], ids=["confined", "not confined"])
def test_only_the_unlocked_run_writes(flags: tuple[str, ...], workspace: Path) -> None:
    argv = [*flags, "--", "sh", "-c", "echo written > file"]
    stopped = run(workspace, *argv)
    assert stopped.returncode == (126 if flags else 2)
    assert (b"--unlocked" if flags else b"Read-only file system") in stopped.stderr
    assert list(workspace.iterdir()) == []
    assert run(workspace, "--unlocked", *argv).returncode == 0
    assert (workspace / "file").read_text() == "written\n"


@pytest.mark.requires_ability("confinement")
def test_flags_win_over_the_policy(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    document = {
        "workspace": "/no/such/place",
        "allowed_executables": ["true", "env"],
        "write_token_digest": hashlib.sha256(b"theirs").hexdigest(),
        "environment": {"set": {"ONE": "1", "TWO": "2"}},
    }
    policy.write_text(json.dumps(document))
    shown = run(workspace, "--policy", str(policy), "--env", "TWO=zwei", "--", "env").stdout.decode().splitlines()
    assert {"ONE=1", "TWO=zwei"} <= set(shown)
    assert run(workspace, "--policy", str(policy), "--", "false").returncode == 126
    assert run(workspace, "--policy", str(policy), "--allow", "false", "--", "false").returncode == 1
    assert run(workspace, "--policy", str(policy), "--unlocked", "--allow", "sh", "--", "sh", "-c", "exit 5").returncode == 5


@pytest.mark.requires_ability("confinement")
@pytest.mark.requires_ability("userns")
@pytest.mark.parametrize(
    ("word", "script", "status", "note"),
    [
        ("fail", "echo x > .envrc", 126, "this counts as a failure under the policy: exit status 126 instead of the command's 0"),
        ("fail", "echo x > .envrc; exit 3", 3, "this counts as a failure under the policy"),
        ("neutralise", "echo x > .envrc", 0, ""),
        ("report", "echo x > .envrc", 0, ""),
        ("fail", "echo x > plain", 0, ""),
    ],
)
def test_a_planted_file_fails_the_run_where_the_policy_says_so(
    word: str, script: str, status: int, note: str, workspace: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'allowed_executables = ["sh"]\n[confinement]\nplanted_files = "{word}"\n')
    arguments = ["--policy", str(policy), "--unlocked"]
    done = run(workspace, *arguments, "--", "sh", "-c", script)
    assert done.returncode == status, done.stderr
    told = [line for line in done.stderr.decode().splitlines() if "counts as a failure" in line]
    assert told == ([f"fable-exec: {note}"] if note else [])
    for name in (".envrc", "plain"):
        (workspace / name).unlink(missing_ok=True)
    as_object = run(workspace, "--json", *arguments, "--", "sh", "-c", script)
    assert as_object.returncode == status
    assert the_object(as_object)["result"]["success"] is (status == 0)


@pytest.mark.requires_ability("confinement")
def test_a_policy_names_the_workspace_when_no_flag_does(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'workspace = "{workspace}"\nallowed_executables = ["pwd"]\n')
    assert typed_here("run", "--policy", str(policy), "--", "pwd").stdout.decode().strip() == str(workspace)


def test_a_policy_with_faults_lists_them_all_and_nothing_runs(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('colour = "red"\nmax_output_bytes = 0\nallowed_executables = ["touch"]\n')
    finished = run(workspace, "--policy", str(policy), "--", "touch", "file")
    assert finished.returncode == 125
    assert b"colour: unknown key" in finished.stderr and b"max_output_bytes:" in finished.stderr
    assert list(workspace.iterdir()) == []


def test_a_program_that_the_policy_lists_and_the_host_lacks_is_not_found(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('allowed_executables = ["no-such-program", "true"]\n')
    assert run(workspace, "--policy", str(policy), "--", "no-such-program").returncode == 127


@pytest.mark.requires_ability("confinement")
def test_a_program_that_only_the_workspace_has_is_not_found_and_named(workspace: Path) -> None:
    tool = workspace / "tool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    for path in (str(workspace), "."):
        done = run(workspace, "--", "tool", env={"PATH": f"{path}:{os.environ['PATH']}"}, cwd=workspace)
        assert (done.returncode, done.stdout) == (127, b"")
        assert f"{tool} is passed over, because PATH is not searched in the workspace".encode() in done.stderr
    assert run(workspace, "--", str(tool)).stdout == b"ran\n"


def test_a_faulty_variable_is_named_with_what_to_do(workspace: Path) -> None:
    assert b'"NAME" is not NAME=VALUE; a policy\'s environment.inherit' in run(workspace, "--env", "NAME", "--", "true").stderr
    assert b"give a policy's environment.path" in run(workspace, "--env", "PATH=/", "--", "true").stderr


@pytest.mark.requires_ability("confinement")
def test_a_script_without_its_interpreter_is_not_found_and_one_without_a_format_not_executable(tmp_path: Path) -> None:
    scripts = {"orphan": (b"#!/no/such/interpreter\n", 127), "noise": (b"\x00\x01\x02\x03", 126)}
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for name, (content, status) in scripts.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
        assert run(workspace, "--", str(tmp_path / name)).returncode == status, name


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize(
    ("limits", "script", "status", "told"),
    [
        ("", "kill -ABRT $$", 134, "ended by SIGABRT after "),
        ("", "kill -9 $$", 137, "ended by SIGKILL after "),
        ("", "kill -SEGV $$", 139, "ended by SIGSEGV after "),
        ("cpu_seconds = 1", "while :; do :; done", 152, "ended by SIGXCPU (limits.cpu_seconds = 1) after "),
        ("timeout_seconds = 0.3", "sleep 60", 124, "timed out (limits.timeout_seconds = 0.3): everything was ended after "),
    ],
)
def test_a_death_by_signal_or_limit_is_told_with_its_name(
    limits: str, script: str, status: int, told: str, workspace: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'allowed_executables = ["sh"]\n[limits]\n{limits}\n')
    done = run(workspace, "--policy", str(policy), "--", "sh", "-c", script)
    assert done.returncode == status, done.stderr
    assert [line for line in done.stderr.decode().splitlines() if line.startswith(f"fable-exec: {told}")]


@pytest.mark.requires_ability("confinement")
def test_what_a_command_leaves_running_is_ended_and_told(workspace: Path) -> None:
    seconds = unique_sleep()
    finished = run_by_itself(workspace, "--unlocked", "--", "sh", "-c", f"setsid sleep {seconds} & echo started")
    assert (finished.returncode, finished.stdout) == (0, b"started\n")
    assert b"1 other process was still alive and ended: " in finished.stderr
    assert not is_running(seconds)


@pytest.mark.requires_ability("confinement")
def test_the_partial_output_of_a_command_that_times_out_is_there(workspace: Path) -> None:
    seconds = unique_sleep()
    finished = run_by_itself(workspace, "--unlocked", "--timeout", "1.5", "--", "sh", "-c", f"echo partial; exec sleep {seconds}")
    assert (finished.returncode, finished.stdout) == (124, b"partial\n")
    assert b"timed out" in finished.stderr
    assert not is_running(seconds)


@pytest.mark.requires_ability("confinement")
def test_the_object_holds_the_result_as_it_is_on_the_wire(workspace: Path) -> None:
    answer = the_object(run(workspace, "--json", "--unlocked", "--", "sh", "-c", "printf '\\033[31m\\377'; echo b >&2; exit 3"))
    result = answer["result"]
    assert (result["outcome"], result["exit_code"], result["success"]) == ("exited", 3, False)
    assert (result["stdout"], result["stderr"], result["encoding"]) == ("\x1b[31m\ufffd", "b\n", "utf-8-lossy")
    assert {"command", "cwd", "confinement", "survivors", "denials", "duration_seconds", "policy_digest"} <= result.keys()


@pytest.mark.requires_ability("confinement")
def test_the_same_command_line_has_the_same_policy_digest(workspace: Path) -> None:
    digests = {the_object(run(workspace, "--json", "--unlocked", "--", "true"))["result"]["policy_digest"] for _ in range(2)}
    assert len(digests) == 1


def test_what_others_wrote_cannot_address_a_terminal_in_our_words(workspace: Path) -> None:
    hostile = "\x1b]0;title\x07\u202e\ninjected: line"
    finished = run(workspace, "--", hostile)
    assert finished.returncode == 127
    assert finished.stderr.count(b"\n") == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(finished.stderr.decode())


def test_an_argument_that_is_not_unicode_is_refused(workspace: Path) -> None:
    finished = subprocess.run(
        [*PROGRAM, "run", "--workspace", str(workspace), "--", "echo", b"\xff"], env=environment(), capture_output=True
    )
    assert (finished.returncode, finished.stdout) == (2, b"")


@pytest.mark.requires_ability("confinement")
def test_a_full_disk_under_our_output_ends_the_tree_and_is_our_failure(workspace: Path) -> None:
    seconds = unique_sleep()
    with open("/dev/full", "wb") as full:
        argv = ["run", "--workspace", str(workspace), "--unlocked", "--", "sh", "-c", f"sleep {seconds} & echo data; wait"]
        finished = subprocess.run([*PROGRAM, *argv], env=environment(), stdout=full, stderr=subprocess.PIPE, timeout=30)
    assert finished.returncode == 125
    assert b"No space left" in finished.stderr
    assert until(lambda: not is_running(seconds))


@pytest.mark.requires_ability("confinement")
def test_closed_standard_descriptors_hand_no_file_of_ours_to_the_command(workspace: Path) -> None:
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        line = f'exec "$@" {closed}'
        argv = [*PROGRAM, "run", "--workspace", str(workspace), "--stdin", "--", "ls", "-l", "/proc/self/fd"]
        finished = subprocess.run(["sh", "-c", line, "sh", *argv], env=environment(), capture_output=True, timeout=30)
        assert finished.returncode == 0, (closed, finished.stderr)


@pytest.mark.requires_ability("confinement")
def test_a_command_named_by_its_absolute_path_runs(workspace: Path) -> None:
    path = os.path.realpath("/bin/echo")
    assert run(workspace, "--", path, "here").stdout == b"here\n"


@pytest.mark.requires_ability("confinement")
def test_no_table_library_is_loaded_for_a_run(workspace: Path) -> None:
    program = (
        "import sys; from fable_exec.__main__ import main\n"
        f"status = main(['run', '--workspace', {str(workspace)!r}, '--', 'true'])\n"
        "print(status, sorted({'rich', 'asyncio', 'jsonschema'} & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True)
    assert finished.stdout.strip() == "0 []", finished.stderr


# confinement


@pytest.mark.requires_ability("landlock")
@pytest.mark.parametrize("flags", [(), ("--confinement", "strict")], ids=["by default", "by the flag"])
def test_a_run_is_confined_and_reads_while_locked_and_writes_while_unlocked(
    flags: tuple[str, ...], workspace: Path, tmp_path: Path
) -> None:
    program = [*flags, "--", "sh", "-c", f"cat kept; echo changed > kept; cat {tmp_path}/secret; echo x > {tmp_path}/outside"]
    (workspace / "kept").write_text("kept\n")
    (tmp_path / "secret").write_text("secret\n")
    locked = run_by_itself(workspace, *program)
    assert (locked.stdout, b"kept: Read-only file system" in locked.stderr) == (b"kept\n", True)
    assert (workspace / "kept").read_text() == "kept\n"
    assert run_by_itself(workspace, "--unlocked", *program).stdout == b"kept\n"
    assert (workspace / "kept").read_text() == "changed\n"
    assert not (tmp_path / "outside").exists()


@pytest.mark.requires_ability("landlock")
def test_the_flag_wins_over_the_policy_and_the_policy_over_the_default(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'workspace = "{workspace}"\nallowed_executables = ["true"]\n[confinement]\nnetwork = "full"\n')
    by_policy = the_object(typed_here("run", "--policy", str(policy), "--json", "--", "true"))["result"]["confinement"]
    by_flag = the_object(typed_here("run", "--policy", str(policy), "--confinement", "off", "--json", "--", "true"))["result"]
    assert {"host_writes", "kernel_surface"} <= {each["protection"] for each in by_policy}
    assert {each["protection"] for each in by_flag["confinement"]} == {"whole_tree_end", "other_processes"}
    assert typed_here("run", "--policy", str(policy), "--confinement", "loose", "--", "true").returncode == 2
