"""The boundary on this kernel: the smoke program for real, whole and broken on purpose; the compiled policy; the environment."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import Confinement, ExecutionBroker
from fable_exec.bounded import child_environment, confinement_of, policy_of, rooms, smoke_probe
from fable_exec.bounded.probing import run_smoke
from fable_exec.errors import BoundaryUnproved, PolicyError
from fable_exec.keeper.surroundings import DIRECTORIES
from fable_exec.seatbelt import ConfinementRecord, HostBoundary, smoke
from fable_exec.seatbelt.scratch import Scratch, smoke_scratch
from tests.confinement.places import in_modes
from tests.doors import DIGEST, TOKEN
from tests.ports import free_port

pytestmark = pytest.mark.requires_ability("confinement")


@pytest.fixture
def boundary(tmp_path: Path) -> HostBoundary:
    root = tmp_path.resolve()
    for name in ("projects/ws/one", "projects/ws/two", "engine", "cache", "lib"):
        (root / name).mkdir(parents=True)
    for file in ("spec.md", "engine/code", "lib/data", "projects/ws/two/secret"):
        (root / file).write_text("text\n")
    return HostBoundary(
        workspace_roots=(root / "projects/ws",),
        protected_root=root / "projects",
        runtime_read_paths=(root / "lib",),
        runtime_write_paths=(root / "cache",),
        reserved_ports=(free_port(),),
        engine_source=root / "engine",
    )


def test_the_boundary_holds(boundary: HostBoundary) -> None:
    found = smoke_probe(boundary)
    assert found.identity == boundary.identity()
    assert len(bytes.fromhex(found.probe_sha256)) == 32
    assert sorted(path.name for path in boundary.workspace_roots[0].iterdir()) == ["one", "two"]
    assert ConfinementRecord.of_linux("a" * 64, found.probe_sha256).kind == "linux-kernel"


@pytest.fixture
def scratch(boundary: HostBoundary) -> Iterator[Scratch]:
    with smoke_scratch(boundary) as made:
        yield made


@pytest.mark.parametrize("status", [smoke.SIBLING, smoke.SOCKET, smoke.PORT])
def test_a_boundary_that_is_broken_on_purpose_is_found_out(boundary: HostBoundary, scratch: Scratch, status: int) -> None:
    whole = confinement_of(boundary, scratch.spec)
    paths = {smoke.SIBLING: scratch.secret.parent, smoke.SOCKET: scratch.socket_path.parent}
    more = (*whole.runtime_read_paths, str(paths[status])) if status in paths else whole.runtime_read_paths
    ports = () if status == smoke.PORT else whole.reserved_ports
    broken = attrs.evolve(whole, runtime_read_paths=more, reserved_ports=ports)
    assert run_smoke(boundary, scratch, broken)[0] == status


@in_modes("namespace", "plain")
def test_the_boundary_holds_however_programs_are_launched(
    boundary: HostBoundary, scratch: Scratch, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best mode is the one of the other tests."""
    policy = rooms._policy
    monkeypatch.setattr(rooms, "_policy", lambda *given, **more: attrs.evolve(policy(*given, **more), launch=mode))  # type: ignore[arg-type]  # one of the modes
    whole = confinement_of(boundary, scratch.spec)
    assert run_smoke(boundary, scratch, whole)[0] == smoke.OK
    assert run_smoke(boundary, scratch, attrs.evolve(whole, reserved_ports=()))[0] == smoke.PORT


