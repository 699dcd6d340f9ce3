"""Executions within a host boundary, for real: what they get, what the record says, and that a provider must be ready first."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.errors import Conflict, InvalidRequest, LaunchFailed, PolicyError, ProviderUnavailable
from fable_exec.lifecycle import TerminalReason
from fable_exec.policy import BrokerPolicy, Confinement, EnvironmentPolicy
from fable_exec.providers import ProviderSpec
from fable_exec.seatbelt import LINUX_LIMITATIONS, HostBoundary
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor
from fable_exec.supervisor.starting import Starts
from fable_exec.supervisor.zygotes import KeeperZygotes
from fable_exec.testing.leaks import nothing_left
from tests.anothers import reachable_directory
from tests.ports import free_port
from tests.supervisor.jobs import Jobs
from tests.waiting import LONG_SECONDS

pytestmark = pytest.mark.requires_ability("confinement")

SECRET = "sk-ant-marker-51c0de"


@pytest.fixture
def boundary(tmp_path: Path) -> HostBoundary:
    return boundary_in(tmp_path.resolve())


def boundary_in(root: Path) -> HostBoundary:
    """With what it names made in `root`."""
    for name in ("projects/ws/one", "projects/ws/two", "engine", "cache", "tools/bin"):
        (root / name).mkdir(parents=True)
    for file in ("engine/code", "tools/data", "projects/ws/two/secret"):
        (root / file).write_text("text\n")
    system = tuple(dict.fromkeys(Path(each).resolve() for each in ("/usr/bin", "/bin", "/usr/sbin", "/sbin")))
    return HostBoundary(
        workspace_roots=(root / "projects/ws",),
        protected_root=root / "projects",
        runtime_read_paths=(root / "tools",),
        runtime_write_paths=(root / "cache",),
        child_path=(root / "tools/bin", *system),
        reserved_ports=(free_port(),),
        engine_source=root / "engine",
    )


def spec_in(boundary: HostBoundary, *argv: str, **more: Any) -> ExecutionSpec:
    workspace = boundary.workspace_roots[0] / "one"
    return ExecutionSpec(argv=argv, workspace=workspace, boundary=boundary, **{"stop_grace_seconds": 2.0, **more})


def policy_in(boundary: HostBoundary, *allowed: str, **more: Any) -> BrokerPolicy:
    return BrokerPolicy(workspace=boundary.workspace_roots[0] / "one", allowed_executables=allowed, **more)


def ended(jobs: Jobs, spec: ExecutionSpec) -> Execution:
    return jobs.supervisor.wait(jobs.note(jobs.supervisor.start(spec)).execution_id, LONG_SECONDS)


def printed(execution: Execution) -> dict[str, Any]:
    """The object that a job wrote."""
    assert execution.exit_code == 0, execution.runner_log.read_text()
    found: dict[str, Any] = json.loads(execution.runner_log.read_text())
    return found


PROGRAM = """
import json, os, socket, sys
root, port, socket_path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def outcome(attempt):
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "done"
def append(name):
    with open(f"{root}/{name}", "a") as file:
        file.write("x")
attempts = {f"read {name}": (lambda name=name: open(f"{root}/{name}").close())
            for name in ("engine/code", "tools/data", "projects/ws/two/secret")}
attempts |= {f"write {name}": (lambda name=name: append(name))
             for name in ("engine/code", "tools/data", "cache/new", "projects/ws/one/new", "projects/ws/two/new")}
