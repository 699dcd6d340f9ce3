"""`fable-exec supervise` as it is typed: what it prints, where, with which exit status, and what goes on without it."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from tests.cli.supervising import ended, start, supervise
from tests.cli.typed import is_running, the_object, typed
from tests.hosts import unique_sleep

pytestmark = pytest.mark.requires_ability("confinement")


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
