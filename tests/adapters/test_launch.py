"""`launch`: what a framework starts with its own Popen, and how that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncExecutionBroker, Denied, InvalidRequest, LaunchFailed, WritesLocked
from fable_exec.adapters import BlockingAgentWorkspace, LaunchSpec
from fable_exec.policy import dump_json
from tests.adapters.places import shell_policy
from tests.cli.typed import PROJECT, is_running, typed_here
from tests.doors import TOKEN, environment_with, policy_for
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("confinement")


def spec_for(policy: Any, argv: list[str], **more: Any) -> LaunchSpec:
    with BlockingAgentWorkspace(AsyncExecutionBroker(policy)) as ws:
        return ws.launch(argv, **more)


def started(spec: LaunchSpec, **options: Any) -> subprocess.Popen[bytes]:
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(spec.argv, env=spec.env, cwd=spec.cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)


def finished(spec: LaunchSpec, given: bytes = b"") -> tuple[int, bytes, bytes]:
    with started(spec) as process:
        out, err = process.communicate(given, timeout=60)
    return process.returncode, out, err


def test_streams_and_statuses_pass_through_and_it_runs_under_the_policy(workspace: Path) -> None:
    environment = environment_with(request_names=("COLOUR",), set={"FIXED": "f"}, inherit=("FABLE_EXEC_LAUNCH_POLICY",))
    policy = shell_policy(workspace, environment=environment)
    (workspace / "src").mkdir()
    script = 'cat; echo "$COLOUR $FIXED $(pwd) ${FABLE_EXEC_LAUNCH_POLICY-none}"; exit 3'
    status, out, _ = finished(
        spec_for(policy, ["bash", "-c", script], env={"COLOUR": "red"}, cwd=str(workspace / "src")), "grün ".encode()
    )
    assert (status, out.decode()) == (3, f"grün red f {workspace}/src none\n")
    assert finished(spec_for(policy, ["ls"]))[0] == 126
    assert finished(spec_for(policy, ["sleep", "60"], timeout_seconds=0.3))[0] == 124


def test_it_is_locked_unless_the_administrators_token_is_given(workspace: Path) -> None:
    policy = shell_policy(workspace)
    write = ["bash", "-c", "echo x > made"]
    assert finished(spec_for(policy, write))[0] != 0 and not (workspace / "made").exists()
    with pytest.raises(Denied):
        spec_for(policy, write, token="a guess")
    assert finished(spec_for(policy, write, token=TOKEN))[0] == 0 and (workspace / "made").exists()
    with pytest.raises(WritesLocked):
        spec_for(policy_for(workspace, write_token_digest=None), write, token=TOKEN)


def test_what_the_policy_refuses_of_a_request_is_refused_when_it_is_asked_for(workspace: Path) -> None:
    policy = shell_policy(workspace)
    for more in ({"env": {"LD_PRELOAD": "x"}}, {"env": {"OTHER": "x"}}, {"cwd": "/elsewhere"}):
        with pytest.raises(Denied):
            spec_for(policy, ["true"], **more)
    with pytest.raises(InvalidRequest):
        spec_for(policy, [])


def test_neither_the_policy_nor_a_value_stands_in_the_command_line(workspace: Path) -> None:
    policy = shell_policy(workspace, environment=environment_with(request_names=("KEY",), set={"TOKEN": "of-the-policy"}))
    spec = spec_for(policy, ["true"], env={"KEY": "of-the-request"})
    assert "of-the" not in " ".join(spec.argv) and "of-the" not in repr(spec)


def test_a_session_is_fed_command_after_command(workspace: Path) -> None:
    with started(spec_for(shell_policy(workspace), ["bash"])) as process:
        assert process.stdin is not None and process.stdout is not None
        for number in range(5):
            process.stdin.write(f"echo {number}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline() == f"{number}\n".encode()
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killing_it_ends_the_tree(number: signal.Signals, workspace: Path) -> None:
    marker = f"7{time.time_ns() % 10**9}"
    spec = spec_for(shell_policy(workspace), ["bash", "-c", f"setsid sleep {marker} & sleep {marker}"])
    with started(spec, start_new_session=True) as process:
        assert until(lambda: is_running(marker))
        os.kill(process.pid, number)
        process.wait(30)
        assert until(lambda: not is_running(marker))


@pytest.mark.parametrize("held", ["its pipes", "nothing"])
def test_the_death_of_its_caller_ends_the_tree(held: str, workspace: Path) -> None:
    """Also while somebody else still holds the ends of its pipes, so that only the caller's end can be the reason."""
    marker = f"7{time.time_ns() % 10**9}"
    program = textwrap.dedent(
        """
        import subprocess, sys, time
        from pathlib import Path
        from fable_exec import AsyncExecutionBroker
        from fable_exec.adapters import BlockingAgentWorkspace
        from tests.adapters.places import shell_policy
        with BlockingAgentWorkspace(AsyncExecutionBroker(shell_policy(Path(sys.argv[1])))) as ws:
            spec = ws.launch(["bash", "-c", f"setsid sleep {sys.argv[2]} & sleep {sys.argv[2]}"])
        subprocess.Popen(spec.argv, env=spec.env, cwd=spec.cwd, stdin=0, stdout=1, stderr=subprocess.DEVNULL)
        time.sleep(60)
        """
    )
    stdin, feed = os.pipe()
    read, stdout = os.pipe()
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    caller = subprocess.Popen(
        [sys.executable, "-c", program, str(workspace), marker],
        stdin=stdin,
        stdout=stdout,
        env=environment,
    )
    try:
        for descriptor in (stdin, stdout):
            os.close(descriptor)
        assert until(lambda: is_running(marker))
        if held == "nothing":
            os.close(feed)
            os.close(read)
        caller.kill()
        caller.wait()
        assert until(lambda: not is_running(marker))
    finally:
        caller.kill()
        caller.wait()
        if held != "nothing":
            os.close(feed)
            os.close(read)