attempts["write temporary"] = lambda: open(os.environ["TMPDIR"] + "/file", "w").close()
attempts["read spec"] = lambda: open(os.environ["FABLE_EXEC_DIR"] + "/spec.md").close()
attempts["bind reserved"] = lambda: socket.socket().bind(("127.0.0.1", port))
attempts["connect socket"] = lambda: socket.socket(socket.AF_UNIX).connect(socket_path)
print(json.dumps({"found": {name: outcome(attempt) for name, attempt in attempts.items()}, "environment": dict(os.environ)}))
"""
ALLOWED = ("read engine/code", "read tools/data", "write cache/new", "write projects/ws/one/new", "write temporary", "read spec")


def test_a_job_gets_the_boundary_its_environment_and_no_more(
    jobs: Jobs, boundary: HostBoundary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, path = tmp_path.resolve(), f"/tmp/fable-exec-{uuid.uuid4().hex}"
    for name, value in {"ANTHROPIC_API_KEY": SECRET, "XDG_CACHE_HOME": SECRET, "LC_TIME": "C", "HOME": "/home/somebody"}.items():
        monkeypatch.setenv(name, value)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        try:
            listener.listen()
            spec = spec_in(
                boundary,
                *("python3", "-c", PROGRAM, str(root), str(boundary.reserved_ports[0]), path),
                spec_text="build it\n",
                environment={"NAMED": "n", "PATH": "/elsewhere"},
            )
            execution = ended(jobs, spec)
        finally:
            os.unlink(path)
    told = printed(execution)
    assert {name for name, outcome in told["found"].items() if outcome == "done"} == set(ALLOWED), told["found"]
    assert told["found"]["bind reserved"] == "PermissionError"

    environment, runtime = told["environment"], execution.document["runtime_directory"]
    assert SECRET not in json.dumps(environment)
    assert environment["PATH"] == ":".join(map(str, boundary.child_path))
    assert {name: environment[name] for name in ("HOME", "LC_TIME", "NAMED", "TMPDIR", "FABLE_EXEC_ID", "FABLE_EXEC_DIR")} == {
        "HOME": "/home/somebody",
        "LC_TIME": "C",
        "NAMED": "n",
        "TMPDIR": f"{runtime}/tmp",
        "FABLE_EXEC_ID": execution.execution_id,
        "FABLE_EXEC_DIR": str(execution.directory),
    }
    assert (environment["FABLE_EXEC_TARGET_DIR"], environment["FABLE_EXEC_SUPERVISED"]) == (str(spec.workspace), "1")
    assert environment["GIT_CONFIG_NOSYSTEM"] == "1" and environment["XDG_CACHE_HOME"] == f"{runtime}/cache"

    record = execution.document["boundary"]
    assert {len(bytes.fromhex(record.pop(name))) for name in ("profile_sha256", "kernel_probe_sha256")} == {32}
    assert record == {
        "kind": "linux-kernel",
        "known_limitations": list(LINUX_LIMITATIONS),
        "config_sha256": boundary.identity()["config_sha256"],
    }
    assert {each["state"] for each in execution.document["confinement"]} == {"active"}


def test_a_policy_narrows_a_boundary_and_never_widens_it(jobs: Jobs, boundary: HostBoundary, tmp_path: Path) -> None:
    root, (_, *system) = tmp_path.resolve(), map(str, boundary.child_path)
    engine = str(root / "engine")
    policy = policy_in(
        boundary,
        "python3",
        environment=EnvironmentPolicy(path=tuple(system), inherit=("PYTEST_CURRENT_TEST",), set={"SET": "s"}),
        confinement=attrs.evolve(Confinement.off(), network="off", runtime_read_paths=(engine, str(root / "projects/ws/two"))),
    )
    program = PROGRAM.replace('["bind reserved"] = lambda: socket.socket().bind(("127.0.0.1", port))', '["bind any"] = dict')
    argv = ("python3", "-c", program, str(root), "0", "/nowhere")
    execution = ended(jobs, spec_in(boundary, *argv, policy=policy, spec_text=""))
    told = printed(execution)
    done = {name for name, outcome in told["found"].items() if outcome == "done"}
    lost = {"read tools/data", "write cache/new"}  # places that the policy does not list
    assert done == {*ALLOWED, "bind any"} - lost
    environment = told["environment"]
    assert (environment["PATH"], environment["SET"], "PYTEST_CURRENT_TEST" in environment) == (":".join(system), "s", False)
    document = execution.document
    assert {each["state"] for each in document["confinement"]} == {"active"}
    assert document["boundary"]["known_limitations"] == [
        "preexisting-cross-boundary-hardlinks",
        "provider-credential-store-visible-to-confined-build",
    ]


def test_a_workspace_outside_of_the_roots_is_refused_and_nothing_is_made(boundary: HostBoundary, tmp_path: Path) -> None:
    with Supervisor(tmp_path / "executions") as supervisor:
        for workspace in (boundary.workspace_roots[0], boundary.protected_root, tmp_path / "cache"):
            with pytest.raises(PolicyError, match="workspace: must lie inside one of workspace_roots"):
                supervisor.start(attrs.evolve(spec_in(boundary, "true"), workspace=workspace))
    assert not (tmp_path / "executions").exists()


def test_a_policy_without_a_directory_of_the_boundarys_path_is_refused(jobs: Jobs, boundary: HostBoundary) -> None:
    policy = policy_in(boundary, "true", environment=EnvironmentPolicy(path=("/opt",)))
    with pytest.raises(PolicyError, match=r"environment\.path: no directory is in both"):
        jobs.supervisor.start(spec_in(boundary, "true", policy=policy))


def test_another_boundary_is_another_request(jobs: Jobs, boundary: HostBoundary) -> None:
    spec = spec_in(boundary, "true", execution_id=str(uuid.uuid4()))
    execution = ended(jobs, spec)
    assert jobs.supervisor.start(attrs.evolve(spec, boundary=attrs.evolve(boundary))).document == execution.document
    others = (None, attrs.evolve(boundary, reserved_ports=()), attrs.evolve(boundary, engine_source=None))
    for other in others:
        with pytest.raises(Conflict):
            jobs.supervisor.start(attrs.evolve(spec, boundary=other))
    assert attrs.evolve(boundary, engine_source=None).config_sha256 == boundary.config_sha256


def test_a_job_that_never_ran_has_a_record_without_digests(jobs: Jobs, boundary: HostBoundary) -> None:
    execution = ended(jobs, spec_in(boundary, "no-such-program"))
    assert execution.termination_reason is TerminalReason.LAUNCH_FAILED
    record = execution.document["boundary"]
    assert (record["kind"], record["profile_sha256"], record["kernel_probe_sha256"]) == ("linux-kernel", None, None)


# Providers

CLAUDE_READY = json.dumps({"is_error": False, "result": "OK"})


def claude(boundary: HostBoundary, logged_in: bool) -> Path:
    """A claude that counts how often it is asked, and prints a secret. Returns the count's file."""
    answer, status = json.dumps({"loggedIn": logged_in, "email": SECRET}), int(not logged_in)
    asked = boundary.runtime_write_paths[0] / "asked"
    auth = f"printf '%s' '{answer}'; exit {status}"
    program = boundary.child_path[0] / "claude"
    program.write_text(
        f"#!/bin/sh\necho x >> {asked}\necho {SECRET} >&2\nif [ $1 = auth ]; then {auth}; fi\nprintf '%s' '{CLAUDE_READY}'\n"
    )
    program.chmod(0o755)
    return asked