@pytest.mark.requires_ability("root")
def test_what_root_makes_in_a_root_of_somebody_else_is_theirs(boundary: HostBoundary) -> None:
    os.chown(boundary.workspace_roots[0], 65534, 65534)
    with smoke_scratch(boundary) as made:
        for path in (made.workspace, made.secret, made.spec, made.workspace.parent):
            assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65534)
    assert sorted(path.name for path in boundary.workspace_roots[0].iterdir()) == ["one", "two"]


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_a_place_that_was_swapped_while_it_was_made_is_not_used(
    boundary: HostBoundary, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its root may belong to somebody who can rename what is in it."""
    elsewhere, made = tmp_path / "elsewhere", tempfile.mkdtemp
    elsewhere.mkdir()

    def swapped(**options: Any) -> str:
        place = Path(made(**options))
        place.rename(f"{place}.mine")
        place.symlink_to(elsewhere) if kind == "link" else place.mkdir(0o777)
        return str(place)

    monkeypatch.setattr("fable_exec.seatbelt.scratch.tempfile.mkdtemp", swapped)
    with pytest.raises(OSError), smoke_scratch(boundary):
        pytest.fail("it was used")
    assert list(elsewhere.iterdir()) == []


def test_a_probe_that_cannot_write_proves_nothing(
    boundary: HostBoundary, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scratch.workspace / "written-by-the-probe").mkdir()
    assert run_smoke(boundary, scratch, confinement_of(boundary, scratch.spec))[0] == smoke.UNFIT


def test_a_port_that_somebody_holds_is_no_refusal(boundary: HostBoundary, scratch: Scratch) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", scratch.port))
        open_ports = attrs.evolve(confinement_of(boundary, scratch.spec), reserved_ports=())
        assert run_smoke(boundary, scratch, open_ports)[0] == smoke.PORT


def test_a_port_that_nobody_may_bind_anyway_is_no_refusal(boundary: HostBoundary, scratch: Scratch) -> None:
    low = attrs.evolve(scratch, port=next(port for port in range(1023, 0, -1) if nobody_listens(port)))
    whole = confinement_of(boundary, scratch.spec)
    assert run_smoke(boundary, low, attrs.evolve(whole, reserved_ports=(low.port,)))[0] == smoke.OK
    assert run_smoke(boundary, low, whole)[0] == smoke.PORT


def nobody_listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def test_a_finding_is_an_error_with_its_number(boundary: HostBoundary, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_ports(*given: object, **more: object) -> Confinement:
        return attrs.evolve(confinement_of(*given, **more), reserved_ports=())  # type: ignore[arg-type]  # passed on as given

    monkeypatch.setattr("fable_exec.bounded.probing.confinement_of", without_ports)
    with pytest.raises(BoundaryUnproved, match="could bind a reserved port") as caught:
        smoke_probe(boundary)
    assert caught.value.finding == 43


def test_a_broker_under_the_compiled_policy_has_the_boundary_and_no_more(boundary: HostBoundary) -> None:
    root, workspace = boundary.protected_root.parent, boundary.workspace_roots[0] / "one"
    policy = policy_of(boundary, workspace, root / "spec.md", allowed_executables=("sh", "cat", "python3"))
    assert policy.environment.path == tuple(map(str, boundary.child_path))
    with ExecutionBroker(attrs.evolve(policy, write_token_digest=DIGEST)) as broker:
        broker.unlock_writes(TOKEN)
        for path in ("spec.md", "engine/code", "lib/data"):
            assert broker.execute_command(("cat", str(root / path))).success, path
            assert not broker.execute_command(("sh", "-c", f"echo x >> {root / path}")).success, path
        for path in ("cache/new", "projects/ws/one/new"):
            assert broker.execute_command(("sh", "-c", f"echo x > {root / path}")).success, path
        assert not broker.execute_command(("cat", str(root / "projects/ws/two/secret"))).success
        bind = f"import socket; socket.socket().bind(('127.0.0.1', {boundary.reserved_ports[0]}))"
        assert "PermissionError" in broker.execute_command(("python3", "-c", bind)).stderr
    assert ((root / "cache/new").read_text(), (root / "spec.md").read_text()) == ("x\n", "text\n")


@pytest.mark.parametrize("network", ["full", "off"])
def test_the_policy_says_the_boundary(boundary: HostBoundary, network: str) -> None:
    found = confinement_of(boundary, network=network)  # type: ignore[arg-type]  # one of the words
    assert found.runtime_read_paths == tuple(map(str, (*boundary.runtime_read_paths, boundary.engine_source)))
    assert found.runtime_write_paths == tuple(map(str, boundary.runtime_write_paths))
    assert (found.network, found.reserved_ports) == (network, boundary.reserved_ports)
    assert found.protections == Confinement.strict().protections


def test_a_workspace_outside_of_the_roots_has_no_policy(boundary: HostBoundary) -> None:
    with pytest.raises(PolicyError, match="workspace: "):
        policy_of(boundary, boundary.protected_root, allowed_executables=("sh",))


def test_a_listed_program_of_a_sibling_has_no_policy(boundary: HostBoundary) -> None:
    """What is listed can be read with what it needs; a link in the workspace may be its program's work."""
    workspace, sibling = (boundary.workspace_roots[0] / name for name in ("one", "two"))
    (workspace / "tool").symlink_to(sibling / "secret")
    for entry in (sibling / "secret", workspace / "tool", f"{workspace}/../two/secret"):
        with pytest.raises(PolicyError, match=r"allowed_executables\[1\]: lies in protected_root and outside"):
            policy_of(boundary, workspace, allowed_executables=("sh", str(entry)))
    own = (str(workspace / "own"), str(boundary.protected_root / "engine/run"), "/usr/bin/env")
    (boundary.protected_root / "engine").mkdir()
    with_engine = attrs.evolve(boundary, engine_source=boundary.protected_root / "engine")
    assert policy_of(with_engine, workspace, allowed_executables=own).allowed_executables == own


def test_a_protected_root_that_linux_shows_to_every_command_has_no_policy(
    boundary: HostBoundary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fable_exec.bounded.compiled.SYSTEM_DIRECTORIES", (str(boundary.protected_root.parent),))
    with pytest.raises(PolicyError, match="protected_root: overlaps"):
        confinement_of(boundary)


def test_the_environment_is_an_allow_list(boundary: HostBoundary, tmp_path: Path) -> None:
    host = {
        **{name: name.lower() for name in ("HOME", "LANG", "LOGNAME", "NO_COLOR", "SHELL", "TERM", "USER", "LC_ALL", "LC_X")},
        **dict.fromkeys(
            ("PATH", "TMPDIR", "XDG_CONFIG_HOME", "ANTHROPIC_API_KEY", "LD_PRELOAD", "HOMEX", "FABLE_EXEC_ID"), "secret"
        ),
    }
    found = child_environment(boundary, tmp_path / "runtime", host, {"NAMED": "n", "TERM": "vt100", "PATH": "/elsewhere"})
    assert "secret" not in found.values()
    assert {name: found[name] for name in ("HOME", "LC_X", "TERM", "NAMED")} == {
        "HOME": "home",
        "LC_X": "lc_x",
        "TERM": "vt100",
        "NAMED": "n",
    }
    assert found["PATH"] == ":".join(map(str, boundary.child_path))
    assert found["TMPDIR"] == found["TMP"] == found["TEMP"] == str(tmp_path / "runtime/tmp")
    assert found["TMPPREFIX"] == str(tmp_path / "runtime/tmp/zsh")
    assert "CLAUDE_CONFIG_DIR" not in found
    own = {Path(value).relative_to(tmp_path / "runtime").parts[0] for value in found.values() if value.startswith(str(tmp_path))}
    assert own <= {*DIRECTORIES, "gitconfig"} and {"cache", "config", "data", "state", "npm", "bun", "claude", "tmp"} <= own
    assert os.environ.get("NAMED") is None
