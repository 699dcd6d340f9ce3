"""What is armed, what is refused, what is written, and the probe of macOS: on Linux, with a sandbox-exec that writes down."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.errors import BoundaryUnproved, PolicyError
from fable_exec.procident import ProcessHandle
from fable_exec.seatbelt import (
    MACOS_LIMITATIONS,
    ConfinedArguments,
    HostBoundary,
    confined_args,
    probe,
    render,
    sandboxed,
    smoke_probe,
)
from fable_exec.seatbelt.sandboxed import run_sandboxed
from tests.ports import free_port
from tests.seatbelt.boundaries import CASES, Case, place
from tests.seatbelt.sandboxes import OBEDIENT, exits, fake, given
from tests.waiting import until

pytestmark = pytest.mark.requires_ability("linux")

DIGEST = "ab" * 32
ARMED = {"FABLE_EXEC_HOST_SEATBELT": "1", "FABLE_EXEC_HOST_SEATBELT_PROBE_SHA256": DIGEST}
ARGV = ("/bin/echo", "-n", "--", "x y")


@pytest.fixture(autouse=True)
def _temporary_files_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is left there was left by this test, and by no other that runs at the same time."""
    with tempfile.TemporaryDirectory(prefix="fx-") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield


@pytest.fixture
def host() -> Iterator[Case]:
    with place() as root:
        yield CASES["minimal"](root)


def arguments(host: Case, execution: Path, environment: dict[str, str], **more: Any) -> ConfinedArguments:
    return confined_args(execution, ARGV, host.boundary, host.workspace, host.spec, environment=environment, **more)


@pytest.mark.parametrize("word", [None, "", " ", "0", "false", "No", "OFF"])
def test_unarmed_arguments_are_left_alone(host: Case, tmp_path: Path, word: str | None) -> None:
    found = arguments(host, tmp_path, {} if word is None else {"FABLE_EXEC_HOST_SEATBELT": word}, platform="darwin")
    assert (found.argv, found.record) == (ARGV, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["2", "enabled", "y", "ja"])
def test_a_slip_in_the_setting_runs_nothing_unconfined(host: Case, tmp_path: Path, word: str) -> None:
    with pytest.raises(PolicyError, match="FABLE_EXEC_HOST_SEATBELT: must be one of"):
        arguments(host, tmp_path, {"FABLE_EXEC_HOST_SEATBELT": word}, platform="darwin")


@pytest.mark.parametrize("word", ["1", "true", "Yes", " ON "])
def test_armed_arguments_run_under_the_profile_that_lies_in_the_execution(host: Case, tmp_path: Path, word: str) -> None:
    execution, program = tmp_path / "execution", fake(tmp_path / "bin", OBEDIENT)
    execution.mkdir(mode=0o700)
    found = arguments(host, execution, {**ARMED, "FABLE_EXEC_HOST_SEATBELT": word}, platform="darwin", sandbox_exec=program)
    file, profile = execution / "host-seatbelt.sb", render(host.boundary, host.workspace, host.spec)
    assert found.argv == (str(program), "-f", str(file), "--", *ARGV)
    assert [each.name for each in execution.iterdir()] == ["host-seatbelt.sb"]
    assert file.read_bytes() == profile and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert found.record is not None and found.record.to_members() == {
        "kind": "macos-seatbelt",
        "profile_sha256": hashlib.sha256(profile).hexdigest(),
        "kernel_probe_sha256": DIGEST,
        "known_limitations": list(MACOS_LIMITATIONS),
    }