def left_in(place: Path) -> list[Path]:
    """Files that hold the secret."""
    return [path for path in place.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_provider_that_is_not_ready_is_refused_before_anything_is_accepted(boundary: HostBoundary, tmp_path: Path) -> None:
    claude(boundary, logged_in=False)
    root, spec = tmp_path / "executions", spec_in(boundary, "true", provider="claude")
    with nothing_left(), Supervisor(root) as supervisor:
        for start in (supervisor.start, lambda spec: asyncio.run(supervisor.start_async(spec))):
            with pytest.raises(ProviderUnavailable, match="provider_auth_unavailable_in_confinement") as caught:
                start(spec)
            assert caught.value.classification == "provider_auth_unavailable_in_confinement"
            assert caught.value.action.startswith("Run `claude auth login`") and caught.value.action in str(caught.value)
            assert SECRET not in str(caught.value)
        assert supervisor.list() == []
    assert not root.exists()
    assert sorted(path.name for path in boundary.workspace_roots[0].iterdir()) == ["one", "two"]
    assert left_in(tmp_path) == [boundary.child_path[0] / "claude"]


def test_a_provider_that_is_ready_is_on_record_and_asked_once(jobs: Jobs, boundary: HostBoundary) -> None:
    """Asked for again, what is there is returned, whether the provider is ready by then or not."""
    asked = claude(boundary, logged_in=True)
    spec = spec_in(boundary, "true", provider="claude", execution_id=str(uuid.uuid4()))
    execution = ended(jobs, spec)
    assert (execution.exit_code, execution.document["provider"]) == (0, "claude")
    assert asked.read_text() == "x\n" * 2  # logged in, and answering
    claude(boundary, logged_in=False)
    assert jobs.supervisor.start(spec).document == execution.document
    assert asyncio.run(jobs.supervisor.start_async(spec)).document == execution.document
    assert asked.read_text() == "x\n" * 2
    assert left_in(execution.directory) == []


def test_what_is_wrong_with_a_request_is_told_before_anybody_is_asked(boundary: HostBoundary, tmp_path: Path) -> None:
    asked = claude(boundary, logged_in=True)
    spec = spec_in(boundary, "true", provider="claude")
    with Supervisor(tmp_path / "executions") as supervisor:
        with pytest.raises(PolicyError):
            supervisor.start(attrs.evolve(spec, workspace=boundary.protected_root))
        with pytest.raises(InvalidRequest, match="no provider is called 'gemini'"):
            supervisor.start(attrs.evolve(spec, provider="gemini"))
    with Supervisor(spec.workspace / "executions") as supervisor, pytest.raises(InvalidRequest, match="its own record"):
        supervisor.start(spec)
    assert not asked.exists()


@pytest.fixture
def open_place() -> Iterator[Path]:
    with reachable_directory() as place:
        yield place


@pytest.mark.requires_ability("root")
def test_a_provider_is_asked_as_whom_the_job_will_run(open_place: Path, tmp_path: Path) -> None:
    boundary = boundary_in(open_place)
    own = ProviderSpec(name="own", auth_command=("sh", "-c", "[ $(id -u) = 65534 ] && [ -w . ]"))
    workspace = boundary.workspace_roots[0] / "one"
    with Supervisor(tmp_path / "executions", providers=(own,)) as supervisor:
        with pytest.raises(ProviderUnavailable):
            supervisor.start(spec_in(boundary, "true", provider="own"))
        os.chown(workspace, 65534, 65534)
        started = supervisor.start(spec_in(boundary, "id", "-u", provider="own"))
        execution = supervisor.wait(started.execution_id, LONG_SECONDS)
    assert (execution.exit_code, execution.runner_log.read_text()) == (0, "65534\n")


def test_without_a_boundary_no_provider_is_asked(jobs: Jobs) -> None:
    execution = ended(jobs, jobs.spec("true", provider="aider"))
    assert (execution.document["provider"], execution.document["boundary"]) == ("aider", None)


@pytest.mark.parametrize("provider", ["", "x" * 257, 3])
def test_a_provider_is_named(jobs: Jobs, provider: Any) -> None:
    with pytest.raises(InvalidRequest, match="provider must be the name of one"):
        jobs.spec("true", provider=provider)


def test_elsewhere_than_on_linux_nothing_is_kept_and_nothing_is_asked(boundary: HostBoundary, tmp_path: Path) -> None:
    asked = claude(boundary, logged_in=True)
    starts = Starts(tmp_path / "executions", KeeperZygotes(), platform="darwin")
    with pytest.raises(LaunchFailed, match="kept on Linux alone, and this is darwin") as caught:
        starts.start(spec_in(boundary, "true", provider="claude"), str(uuid.uuid4()))
    assert caught.value.stage == "keeper"
    assert not (tmp_path / "executions").exists() and not asked.exists()