def test_one_whose_caller_is_gone_already_starts_nothing(workspace: Path) -> None:
    spec = spec_for(shell_policy(workspace), ["bash", "-c", "echo began > /tmp/began; sleep 5"])
    argv = [word if word != str(os.getpid()) else "1" for word in spec.argv]
    with subprocess.Popen(argv, env=spec.env, cwd=spec.cwd, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.wait(30) == 143
        assert process.stderr is not None and b"nothing was started" in process.stderr.read()
        process.stderr.close()


def test_more_output_than_the_policy_keeps_ends_it_or_passes_through(workspace: Path) -> None:
    policy = shell_policy(workspace, max_output_bytes=1000)
    script = "head -c 300000 /dev/zero; echo over"
    status, out, _ = finished(spec_for(policy, ["bash", "-c", script]))
    assert (status, len(out)) == (137, 1000)
    status, out, _ = finished(spec_for(policy, ["bash", "-c", script], on_output_limit="truncate"))
    assert (status, len(out), out[-5:]) == (0, 300_005, b"over\n")


def test_a_policy_in_a_variable_is_read_as_strictly_as_one_in_a_file(workspace: Path) -> None:
    document = dump_json(shell_policy(workspace))
    for flags, value, status, words in (
        (("--policy-env", "OURS"), None, 125, "OURS is not set"),
        (("--policy-env", "OURS"), "{", 125, "not a JSON document"),
        (("--policy-env", "OURS"), '{"workspace": "/tmp", "unknown": 1}', 125, "unknown"),
        (("--policy-env", "OURS", "--policy", "p.toml"), document, 2, "either --policy or --policy-env"),
        (("--policy-env", "OURS"), document, 0, ""),
    ):
        typed = typed_here("run", *flags, "--", "true", env={} if value is None else {"OURS": value})
        assert typed.returncode == status and words in typed.stderr.decode(), typed.stderr


def test_a_frozen_application_has_nothing_to_start_it_with(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start itself, and that one itself again."""
    policy = policy_for(workspace)
    with BlockingAgentWorkspace(AsyncExecutionBroker(policy)) as ws:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        with pytest.raises(LaunchFailed) as caught:
            ws.launch(["true"])
    assert caught.value.stage == "interpreter"