REFUSALS: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "another platform": ({}, {"platform": "linux"}, "held by macOS alone"),
    "no sandbox-exec": ({}, {"sandbox_exec": Path("/nonexistent/sandbox-exec")}, "is not there"),
    "no digest": ({"FABLE_EXEC_HOST_SEATBELT_PROBE_SHA256": ""}, {}, "must be the 64 hexadecimal digits"),
    "a short digest": ({"FABLE_EXEC_HOST_SEATBELT_PROBE_SHA256": "ab" * 31}, {}, "must be the 64 hexadecimal digits"),
    "no hexadecimal digest": ({"FABLE_EXEC_HOST_SEATBELT_PROBE_SHA256": "xy" * 32}, {}, "must be the 64 hexadecimal digits"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_armed_and_not_provable_is_refused_and_writes_nothing(host: Case, tmp_path: Path, name: str) -> None:
    settings, options, message = REFUSALS[name]
    execution = tmp_path / "execution"
    execution.mkdir()
    usual: dict[str, Any] = {"platform": "darwin", "sandbox_exec": fake(tmp_path / "bin", OBEDIENT)}
    with pytest.raises(BoundaryUnproved, match=message) as caught:
        arguments(host, execution, {**ARMED, **settings}, **{**usual, **options})
    assert isinstance(caught.value, RuntimeError)
    assert list(execution.iterdir()) == []


def test_a_profile_that_could_be_read_in_two_ways_is_not_handed_over(tmp_path: Path) -> None:
    with place() as root:
        each = CASES["unicode"](root)
        with pytest.raises(BoundaryUnproved, match="not printable ASCII"):
            arguments(each, tmp_path, ARMED, platform="darwin", sandbox_exec=fake(tmp_path / "bin", OBEDIENT))
        assert [found.name for found in tmp_path.iterdir()] == ["bin"]


def with_free_port(host: Case) -> HostBoundary:
    return attrs.evolve(host.boundary, reserved_ports=(free_port(),))


def leftovers(host: Case) -> list[str]:
    """What probes leave: in the root, and of profiles and sockets."""
    temporary = [
        name for name in os.listdir(tempfile.gettempdir()) if name.startswith(("fable-exec-profile-", "fable-exec-probe-"))
    ]
    return [*(str(path) for path in host.boundary.workspace_roots[0].glob(".fable-exec-probe-*")), *temporary]


def test_the_probe_hands_its_program_to_sandbox_exec_and_cleans_up(host: Case, tmp_path: Path) -> None:
    boundary, program = with_free_port(host), fake(tmp_path / "bin", exits(0))
    before = leftovers(host)
    found = smoke_probe(boundary, platform="darwin", sandbox_exec=program)
    told = given(program)
    assert found.identity == boundary.identity()
    assert found.probe_sha256 == hashlib.sha256(told["profile"].encode()).hexdigest()
    assert (told["mode"], told["directory_mode"], told["session"]) == (0o600, 0o700, True)
    assert told["environment"] in (["PATH"], ["LC_CTYPE", "PATH"])
    assert Path(told["cwd"]).is_relative_to(boundary.workspace_roots[0])
    assert [told["arguments"][0], told["arguments"][2], *told["arguments"][4:7]] == ["-f", "--", "-I", "-S", "-B"]
    assert f'(subpath "{told["cwd"]}")' in told["profile"]
    assert leftovers(host) == before


@pytest.mark.parametrize(
    ("then", "finding"), [(exits(40), 40), (exits(41), 41), (exits(42), 42), (exits(43), 43), (OBEDIENT, 41)]
)
def test_the_probe_tells_what_got_through(host: Case, tmp_path: Path, then: str, finding: int) -> None:
    """The last one runs the real program, which is not confined then and reads its sibling."""
    before = leftovers(host)
    with pytest.raises(BoundaryUnproved) as caught:
        smoke_probe(with_free_port(host), platform="darwin", sandbox_exec=fake(tmp_path / "bin", then))
    assert caught.value.finding == finding
    assert leftovers(host) == before


def test_the_probe_is_over_after_its_time(host: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.3)
    with pytest.raises(BoundaryUnproved, match="did not end within") as caught:
        smoke_probe(with_free_port(host), platform="darwin", sandbox_exec=fake(tmp_path / "bin", "import time; time.sleep(600)"))
    assert caught.value.finding == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"platform": "linux"}, "held by macOS alone"), ({"platform": "darwin", "sandbox_exec": Path("/no/such")}, "is not there")],
)
def test_without_seatbelt_there_is_no_probe(host: Case, options: dict[str, object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        smoke_probe(with_free_port(host), **options)  # type: ignore[arg-type]  # passed on as given


def test_a_probe_needs_a_reserved_port_that_is_free(host: Case, tmp_path: Path) -> None:
    program = fake(tmp_path / "bin", exits(0))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        taken = int(holder.getsockname()[1])
        for ports in ((), (taken,)):
            with pytest.raises(BoundaryUnproved, match="a reserved port that is free"):
                smoke_probe(attrs.evolve(host.boundary, reserved_ports=ports), platform="darwin", sandbox_exec=program)
        smoke_probe(attrs.evolve(host.boundary, reserved_ports=(taken, free_port())), platform="darwin", sandbox_exec=program)
    assert list(host.boundary.workspace_roots[0].glob(".fable*")) == []


def test_what_is_run_under_a_profile_is_bounded_and_its_group_ends(host: Case, tmp_path: Path) -> None:
    program = fake(tmp_path / "bin", OBEDIENT)
    text = "import os, time\nif os.fork() == 0:\n    open('pid', 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
    text += "while not os.path.exists('pid') or not open('pid').read(): pass\nprint('x' * 200000, flush=True)"
    ran = run_sandboxed(
        program,
        b"(version 1)",
        (sys.executable, "-c", text),
        cwd=host.workspace,
        environment={},
        timeout_seconds=60,
        max_output_bytes=1000,
    )
    assert (ran.status, ran.stdout) == (0, b"x" * 1000)
    assert "x" not in repr(ran)
    survivor = int((host.workspace / "pid").read_text())
    until(lambda: not is_alive(survivor))


def test_who_writes_without_end_after_the_program_ended_is_not_read_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def always_more(process: object, output: bytearray, most: int) -> bool:
        assert len(output) < most, "it was read beyond the bound"
        output.append(0)
        return True

    monkeypatch.setattr(ProcessHandle, "wait", lambda handle, seconds: True)
    monkeypatch.setattr(sandboxed, "_read", always_more)
    bounds = {"timeout_seconds": 10, "max_output_bytes": 100}
    ran = run_sandboxed(fake(tmp_path / "bin", exits(0)), b"(version 1)", ["true"], cwd=tmp_path, environment={}, **bounds)
    assert len(ran.stdout) == 100


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_the_profile_is_gone_when_the_program_could_not_be_started(host: Case) -> None:
    before = leftovers(host)
    with pytest.raises(FileNotFoundError):
        run_sandboxed(
            Path("/no/such"),
            b"(version 1)",
            ("/bin/true",),
            cwd=host.workspace,
            environment={},
            timeout_seconds=1,
            max_output_bytes=1,
        )
    assert leftovers(host) == before


def test_a_program_that_ends_at_once_has_its_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a zombie before anybody could look at it."""
    started = subprocess.Popen

    def ended(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = started(*arguments, **options)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    monkeypatch.setattr(subprocess, "Popen", ended)
    bounds = {"timeout_seconds": 10, "max_output_bytes": 10}
    ran = run_sandboxed(fake(tmp_path / "bin", exits(43)), b"(version 1)", ["true"], cwd=tmp_path, environment={}, **bounds)
    assert ran.status == 43
