"""`fable-exec supervise` as it is typed: what it prints, where, with which exit status, and what goes on without it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import termios
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec.cli.program import main
from fable_exec.lifecycle import Health
from fable_exec.supervisor import Supervisor
from tests.cli.typed import PROGRAM, environment, is_running, started, the_object, typed, typed_here, until
from tests.consoles import Terminal
from tests.hosts import unique_sleep

pytestmark = pytest.mark.requires_ability("confinement")

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Where the executions of one test lie. What still runs at its end is stopped, and waited for."""
    directory = tmp_path / "executions"
    yield directory
    with Supervisor(directory) as supervisor:
        for each in supervisor.list():
            if each.health is Health.RUNNING:
                supervisor.request_stop(each.execution_id)
                supervisor.wait(each.execution_id, 20)


def supervise(verb: str, root: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """One sub-command on `root`, to its end."""
    return typed_here("supervise", verb, "--root", str(root), *arguments, **options)


def status_here(verb: str, root: Path, *arguments: str) -> int:
    """The exit status of one that is typed into this process: that is quick."""
    return main(["supervise", verb, "--root", str(root), *arguments])


def start(root: Path, workspace: Path, script: str, *flags: str) -> dict[str, Any]:
    """A job for a shell; its state when `start` returned."""
    finished = supervise("start", root, "--workspace", str(workspace), "--json", *flags, "--", "sh", "-c", script)
    assert finished.returncode == 0, finished.stderr
    return the_object(finished)


def shown(root: Path, execution_id: str) -> dict[str, Any]:
    """Its state now."""
    return the_object(supervise("show", root, execution_id, "--json"))


def ended(root: Path, execution_id: str) -> dict[str, Any]:
    """Its state once it has ended."""
    with Supervisor(root) as supervisor:
        return supervisor.wait(execution_id, 20).to_members()


# Start, list, show


def test_a_started_job_runs_when_start_returns_and_can_be_shown_to_its_end(root: Path, workspace: Path) -> None:
    state = start(root, workspace, "until [ -e go ]; do sleep 0.01; done; exit 3")
    execution_id = state["execution_id"]
    assert (state["state"], state["health"], state["workspace"]) == ("running", "running", str(workspace))
    assert json.loads((root / execution_id / "state.json").read_text())["execution_id"] == execution_id
    (workspace / "go").touch()
    state = ended(root, execution_id)
    assert (state["exit_code"], state["termination_reason"], state["descendants"]["quiescent"]) == (3, "crashed", True)
    listed = json.loads(supervise("list", root, "--json").stdout)
    assert [(each["execution_id"], each["health"]) for each in listed] == [(execution_id, "exited")]


def test_people_get_lines_on_standard_output_with_what_matters_first(root: Path, workspace: Path) -> None:
    finished = supervise("start", root, "--workspace", str(workspace), "--label", "model=m 1", "--", "sleep", "30")
    lines = finished.stdout.decode().splitlines()
    (execution_id,) = [line.split()[1] for line in lines[:1]]
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert [line.split()[0] for line in lines[:3]] == ["execution", "state", "health"]
    assert supervise("stop", root, execution_id).returncode == 0
    ended(root, execution_id)
    whole = supervise("show", root, execution_id).stdout.decode()
    told = dict(re.split(r"  +", line, maxsplit=1) for line in whole.splitlines())
    assert list(told)[:5] == ["execution", "state", "health", "reason", "exit"]
    assert (told["reason"], told["exit"], told["labels"], told["command"]) == ("stopped", "SIGTERM", "model=m 1", "sleep 30")
    assert told["output"] == f"{root}/{execution_id}/runner.log (0 bytes)"
    assert told["proved ended"] in ("its PID namespace has ended (pidns_dead)", "its cgroup is empty (cgroup_empty)")
    table = supervise("list", root).stdout.decode().splitlines()
    assert [line.split()[:3] for line in table] == [["execution", "state", "exit"], [execution_id, "stopped", "SIGTERM"]]


def test_a_root_without_executions_is_an_empty_list(root: Path) -> None:
    finished = supervise("list", root)
    assert (finished.returncode, finished.stdout) == (0, b"")
    assert finished.stderr.decode() == f"fable-exec: no executions in {root}\n"
    assert json.loads(supervise("list", root, "--json").stdout) == []
    assert not root.exists()


def test_the_root_is_the_directory_of_the_environment_where_none_is_given(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "true")["execution_id"]
    finished = typed("supervise", "list", "--json", env={"FABLE_EXEC_STATE_DIR": str(root)})
    assert [each["execution_id"] for each in json.loads(finished.stdout)] == [execution_id]


def test_what_is_given_is_kept_with_the_job_and_reaches_it(root: Path, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "task.md").write_bytes(b"build it \xff\n")
    script = 'cat "$FABLE_EXEC_DIR/spec.md"; echo "$SECRET"'
    flags = ["--spec", str(tmp_path / "task.md"), "--env", "SECRET=a=b", "--label", "model=m", "--label", "try="]
    times = ["--hard-timeout", "60", "--idle-timeout", "50", "--stop-grace", "0", "--engine-dir", "state"]
    state = start(root, workspace, script, *flags, *times, "--verdict", "exit-code")
    state = ended(root, state["execution_id"])
    assert (state["labels"], state["engine_dir"]) == ({"model": "m", "try": ""}, f"{workspace}/state")
    assert [state[f"{name}_seconds"] for name in ("hard_timeout", "idle_timeout", "stop_grace")] == [60, 50, 0]
    assert Path(state["runner_log"]).read_bytes() == b"build it \xff\na=b\n"
    assert "a=b" not in json.dumps(state)


def test_a_job_that_crashes_is_started_again_as_often_as_allowed(root: Path, workspace: Path) -> None:
    script = "[ -e second ] && exit 0; [ -e first ] && touch second && kill -9 $$; touch first; exit 3"
    execution_id = start(root, workspace, script, "--restarts", "5", "--restart-delay", "0")["execution_id"]
    assert ended(root, execution_id)["termination_reason"] == "completed"
    assert "\nattempt       3, after crashed 3, crashed SIGKILL\n" in supervise("show", root, execution_id).stdout.decode()


def test_a_job_that_cannot_be_started_is_accepted_and_its_state_says_why(root: Path, workspace: Path) -> None:
    flags = ["--workspace", str(workspace), "--spec", "/dev/stdin"]
    finished = supervise("start", root, *flags, "--", "no-such-program", stdin=b"build it\n")
    assert [each.read_bytes() for each in root.glob("*/spec.md")] == [b"build it\n"]
    told = finished.stdout.decode()
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert "launch_failed" in told and "invalid policy" not in told
    assert "executable: ENOENT: No such file or directory (no-such-program: none of no-such-program could be found in /" in told
    assert "; install it, or give its absolute path)" in told


def test_a_policy_says_what_may_run(root: Path, workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('allowed_executables = ["true"]\n')
    flags = ["--workspace", str(workspace), "--policy", str(policy)]
    assert supervise("start", root, *flags, "--", "true").returncode == 0
    refused = supervise("start", root, *flags, "--", "false")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert "the policy does not list 'false'" in refused.stderr.decode()
    assert len(json.loads(supervise("list", root, "--json").stdout)) == 1


def test_the_same_id_is_the_same_job_and_never_another(root: Path, workspace: Path, tmp_path: Path) -> None:
    name = str(uuid.uuid4())
    first = start(root, workspace, "sleep 30", "--id", name.upper())
    again = start(root, workspace, "sleep 30", "--id", name)
    assert first["execution_id"] == again["execution_id"] == name
    assert first["runner_pid"] == again["runner_pid"]
    other = supervise("start", root, "--id", name, "--workspace", str(workspace), "--", "sleep", "31")
    busy = supervise("start", root, "--workspace", str(workspace), "--json", "--", "sleep", "30")
    assert (other.returncode, other.stdout) == (3, b"") and name in other.stderr.decode()
    assert (busy.returncode, the_object(busy)["code"]) == (3, "conflict") and name in busy.stdout.decode()


# Refused before anything is done


Wrongly = Callable[..., str]


@pytest.fixture
def typed_wrongly(root: Path, capfd: pytest.CaptureFixture[str]) -> Wrongly:
    """The last line of what wrong usage gets; nothing was made."""

    def run(verb: str, *arguments: str) -> str:
        status = status_here(verb, root, *arguments)
        captured = capfd.readouterr()
        assert (status, captured.out) == (2, ""), captured.err
        assert not root.exists()
        return captured.err.splitlines()[-1].removeprefix("fable-exec: ").removeprefix("Error: ")

    return run


@pytest.mark.parametrize("flag", ["--hard-timeout", "--idle-timeout", "--stop-grace", "--restart-delay"])
def test_a_number_that_no_time_can_have_is_refused_by_its_flag(flag: str, typed_wrongly: Wrongly, workspace: Path) -> None:
    for number in ("-1", "nan", "inf", "-inf", "1e300"):
        words = typed_wrongly("start", "--workspace", str(workspace), flag, number, "--", "true")
        assert words.startswith(f"{flag} must be a number of seconds, ")


REFUSED = {
    "--workspace must be an existing directory: '/no/such/place'": ["--workspace", "/no/such/place", "--", "true"],
    "--restarts must be a whole number up to 100, not 101": ["--restarts", "101", "--workspace", ".", "--", "true"],
    "Missing option '--workspace'.": ["--", "true"],
    "Missing argument 'ARGV...'.": ["--workspace", "."],
    "--proof-... and --attest-key: proof is for the verdict 'proof'": [
        "--proof-require", "tree", "--workspace", ".", "--", "true",
    ],
    "Invalid value for '--proof-jwks': /no/such/file: No such file or directory": [
        "--verdict", "proof", "--proof-jwks", "/no/such/file", "--workspace", ".", "--", "true",
    ],
    "Invalid value for '--attest-key': /no/such/key: No such file or directory": [
        "--verdict", "proof", "--attest-key", "/no/such/key", "--workspace", ".", "--", "true",
    ],
    "Invalid value for '--id': execution id 'seven' must be a valid UUID": ["--id", "seven", "--workspace", ".", "--", "true"],
    "Invalid value for '--label': \"plain\" is not NAME=VALUE": ["--label", "plain", "--workspace", ".", "--", "true"],
    "--env has a variable that cannot be set: '1 X'": ["--env", "1 X=3", "--workspace", ".", "--", "true"],
    "--spec cannot be read: '/no/such/file': No such file or directory": [
        "--spec", "/no/such/file", "--workspace", ".", "--", "true",
    ],
    "--spec must be a regular file, or /dev/stdin: '/dev/zero'": ["--spec", "/dev/zero", "--workspace", ".", "--", "true"],
    "no such file: '/no/such/file.toml'": [
        "--policy", "/no/such/file.toml", "--workspace", ".", "--", "true",
    ],
    "the program to run: must be a bare name or an absolute path: 'bin/true'": ["--workspace", ".", "--", "bin/true"],
}  # fmt: skip


@pytest.mark.parametrize(("words", "arguments"), REFUSED.items(), ids=REFUSED)
def test_wrong_usage_of_start_is_told_by_the_flag_and_starts_nothing(
    words: str, arguments: list[str], typed_wrongly: Wrongly
) -> None:
    assert typed_wrongly("start", *arguments) == words


def test_a_program_that_cannot_be_named_is_told_as_it_was_typed_in_the_foreground_too(typed_wrongly: Wrongly) -> None:
    words = typed_wrongly("start", "--foreground", "--workspace", ".", "--", "bin/true")
    assert words == "the program to run: must be a bare name or an absolute path: 'bin/true'"


def test_a_key_that_nobody_could_sign_with_is_refused_before_anything_is_started(typed_wrongly: Wrongly, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("no key\n")
    arguments = ("start", "--verdict", "proof", "--attest-key", str(key), "--workspace", ".", "--", "true")
    key.chmod(0o644)
    assert "others may open it; its mode must be 0600" in typed_wrongly(*arguments)
    key.chmod(0o600)
    assert "neither an Ed25519 nor a P-256 private key" in typed_wrongly(*arguments)


def test_a_key_that_is_too_long_is_refused_and_not_cut(root: Path, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "key.asc").write_bytes(b"a" * (1 << 20) + b"\n")
    key = ("--verdict", "proof", "--proof-gpg-key", str(tmp_path / "key.asc"))
    refused = supervise("start", root, *key, "--workspace", str(workspace), "--", "true")
    assert (refused.returncode, b"proof keys may be 16, of 1048576 characters each" in refused.stderr) == (2, True), (
        refused.stderr
    )
    assert not root.exists()


@pytest.mark.parametrize("verb", ["show", "stop", "wait", "logs"])
def test_an_id_that_is_none_is_wrong_usage_and_an_unknown_one_exits_4(verb: str, root: Path, typed_wrongly: Wrongly) -> None:
    assert typed_wrongly(verb, "seven") == "Invalid value for 'ID': execution id 'seven' must be a valid UUID"
    unknown = supervise(verb, root, NOBODY)
    assert (unknown.returncode, unknown.stdout) == (4, b"")
    assert NOBODY in unknown.stderr.decode() and unknown.stderr.count(b"\n") == 1
    assert not root.exists()


# Stop


def test_a_stop_is_asked_for_once_and_is_no_failure_afterwards(root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    execution_id = start(root, workspace, f"sleep {seconds} & sleep {seconds}")["execution_id"]
    first = supervise("stop", root, execution_id)
    assert (first.returncode, first.stdout) == (0, b"")
    assert ended(root, execution_id)["termination_reason"] == "stopped"
    assert not is_running(seconds)
    again = supervise("stop", root, execution_id)
    assert again.returncode == 0 and b"has ended, stopped: SIGTERM after " in again.stderr
    assert the_object(supervise("stop", root, execution_id, "--json"))["termination_reason"] == "stopped"


# Logs and waiting


def test_logs_are_the_bytes_as_they_came(root: Path, workspace: Path) -> None:
    script = r"printf 'a\0b\377\033[31m'; printf 'no newline' >&2"
    execution_id = start(root, workspace, script)["execution_id"]
    ended(root, execution_id)
    finished = supervise("logs", root, execution_id)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"a\0b\xff\x1b[31mno newline", b"")


def followed(root: Path, execution_id: str) -> subprocess.Popen[bytes]:
    return started("supervise", "logs", "-f", "--root", str(root), execution_id)


def test_a_follower_gets_what_comes_and_ends_with_the_job(root: Path, workspace: Path) -> None:
    script = "echo first; until [ -e go ]; do sleep 0.01; done; echo last"
    execution_id = start(root, workspace, script)["execution_id"]
    with followed(root, execution_id) as following:
        assert following.stdout is not None and following.stdout.readline() == b"first\n"
        (workspace / "go").touch()
        rest, complaints = following.communicate(timeout=20)
    assert (following.returncode, rest, complaints) == (0, b"last\n", b"")


def test_a_follower_that_nobody_reads_ends_while_the_job_is_silent(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "echo first; sleep 30")["execution_id"]
    with followed(root, execution_id) as following:
        assert following.stdout is not None and following.stdout.readline() == b"first\n"
        following.stdout.close()
        assert following.wait(timeout=30) == 141
        assert following.stderr is not None and following.stderr.read() == b""
    assert shown(root, execution_id)["health"] == "running"


def test_a_follower_that_is_interrupted_ends_and_the_job_goes_on(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "echo first; sleep 30")["execution_id"]
    with followed(root, execution_id) as following:
        assert following.stdout is not None and following.stdout.readline() == b"first\n"
        following.send_signal(signal.SIGINT)
        _, complaints = following.communicate(timeout=20)
    assert (following.returncode, complaints.strip()) == (130, b"")
    assert shown(root, execution_id)["health"] == "running"


@pytest.mark.parametrize(("script", "status"), [("true", 0), ("exit 4", 4), ("kill -9 $$", 137), (None, 127)])
def test_wait_exits_as_the_job_did(script: str | None, status: int, root: Path, workspace: Path) -> None:
    argv = ["no-such-program"] if script is None else ["sh", "-c", script]
    begun = the_object(supervise("start", root, "--workspace", str(workspace), "--json", "--", *argv))
    waited = supervise("wait", root, begun["execution_id"], "--json")
    assert (waited.returncode, the_object(waited)["state"], waited.stderr) == (status, "exited", b"")


def test_people_who_wait_are_told_how_it_ended(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "exit 3")["execution_id"]
    ended(root, execution_id)
    waited = supervise("wait", root, execution_id, "--timeout", "0")
    assert (waited.returncode, waited.stdout) == (3, b"")
    assert f"{execution_id} has ended, crashed: 3 after " in waited.stderr.decode()


def test_a_wait_that_ran_out_exits_124_and_the_job_goes_on(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, "sleep 30")["execution_id"]
    waited = supervise("wait", root, execution_id, "--timeout", "0.1")
    assert (waited.returncode, waited.stderr.decode()) == (124, f"fable-exec: {execution_id} has not ended\n")
    waited = supervise("wait", root, execution_id, "--timeout", "0", "--json")
    assert (waited.returncode, the_object(waited)["health"]) == (124, "running")
    for number in ("-1", "nan", "inf"):
        assert status_here("wait", root, execution_id, "--timeout", number) == 2


# In the foreground


@pytest.mark.parametrize(
    ("argv", "status", "output"),
    [(["sh", "-c", "echo out; exit 7"], 7, b"out\n"), (["sh", "-c", "kill -15 $$"], 143, b""), (["no-such-program"], 127, b"")],
    ids=["exit", "signal", "missing"],
)
def test_in_the_foreground_output_and_status_are_the_jobs(
    argv: list[str], status: int, output: bytes, root: Path, workspace: Path
) -> None:
    flags = ["--foreground", "--workspace", str(workspace)]
    finished = supervise("start", root, *flags, "--", *argv)
    first, last = finished.stderr.decode().splitlines()
    execution_id = first.removeprefix("fable-exec: execution ")
    assert (finished.returncode, finished.stdout) == (status, output)
    assert last.startswith(f"fable-exec: {execution_id} has ended, ")
    as_json = supervise("start", root, *flags, "--id", execution_id, "--json", "--", *argv)
    assert (as_json.returncode, the_object(as_json)["execution_id"]) == (status, execution_id)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--id", "seven", "--", "true"], 2), (["--hard-timeout", "-1", "--", "true"], 2), (["--", "sleep", "1"], 3)],
    ids=["usage", "number", "conflict"],
)
def test_what_is_refused_in_the_foreground_has_the_same_status(
    arguments: list[str], status: int, root: Path, workspace: Path
) -> None:
    start(root, workspace, "sleep 30")
    finished = supervise("start", root, "--foreground", "--workspace", str(workspace), *arguments)
    assert finished.returncode == status


def in_the_foreground(root: Path, workspace: Path, seconds: str) -> tuple[subprocess.Popen[bytes], str]:
    """A job that runs, and its id."""
    flags = ["--root", str(root), "--workspace", str(workspace), "--foreground"]
    process = started("supervise", "start", *flags, "--", "sh", "-c", f"echo ready; sleep {seconds}")
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    assert process.stderr is not None
    return process, process.stderr.readline().decode().strip().removeprefix("fable-exec: execution ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_in_the_foreground_stops_the_job(number: signal.Signals, root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    process, execution_id = in_the_foreground(root, workspace, seconds)
    with process:
        process.send_signal(number)
        assert process.wait(timeout=20) == 143
    assert not is_running(seconds)
    assert shown(root, execution_id)["termination_reason"] == "stopped"


def test_a_foreground_that_is_killed_ends_no_job(root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    process, execution_id = in_the_foreground(root, workspace, seconds)
    with process:
        process.kill()
    assert (shown(root, execution_id)["health"], is_running(seconds)) == ("running", True)


# What cannot be read, and who cannot be verified


def test_a_state_that_cannot_be_believed_is_listed_shown_and_never_written_over(root: Path, workspace: Path) -> None:
    ended_id = start(root, workspace, "true")["execution_id"]
    ended(root, ended_id)
    torn = root / NOBODY
    torn.mkdir(mode=0o700)
    (torn / "state.json").touch(mode=0o600)
    listed = json.loads(supervise("list", root, "--json").stdout)
    assert [(each["execution_id"], each["health"]) for each in listed] == [(ended_id, "exited"), (NOBODY, "unreadable")]
    assert listed[1]["reason"] == "torn"
    assert NOBODY in supervise("list", root).stdout.decode().splitlines()[2]
    asked = supervise("show", root, NOBODY)
    told = dict(re.split(r"  +", line, maxsplit=1) for line in asked.stdout.decode().splitlines())
    assert (asked.returncode, told["health"]) == (5, "unreadable") and f"{NOBODY}/state.json" in told["error"]
    assert the_object(supervise("show", root, NOBODY, "--json"))["reason"] == "torn"
    for verb in ("stop", "wait", "logs"):
        assert status_here(verb, root, NOBODY) == 5
    assert status_here("start", root, "--id", NOBODY, "--workspace", str(workspace), "--", "true") == 3
    assert (torn / "state.json").read_bytes() == b""


def test_a_job_whose_keeper_was_killed_cannot_be_stopped_and_its_end_is_recorded_once(root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    state = start(root, workspace, f"sleep {seconds}")
    os.kill(state["supervisor_pid"], signal.SIGKILL)
    assert until(lambda: not is_running(seconds))
    assert ended(root, state["execution_id"])["health"] == "lost"
    refused = supervise("stop", root, state["execution_id"])
    assert refused.returncode == 5 and b"recover" in refused.stderr
    waited = supervise("wait", root, state["execution_id"])
    assert waited.returncode == 125 and b"is lost: its keeper died" in waited.stderr
    recovered = supervise("recover", root)
    rows = [line.split() for line in recovered.stdout.decode().splitlines()]
    assert (recovered.returncode, rows[1:]) == (0, [[state["execution_id"], "lost", "recorded", "keeper_lost"]])
    again = supervise("recover", root, "--json")
    assert (again.returncode, json.loads(again.stdout)) == (0, [])
    after = shown(root, state["execution_id"])
    assert [after[name] for name in ("termination_reason", "exit_code", "signal")] == ["keeper_lost", None, None]
    assert status_here("stop", root, state["execution_id"]) == 0
    assert status_here("wait", root, state["execution_id"]) == 125


def test_what_cannot_be_recovered_is_told_and_exits_1(root: Path, workspace: Path) -> None:
    (root / NOBODY).mkdir(mode=0o700, parents=True)
    (root / NOBODY / "state.json").touch(mode=0o600)
    root.chmod(0o700)
    recovered = supervise("recover", root, "--json")
    (found,) = json.loads(recovered.stdout)
    assert (recovered.returncode, found["found"], found["done"]) == (1, "unreadable", "left")
    assert NOBODY in recovered.stderr.decode()


def test_what_has_ended_is_pruned_and_nothing_else(root: Path, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    old, newer = (start(root, workspace, "true", "--label", f"n={number}")["execution_id"] for number in (1, 2))
    live = start(root, tmp_path / "other", "sleep 30")["execution_id"]
    for each in (old, newer):
        ended(root, each)
    assert supervise("prune", root).stdout == b""
    kept = supervise("prune", root, "--older-than", "0", "--keep", "1")
    assert (kept.returncode, kept.stdout.decode()) == (0, f"{old}\n")
    assert json.loads(supervise("prune", root, "--older-than", "0", "--json").stdout) == [newer]
    assert [each["execution_id"] for each in json.loads(supervise("list", root, "--json").stdout)] == [live]
    assert status_here("show", root, old) == 4
    for flags in (["--older-than", "-1"], ["--older-than", "nan"], ["--keep", "-1"], ["--keep", "x"]):
        assert status_here("prune", root, *flags) == 2


# Terminals


def test_a_job_goes_on_when_its_terminal_is_closed(root: Path, workspace: Path) -> None:
    seconds = unique_sleep()
    words = [*PROGRAM, "supervise", "start", "--root", str(root), "--workspace", str(workspace), "--", "sleep", seconds]
    with Terminal(workspace, environment(NO_COLOR="1")) as terminal:
        assert "health        running" in terminal.enter(" ".join(words))
    (listed,) = json.loads(supervise("list", root, "--json").stdout)
    assert (listed["health"], is_running(seconds)) == ("running", True)
    assert supervise("stop", root, listed["execution_id"]).returncode == 0
    assert ended(root, listed["execution_id"])["termination_reason"] == "stopped"


def at_a_terminal(columns: int, *arguments: str, **variables: str) -> str:
    """What a terminal of that width shows of it."""
    terminal, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    process = subprocess.Popen([*PROGRAM, *arguments], env=environment(**variables), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    pieces = []
    with os.fdopen(terminal, "rb", buffering=0) as reading:
        try:
            while piece := reading.read(4096):
                pieces.append(piece)
        except OSError:
            pass  # EIO: nobody is at the terminal any more
    assert process.wait(timeout=30) == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


COLOURED, PLAIN, DUMB = {"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}


def test_an_id_and_a_path_stay_whole_at_every_terminal(root: Path, workspace: Path) -> None:
    execution_id = start(root, workspace, f"exit 3 # {'long ' * 50}")["execution_id"]
    ended(root, execution_id)
    for columns, variables in ((20, DUMB), (20, PLAIN), (80, COLOURED), (200, PLAIN)):
        table = at_a_terminal(columns, "supervise", "list", "--root", str(root), **variables)
        assert execution_id in table and len(table.splitlines()) == 2
        assert ("\x1b[" in table) == (variables is COLOURED)
        assert variables is COLOURED or max(map(len, table.splitlines())) == max(columns, 80)
    for columns, variables in ((20, PLAIN), (80, COLOURED)):
        lines = at_a_terminal(columns, "supervise", "show", "--root", str(root), execution_id, **variables)
        assert f"{root}/{execution_id}/runner.log" in lines
        assert ("\x1b[" in lines) == (variables is COLOURED)


def test_nobody_reads_it_any_more(root: Path, workspace: Path) -> None:
    start(root, workspace, "true")
    for verb, arguments in {"list": [], "start": ["--workspace", str(workspace), "--", "true"]}.items():
        reading, writing = os.pipe()
        os.close(reading)
        argv = [*PROGRAM, "supervise", verb, "--root", str(root), *arguments]
        finished = subprocess.run(argv, env=environment(), stdout=writing, stderr=subprocess.PIPE, timeout=30)
        os.close(writing)
        assert (finished.returncode, finished.stderr) == (141, b"")


def test_words_that_a_caller_chose_cannot_address_the_terminal(root: Path, tmp_path: Path) -> None:
    evil = tmp_path / "\x1b[31mred\u202e"
    evil.mkdir()
    execution_id = start(root, evil, "true # \x1b[2J[bold]", "--label", "a\nb=\x07")["execution_id"]
    for words in (["list"], ["show", execution_id]):
        shown_words = supervise(words[0], root, *words[1:]).stdout.decode()
        assert not {"\x1b", "\x07", "\u202e"} & set(shown_words)
    assert "a\\nb=\\x07" in shown_words and "[bold]" in shown_words
