"""Each field of Confinement is enforced: one test for each that fails if it is not. docs/reference/confinement.md lists them."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import Confinement, ConfinementUnavailable
from fable_exec.policy import PROTECTIONS, Protections
from tests.confinement.places import Tree, confined, in_modes, run
from tests.doors import TOKEN
from tests.ports import free_port

pytestmark = pytest.mark.requires_ability("linux")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "confinement.md"
ENFORCED = {
    **{f"protections.{name}": f"test_{name}_is_enforced" for name in PROTECTIONS},
    "network": "test_network_is_enforced",
    "connect_ports": "test_connect_ports_are_enforced",
    "bind_ports": "test_bind_ports_are_enforced",
    "runtime_read_paths": "test_runtime_read_paths_are_enforced",
    "runtime_write_paths": "test_runtime_write_paths_are_enforced",
    "reserved_ports": "test_reserved_ports_are_enforced",
    "planted_files": "test_planted_files_is_enforced",
    "observe": "test_observe_is_enforced",
}


def table() -> str:
    """The table of the page, a row for each field."""
    rows = [f"| `confinement.{field}` | `confinement/test_fields.py::{test}` |\n" for field, test in ENFORCED.items()]
    return "| field | the test that fails if it is not enforced |\n|---|---|\n" + "".join(rows)


def test_every_field_has_its_test_and_the_page_lists_them() -> None:
    fields = {field.name for field in attrs.fields(Confinement)} - {"protections"} | {
        f"protections.{name}" for name in PROTECTIONS
    }
    assert ENFORCED.keys() == fields
    assert [test for test in ENFORCED.values() if test not in globals()] == []
    assert table() in PAGE.read_text()


def without(protection: str) -> Confinement:
    """Strict confinement but for one protection: the control, under which the same attempt succeeds."""
    return Confinement(protections=Protections(**{protection: "off"}))  # type: ignore[arg-type]  # a protection's name


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of the host beside the workspace, writable for everybody."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "file").write_text("outside\n")
    (place / "file").chmod(0o666)
    return place / "file"


@contextlib.contextmanager
def listening(family: int, address: Any) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen()
        yield server


def connects(port: int) -> tuple[str, ...]:
    return ("python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)")


def listens(port: int) -> tuple[str, ...]:
    return ("python3", "-c", f"import socket; socket.create_server(('127.0.0.1', {port}))")


@in_modes()
def test_workspace_writes_is_enforced(mode: str, workspace: Path) -> None:
    before = Tree.of(workspace)
    with confined(workspace, mode) as broker:
        assert not broker.execute_command(("sh", "-c", "echo x > new")).success
    assert before.changes(Tree.of(workspace)) == []


@in_modes()
def test_host_writes_is_enforced(mode: str, workspace: Path, outside: Path) -> None:
    more = Confinement(runtime_read_paths=(str(outside.parent),))
    with confined(workspace, mode, unlocked=True, confinement=more) as broker:
        run(broker, "cat", str(outside))
        for text in (f"echo x > {outside}", f"rm {outside}", f"ln {outside} alias && echo x > alias", f"echo x > {outside}.new"):
            broker.execute_command(("sh", "-c", text))
    assert outside.read_text() == "outside\n"
    assert os.listdir(outside.parent) == ["file"]


@in_modes("slots", "namespace")
def test_host_metadata_is_enforced(mode: str, workspace: Path, outside: Path) -> None:
    more = Confinement(runtime_read_paths=(str(outside.parent),))
    before = Tree.of(outside.parent)
    with confined(workspace, mode, unlocked=True, confinement=more) as broker:
        for text in (f"chmod 600 {outside}", f"touch -d 2001-01-01 {outside}", f"setfattr -n user.x -v y {outside}"):
            broker.execute_command(("sh", "-c", text))
    assert before.changes(Tree.of(outside.parent)) == []


@in_modes()
def test_host_reads_is_enforced(mode: str, workspace: Path, outside: Path) -> None:
    with confined(workspace, mode) as broker:
        for place in (outside, Path(f"/proc/self/root{outside}"), Path(f"../{outside.parent.name}/file")):
            assert "outside" not in broker.execute_command(("cat", str(place))).stdout


@in_modes("slots", "namespace")
def test_later_files_is_enforced(mode: str, workspace: Path) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".envrc").write_text("kept\n")
    plant = ("sh", "-c", "echo x > .envrc; mkdir -p new; echo x > new/.envrc; true")
    with confined(workspace, mode, unlocked=True) as broker:
        told = run(broker, *plant).denials
    assert (workspace / ".envrc").read_text() == "kept\n"
    assert not (workspace / "new" / ".envrc").exists()
    assert [each.path for each in told if each.protection == "later_files"] == [".envrc", "new/.envrc"]
    with confined(workspace, mode, unlocked=True, confinement=without("later_files")) as broker:
        assert run(broker, *plant).denials == ()
    assert (workspace / "new" / ".envrc").exists()


@in_modes()
def test_network_is_enforced(mode: str, workspace: Path) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with confined(workspace, mode) as broker:
            assert not broker.execute_command(connects(port)).success
        with confined(workspace, mode, confinement=Confinement(network="full")) as broker:
            run(broker, *connects(port))


@in_modes()
def test_connect_ports_are_enforced(mode: str, workspace: Path) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as one, listening(socket.AF_INET, ("127.0.0.1", 0)) as other:
        ports = [server.getsockname()[1] for server in (one, other)]
        with confined(workspace, mode, confinement=Confinement(network="ports", connect_ports=(ports[0],))) as broker:
            run(broker, *connects(ports[0]))
            assert not broker.execute_command(connects(ports[1])).success
            for kind in ("SOCK_DGRAM", "SOCK_RAW", "SOCK_STREAM, 262"):  # UDP, raw, multipath TCP
                assert not broker.execute_command(("python3", "-c", f"from socket import *; socket(AF_INET, {kind})")).success


@in_modes()
def test_bind_ports_are_enforced(mode: str, workspace: Path) -> None:
    ports = [free_port(), free_port()]
    with confined(workspace, mode, confinement=Confinement(network="ports", bind_ports=(ports[0],))) as broker:
        run(broker, *listens(ports[0]))
        assert not broker.execute_command(listens(ports[1])).success


@in_modes()
def test_host_sockets_is_enforced(mode: str, workspace: Path, tmp_path: Path) -> None:
    name = f"\0fable-exec-test-{os.urandom(8).hex()}"
    short = Path(os.path.relpath(tmp_path / "s"))
    with listening(socket.AF_UNIX, str(short)), listening(socket.AF_UNIX, name):
        (tmp_path / "s").chmod(0o777)
        attempts = (repr(str(tmp_path / "s")), repr(name))
        for network in ("off", "full"):
            with confined(workspace, mode, confinement=Confinement(network=network)) as broker:
                for address in attempts:
                    text = f"from socket import *; socket(AF_UNIX).connect({address})"
                    assert not broker.execute_command(("python3", "-c", text)).success


@in_modes("slots", "namespace")
def test_other_processes_is_enforced(mode: str, workspace: Path) -> None:
    with confined(workspace, mode) as broker:
        assert not broker.execute_command(("sh", "-c", f"kill -0 {os.getpid()}")).success
        listed = run(broker, "sh", "-c", "cat /proc/*/comm 2>/dev/null | sort -u; true").stdout.split()
    if mode == "slots":
        assert set(listed) <= {"sh", "dash", "bash", "cat", "sort", "python3", "python"}, listed


@in_modes()
def test_whole_tree_end_is_enforced(mode: str, workspace: Path) -> None:
    leaving = (
        "(setsid sh -c 'while :; do echo x >> alive; sleep 0.02; done' >/dev/null 2>&1 &) ; while [ ! -s alive ]; do :; done"
    )
    with confined(workspace, mode, unlocked=True) as broker:
        run(broker, "sh", "-c", leaving)
        size = (workspace / "alive").stat().st_size
        time.sleep(0.2)  # what lives on writes ten times meanwhile
        assert (workspace / "alive").stat().st_size == size


@in_modes()
def test_kernel_surface_is_enforced(mode: str, workspace: Path) -> None:
    text = "import ctypes; raise SystemExit(0 if ctypes.CDLL(None).syscall({}, 0, 0, 0, 0, 0) != -1 else ctypes.get_errno() or 9)"
    unshare = "import os, ctypes; raise SystemExit(0 if ctypes.CDLL(None).unshare(0x10000000) == 0 else 9)"
    with confined(workspace, mode) as broker:
        assert broker.execute_command(("python3", "-c", unshare)).exit_code == 9
        assert "Seccomp:\t2" in run(broker, "cat", "/proc/self/status").stdout
        assert broker.execute_command(("python3", "-c", text.format(425))).exit_code != 0  # io_uring_setup


@in_modes()
def test_resources_is_enforced(mode: str, workspace: Path) -> None:
    from fable_exec import Limits

    with confined(workspace, mode, unlocked=True, limits=Limits(file_size_bytes=4096)) as broker:
        assert not broker.execute_command(("sh", "-c", "head -c 100000 /dev/zero > large")).success
    assert (workspace / "large").stat().st_size <= 4096
    insisting = Confinement(protections=Protections(resources="strict"))
    with confined(workspace, mode, confinement=insisting, limits=Limits(memory_bytes=1 << 30)) as broker:
        with contextlib.suppress(ConfinementUnavailable):
            told = {each.protection: each.state for each in broker.execute_command(("true",)).confinement}
            assert told["resources"] == "active"


@in_modes()
def test_runtime_read_paths_are_enforced(mode: str, workspace: Path, outside: Path) -> None:
    with confined(workspace, mode) as broker:
        assert not broker.execute_command(("cat", str(outside))).success
    with confined(workspace, mode, confinement=Confinement(runtime_read_paths=(str(outside.parent),))) as broker:
        run(broker, "cat", str(outside))


@in_modes()
def test_runtime_write_paths_are_enforced(mode: str, workspace: Path, outside: Path) -> None:
    cache, file = outside.parent / "cache", outside.parent / "settings"
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    file.touch(0o666)
    file.chmod(0o666)
    more = Confinement(runtime_write_paths=(str(cache), str(file)))
    attempt = ("sh", "-c", f"echo x >> {file} && echo x > {cache}/new")
    with confined(workspace, mode, confinement=more) as broker:
        assert not broker.execute_command(attempt).success
        run(broker, "cat", str(file))
        broker.unlock_writes(TOKEN)
        run(broker, *attempt)
        broker.execute_command(("sh", "-c", f"echo x >> {outside}"))  # in namespaces a private /tmp lies there
    assert (file.read_text(), (cache / "new").read_text(), outside.read_text()) == ("x\n", "x\n", "outside\n")


@in_modes()
def test_reserved_ports_are_enforced(mode: str, workspace: Path) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as server, listening(socket.AF_INET, ("127.0.0.1", 0)) as other:
        taken, reserved, free = server.getsockname()[1], free_port(), free_port()
        more = Confinement(network="full", reserved_ports=(reserved, taken))
        with confined(workspace, mode, confinement=more) as broker:
            run(broker, *connects(other.getsockname()[1]))
            run(broker, *listens(free))
            for attempt in (connects(taken), listens(reserved), fast_open(taken)):
                refused = broker.execute_command(attempt)
                assert not refused.success and "PermissionError" in refused.stderr, refused.stderr
        with confined(workspace, mode, confinement=Confinement(reserved_ports=(reserved,))) as broker:
            assert "PermissionError" in broker.execute_command(listens(reserved)).stderr


def fast_open(port: int) -> tuple[str, ...]:
    """Connect by sending."""
    text = f"from socket import *; socket(AF_INET).sendto(b'x', 0x20000000, ('127.0.0.1', {port}))"
    return ("python3", "-c", text)


@in_modes()
def test_observe_is_enforced(mode: str, workspace: Path, outside: Path) -> None:
    attempt = ("sh", "-c", f"echo x > /usr/x; cat {outside}")
    words = {"off": [], "changes": ["host_writes"], "reads": ["host_writes", "host_reads"]}
    for word, expected in words.items():
        with confined(workspace, mode, confinement=Confinement(observe=word)) as broker:  # type: ignore[arg-type]  # a word from the table
            assert [each.protection for each in broker.execute_command(attempt).denials] == expected, word


PLANT = ("sh", "-c", "mkdir -p new; echo x > new/.envrc")


@pytest.mark.parametrize(
    ("word", "stays", "success"), [("neutralise", False, True), ("report", True, True), ("fail", False, False)]
)
@in_modes()
def test_planted_files_is_enforced(mode: str, word: str, stays: bool, success: bool, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, confinement=Confinement(planted_files=word)) as broker:  # type: ignore[arg-type]  # a word from the table
        result = broker.execute_command(PLANT)
        wire = broker.handle({"action": "execute_command", "command": ["true"]})
    assert (result.exit_code, result.success) == (0, success)
    assert [(each.path, each.fails) for each in result.denials] == [("new/.envrc", word == "fail")]
    assert (workspace / "new" / ".envrc").exists() is stays
    assert (wire["success"], wire["denials"]) == (True, [])  # the next call is judged by itself
