"""What `denials` tells of a command: what the kernel refused, and nothing because of words that the command printed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from fable_exec import AuditRules, CommandResult, Confinement, ExecutionBroker
from fable_exec.outcome import EndedBy, Observed
from tests.confinement.places import GIT, Tree, available, confined, in_modes, repository, run
from tests.hosts import alive_with, unique_sleep

pytestmark = pytest.mark.requires_ability("linux")

PROGRAMS = available("bash", "cat", "git", "python3", "sh", "true", "sleep")
READS = Confinement(observe="reads")
Told = set[tuple[str, str, str]]


def told(result: CommandResult) -> Told:
    """(operation, path or address, protection) of each denial."""
    assert all(bool(each.path) != bool(each.address) or each.protection == "kernel_surface" for each in result.denials)
    return {(each.operation, each.path or each.address, each.protection) for each in result.denials}


def python(broker: ExecutionBroker, text: str, *arguments: object, **more: object) -> CommandResult:
    return broker.execute_command(("python3", "-c", text, *map(str, arguments)), **more)  # type: ignore[arg-type]  # arguments of a call, passed on as given


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory of the host beside the workspace with a file in it, writable for everybody."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "file").write_text("outside\n")
    place.chmod(0o777)
    (place / "file").chmod(0o666)
    yield place
    assert (place / "file").read_text() == "outside\n"
    assert os.listdir(place) == ["file"]


ATTEMPTS = """
import os, sys
outside, workspace = sys.argv[1:]
def attempt(act, *arguments):
    try:
        act(*arguments)
    except OSError:
        pass
attempt(open, outside + "/file", "w")
attempt(open, outside + "/new", "w")
attempt(os.open, outside + "/exclusive", os.O_CREAT | os.O_EXCL | os.O_RDWR)
attempt(os.truncate, outside + "/file", 0)
attempt(os.mkdir, outside + "/directory")
attempt(os.unlink, outside + "/file")
attempt(os.rename, outside + "/file", outside + "/renamed")
attempt(os.symlink, "x", outside + "/link")
attempt(os.mknod, outside + "/fifo", 0o10600)
os.chdir("/usr")
attempt(open, "relative", "w")
handle = os.open("/usr", os.O_RDONLY)
attempt(lambda: os.open("at", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
os.symlink(outside + "/file", workspace + "/way")
attempt(open, workspace + "/way", "w")
"""


@in_modes()
def test_changes_outside_are_told_with_operation_path_and_protection(mode: str, workspace: Path, outside: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, ATTEMPTS, outside, workspace)
    assert result.success
    assert result.observed is Observed.CHANGES
    assert told(result) == {
        ("open for writing", f"{outside}/file", "host_writes"),
        ("open for writing", f"{outside}/new", "host_writes"),
        ("create", f"{outside}/exclusive", "host_writes"),
        ("truncate", f"{outside}/file", "host_writes"),
        ("mkdir", f"{outside}/directory", "host_writes"),
        ("unlink", f"{outside}/file", "host_writes"),
        ("rename", f"{outside}/file", "host_writes"),
        ("rename", f"{outside}/renamed", "host_writes"),
        ("symlink", f"{outside}/link", "host_writes"),
        ("mknod", f"{outside}/fifo", "host_writes"),
        ("open for writing", "/usr/relative", "host_writes"),
        ("open for writing", "/usr/at", "host_writes"),
    }
    assert all(each.suggestion for each in result.denials)


METADATA = """
import contextlib, os
file = os.open("/etc/passwd", os.O_RDONLY)
for act in (lambda: os.chmod("/etc/passwd", 0o600), lambda: os.fchmod(file, 0o600), lambda: os.chown("/etc/passwd", 0, 0),
            lambda: os.utime("/etc/passwd"), lambda: os.utime(file), lambda: os.setxattr("/etc/passwd", "user.x", b"y")):
    with contextlib.suppress(OSError):
        act()
"""


@in_modes("slots", "namespace")
def test_changes_of_metadata_outside_are_told(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, METADATA)
    assert told(result) == {(word, "/etc/passwd", "host_metadata") for word in ("chmod", "chown", "utime", "setxattr")}


@in_modes()
def test_a_locked_workspace_is_told_as_such(mode: str, workspace: Path) -> None:
    (workspace / "here").write_text("here\n")
    before = Tree.of(workspace)
    text = "echo x > new; echo x > here; rm -f here; mkdir d; chmod 600 here; touch -d 2001-01-01 here; cat here"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("sh", "-c", text))
    assert before.changes(Tree.of(workspace)) == []
    assert {each.protection for each in result.denials} == {"workspace_writes"}
    found = {(each.operation, each.path) for each in result.denials}
    assert {("open for writing", "new"), ("open for writing", "here"), ("unlink", "here"), ("mkdir", "d")} <= found
    assert {"chmod", "utime"} <= {
        operation.removeprefix("f").removesuffix("at2").removesuffix("at") for operation, _ in found
    } | {"utime" if operation.startswith("ut") else operation for operation, _ in found}


@in_modes("slots", "namespace")
def test_files_that_run_later_are_told_as_such(mode: str, workspace: Path) -> None:
    repository(workspace)
    (workspace / ".envrc").write_text("kept\n")
    text = "echo x > .envrc; echo x > .git/hooks/pre-commit; mv .git away; git config a.b c; rm .envrc; true"
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = run(broker, "sh", "-c", text)
    assert (workspace / ".envrc").read_text() == "kept\n"
    assert {each.protection for each in result.denials} == {"later_files"}
    found = {(each.operation, each.path) for each in result.denials}
    assert {("open for writing", ".envrc"), ("open for writing", ".git/hooks/pre-commit"), ("rename", ".git")} <= found
    assert {("rename", ".git/config"), ("unlink", ".envrc")} <= found


CONNECT = """
import socket, sys
port, path, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for family, address in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port)),
                        (socket.AF_INET, ("192.0.2.1", 80)), (socket.AF_UNIX, path), (socket.AF_UNIX, chr(0) + name)):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as ours:
            ours.settimeout(5)
            ours.connect(address)
        print("connected")
    except OSError:
        pass
"""


@pytest.fixture
def servers() -> Iterator[tuple[int, str, str]]:
    """The host listens on a port, at a path (which must be short) and under an abstract name."""
    name = f"fable-exec-{os.urandom(4).hex()}"
    path = f"/tmp/{name}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as file,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        for server, address in ((file, path), (abstract, "\0" + name)):
            server.bind(address)
            server.listen()
        yield tcp.getsockname()[1], path, name
    os.unlink(path)


@in_modes()
def test_connections_that_are_refused_are_told(mode: str, workspace: Path, servers: tuple[int, str, str]) -> None:
    port, path, name = servers
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, CONNECT, *servers)
    assert result.success and result.stdout == ""
    if mode == "plain":  # there the socket is refused, before anybody can know whom it is for
        assert told(result) == {
            ("socket", "inet", "network"),
            ("socket", "inet6", "network"),
            ("socket", "unix", "host_sockets"),
        }
        return
    assert told(result) == {
        ("connect", f"127.0.0.1:{port}", "network"),
        ("connect", f"[::1]:{port}", "network"),
        ("connect", "192.0.2.1:80", "network"),
        ("connect", path, "host_sockets"),
        ("connect", f"@{name}", "host_sockets"),
    }


@in_modes()
def test_ports_that_are_not_listed_are_told(mode: str, workspace: Path, servers: tuple[int, str, str]) -> None:
    port, _, _ = servers
    text = (
        "import socket, contextlib, sys\n"
        "with contextlib.suppress(OSError): socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "with contextlib.suppress(OSError): socket.create_connection(('127.0.0.1', 9))\n"
        "with contextlib.suppress(OSError): socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    )
    ports = Confinement(network="ports", connect_ports=(9,))
    with confined(workspace, mode, confinement=ports, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text, port)
    assert told(result) == {(word, f"127.0.0.1:{port}", "network") for word in ("connect", "bind")}


OWN_SERVER = """
import socket, threading, time
probe = socket.create_server(("127.0.0.1", 0)); port = probe.getsockname()[1]; probe.close()
try:
    socket.create_connection(("127.0.0.1", port))  # not up yet
except ConnectionRefusedError:
    pass
server = socket.create_server(("127.0.0.1", port))
socket.create_connection(("127.0.0.1", port)).close()
named = socket.socket(socket.AF_UNIX); named.bind(chr(0) + "own"); named.listen()
socket.socket(socket.AF_UNIX).connect(chr(0) + "own")
late = "/tmp/late"
try:
    socket.socket(socket.AF_UNIX).connect(late)
except FileNotFoundError:
    pass
later = socket.socket(socket.AF_UNIX); later.bind(late); later.listen()
socket.socket(socket.AF_UNIX).connect(late)
file = socket.socket(socket.AF_UNIX); file.bind("own"); file.listen()
socket.socket(socket.AF_UNIX).connect("own")
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.connect(("127.0.0.1", 9))
"""


@in_modes("slots", "namespace")
def test_a_commands_own_servers_are_no_refusals(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        assert told(python(broker, OWN_SERVER)) == set()


@in_modes("slots", "namespace")
def test_abstract_names_of_the_hosts_network_are_told_and_not_a_commands_own(
    mode: str, workspace: Path, servers: tuple[int, str, str]
) -> None:
    own = "named = socket.socket(socket.AF_UNIX); named.bind(chr(0) + 'own'); named.listen()"
    text = (
        f"import socket, sys, contextlib\n{own}\nsocket.socket(socket.AF_UNIX).connect(chr(0) + 'own')\n"
        "with contextlib.suppress(OSError): socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1]); print('connected')\n"
        "with contextlib.suppress(OSError): socket.socket(socket.AF_UNIX).connect(chr(0) + 'nobody')\n"
    )
    with confined(workspace, mode, confinement=Confinement(network="full"), allowed_executables=PROGRAMS) as broker:
        result = python(broker, text, servers[2])
    assert result.success, result.stderr
    assert told(result) == (set() if result.stdout else {("connect", f"@{servers[2]}", "host_sockets")})


@in_modes()
def test_a_secret_that_is_read_is_told_where_that_is_asked_for(mode: str, workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path / "home" / ".ssh" / "id_ed25519"
    secret.parent.mkdir(parents=True)
    secret.write_text("key\n")
    with confined(workspace, mode, confinement=READS, allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("cat", str(secret)))
        assert told(run(broker, "sh", "-c", "cat missing; cat /usr/missing; cat /etc/passwd; true")) == set()
    assert result.observed is Observed.READS
    assert told(result) == {("open for reading", str(secret), "host_reads")}
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        assert told(broker.execute_command(("cat", str(secret)))) == set()


@in_modes("slots", "namespace")
def test_the_hosts_temporary_directory_is_told_of_where_the_private_one_lacks_something(mode: str, workspace: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as host, confined(workspace, mode, confinement=READS) as broker:
        Path(host, "file").write_text("outside\n")
        text = f"cat {host}/file; echo x > {host}/file; mkdir /tmp/own && echo x > /tmp/own/x && cat /tmp/own/missing; true"
        assert told(run(broker, "sh", "-c", text)) == {
            ("open for reading", f"{host}/file", "host_reads"),
            ("open for writing", f"{host}/file", "host_writes"),
        }


@in_modes()
def test_words_are_no_refusal(mode: str, workspace: Path) -> None:
    words = "open('/etc/shadow'): Permission denied; EACCES; Operation not permitted; Read-only file system; Connection refused"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("sh", "-c", f"echo \"{words}\" >&2; echo 'permission denied'; exit 126"))
    assert (result.exit_code, result.denials) == (126, ())


OWN = "echo x > a; mkdir b; mv a b/a; chmod 600 b/a; ln -s a b/l; rm -r b; echo x > $TMPDIR/x; echo x > $HOME/y"
STREAMS = "for each in stdout stderr null fd/2; do echo x > /dev/$each; done; (: > /dev/tty) 2>&-; true"
PEACEFUL = {
    "git commit": ("git", "commit", "-q", "--allow-empty", "-m", "another"),
    "python": ("python3", "-c", "import json, asyncio, subprocess, tempfile; tempfile.TemporaryFile(); print(1)"),
    "missing files": ("sh", "-c", "cat missing; rm -f missing; rmdir missing; > sub/missing; mkdir -p /tmp /usr; true"),
    "its own": ("sh", "-c", OWN),
    "streams": ("sh", "-c", STREAMS),
    "a look-up of a user": ("python3", "-c", "import os; os.path.expanduser('~nobody')"),
}


@pytest.mark.parametrize("name", PEACEFUL)
@in_modes()
def test_what_succeeds_is_told_nothing_of(mode: str, name: str, workspace: Path) -> None:
    repository(workspace)
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        assert run(broker, *PEACEFUL[name]).denials == ()


@in_modes()
def test_pytest_is_told_nothing_of(mode: str, workspace: Path) -> None:
    (workspace / "test_it.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    with confined(workspace, mode, unlocked=True, allowed_executables=(sys.executable,)) as broker:
        assert run(broker, sys.executable, "-m", "pytest", "-q").denials == ()


FLOOD = """
import os
for number in range(10_000):
    try:
        os.mkdir(f"/usr/{number:05}" if number % 2 else "/usr/again")
    except OSError:
        pass
"""


@in_modes()
def test_a_flood_of_refusals_stays_bounded_and_ends_in_time(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        began = time.monotonic()
        result = python(broker, FLOOD, timeout_seconds=60)
        assert time.monotonic() - began < 30
        assert run(broker, "true").denials == ()
    assert result.success
    assert len(result.denials) == 64 == len(set(result.denials))
    assert result.denials_omitted == 5_001 - 64
    assert ("mkdir", "/usr/again", "host_writes") in told(result)


def test_what_a_command_writes_into_its_paths_is_made_safe_and_bounded(workspace: Path) -> None:
    text = """if True:
        import contextlib, os
        for name in ("\\x1b[2J\\n\\u202e", "\\udcff", "/".join(letter * 250 for letter in "xyz")):
            with contextlib.suppress(OSError):
                os.mkdir("/root/" + name)
    """
    with confined(workspace, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text)
        wire = broker.handle({"action": "execute_command", "command": ["python3", "-c", text]})
    assert [each.path for each in result.denials[:2]] == ["/root/\\x1b[2J\\n\\u202e", "/root/\\udcff"]
    assert len(result.denials[2].path) <= 500
    assert [each["path"] for each in wire["denials"]] == [each.path for each in result.denials]
    assert (wire["denials_omitted"], wire["observed"]) == (0, "changes")


SWAP = """
import ctypes, os, sys, threading
inside, outside = sys.argv[1].encode(), sys.argv[2].encode()
size = max(len(inside), len(outside)) + 1
path = ctypes.create_string_buffer(inside, size)
libc = ctypes.CDLL(None, use_errno=True)
going = True
def swap():
    while going:
        ctypes.memmove(path, outside + b"\\0", len(outside) + 1)
        ctypes.memmove(path, inside + b"\\0", len(inside) + 1)
thread = threading.Thread(target=swap); thread.start()
opened = 0
for _ in range(3000):
    handle = libc.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    if handle >= 0:
        where = os.readlink(f"/proc/self/fd/{handle}").encode()
        opened += where == outside
        os.write(handle, b"swapped")
        os.close(handle)
going = False; thread.join()
print(opened)
"""


@in_modes()
def test_a_path_that_is_swapped_while_it_is_looked_at_opens_nothing(mode: str, workspace: Path, outside: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, SWAP, workspace / "inside", outside / "file", timeout_seconds=60)
    assert (result.success, result.stdout) == (True, "0\n")
    assert {each.protection for each in result.denials} <= {"host_writes"}


@in_modes()
def test_commands_at_the_same_time_are_told_apart(mode: str, workspace: Path) -> None:
    text = "for n in $(seq 0 19); do mkdir /usr/$0-$n; done"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        commands = [broker.start_command(("sh", "-c", text, name)) for name in "abcd"]
        results = [command.wait() for command in commands]
    for name, result in zip("abcd", results, strict=True):
        assert result is not None
        assert {each.path for each in result.denials} == {f"/usr/{name}-{n}" for n in range(20)}


@in_modes()
def test_a_background_child_is_told_with_its_command(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(
            ("sh", "-c", "(mkdir /usr/child) & (setsid sh -c 'mkdir /usr/far'; true) & wait; sleep 0.1")
        )
        assert run(broker, "true").denials == ()
    assert {each.path for each in result.denials} == {"/usr/child", "/usr/far"}


@in_modes()
def test_calls_of_the_kernels_surface_are_told(mode: str, workspace: Path) -> None:
    text = (
        "import ctypes, errno\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == -1 and ctypes.get_errno() == errno.EPERM\n"
        "assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == errno.EPERM\n"
        "assert libc.ptrace(0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM\n"
    )
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text)
    assert result.success, result.stderr
    assert {(each.operation, each.protection) for each in result.denials} == {
        ("mount", "kernel_surface"),
        ("unshare", "kernel_surface"),
        ("ptrace", "other_processes"),
    }


@in_modes()
def test_nothing_is_told_where_the_policy_asks_for_none(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, confinement=Confinement(observe="off"), allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(("sh", "-c", "mkdir /usr/x"))
    assert (result.success, result.denials, result.observed) == (False, (), Observed.OFF)


NOTIFYING = """
import ctypes, errno, struct
libc = ctypes.CDLL(None, use_errno=True)
program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
class Fprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))
assert libc.prctl(38, 1, 0, 0, 0) == 0
number = {"x86_64": 317, "aarch64": 277}[__import__("platform").machine()]
assert libc.syscall(number, 1, 8, ctypes.byref(Fprog(1, ctypes.addressof(program)))) == -1
print(errno.errorcode[ctypes.get_errno()])
assert libc.syscall(number, 1, 0, ctypes.byref(Fprog(1, ctypes.addressof(program)))) == 0
"""


def test_a_command_cannot_have_a_listener_of_its_own_but_filters(workspace: Path) -> None:
    with confined(workspace, allowed_executables=PROGRAMS) as broker:
        assert run(broker, "python3", "-c", NOTIFYING).stdout == "EBUSY\n"
    with confined(workspace, confinement=Confinement(observe="off"), allowed_executables=PROGRAMS) as broker:
        assert python(broker, NOTIFYING).stdout != "EBUSY\n"


# When the observer is not there, or does not answer.


def observers_of(broker: ExecutionBroker, mode: str) -> list[int]:
    """Those who answer: the stagers, in plain mode the zygote."""
    zygotes = _children(os.getpid(), "-I")
    assert len(zygotes) == 1
    return zygotes if mode == "plain" else _children(zygotes[0], "-I")


def _children(pid: int, word: str) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found if word in Path(f"/proc/{each}/cmdline").read_text().split("\0")]


@in_modes()
def test_a_stuck_observer_holds_a_command_no_longer_than_its_deadline(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        run(broker, "true")
        stopped = observers_of(broker, mode)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert run(broker, "true").denials == ()  # who asks for nothing does not wait
            began = time.monotonic()
            result = broker.execute_command(("sh", "-c", "echo x > file; echo written"), timeout_seconds=0.5)
            assert time.monotonic() - began < 1.5
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        assert (result.outcome, result.stdout) == (EndedBy.TIMED_OUT, "")
        assert {each.protection: each.state for each in result.confinement}["whole_tree_end"] == "active"
        assert run(broker, "sh", "-c", "echo x > file; echo written").stdout == "written\n"


@in_modes()
def test_a_killed_observer_takes_its_commands_with_it(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        run(broker, "true")
        started = broker.start_command(("sh", "-c", "echo started; sleep 0.3; while echo x > file; do :; done; echo $? > failed"))
        next(started.events())
        killed = observers_of(broker, mode)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        result = started.wait()
        assert result is not None and result.outcome is EndedBy.BROKER_LOST
        assert not (workspace / "failed").exists()
        for _ in range(20):  # what dies may still take a request
            if broker.execute_command(("true",)).outcome is not EndedBy.BROKER_LOST:
                break
        assert run(broker, "sh", "-c", "echo x > file; mkdir /usr/x; true").denials != ()  # the next one has new ones


@pytest.mark.parametrize("observe", ["changes", "reads"])
@in_modes()
def test_nothing_outlives_a_killed_observer(mode: str, observe: str, workspace: Path) -> None:
    seconds = unique_sleep()
    text = f"setsid sleep {seconds} & sleep {seconds} & echo started; wait"
    with confined(workspace, mode, confinement=Confinement(observe=observe), allowed_executables=PROGRAMS) as broker:  # type: ignore[arg-type]  # a text from the table
        started = broker.start_command(("sh", "-c", text))
        next(started.events())
        for pid in observers_of(broker, mode):
            os.kill(pid, signal.SIGKILL)
        result = started.wait()
        assert result is not None and result.outcome is EndedBy.BROKER_LOST
        give_up_at = time.monotonic() + 10
        while alive_with(seconds) and time.monotonic() < give_up_at:
            time.sleep(0.01)
        assert alive_with(seconds) == []


def test_denials_go_the_same_way_through_every_door(workspace: Path) -> None:
    from tests.confinement.places import confined_policy
    from tests.doors import DOORS, opened

    for kind in DOORS:
        with opened(kind, confined_policy(workspace, allowed_executables=PROGRAMS)) as broker:
            result = broker.execute_command(("sh", "-c", "mkdir /usr/x"))
            assert [attrs.astuple(each)[:4] for each in result.denials] == [("mkdir", "/usr/x", "", "host_writes")], kind


def test_the_audit_log_tells_of_them(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    text = "mkdir /usr/x; for n in $(seq 80); do mkdir /usr/$n; done; true"
    with confined(workspace, audit=AuditRules(path=log), allowed_executables=PROGRAMS) as broker:
        run(broker, "true")
        run(broker, "sh", "-c", text)
    quiet, told = [
        line["facts"] for line in map(json.loads, log.read_text().splitlines()) if line["kind"] == "outcome"
    ]  # fmt: skip
    assert "denials" not in quiet
    assert told["denials"][0] == "mkdir /usr/x (host_writes)"
    assert len(told["denials"]) + told["denials_omitted"] == 81


def test_the_command_line_shows_them(workspace: Path) -> None:
    argv = [sys.executable, "-m", "fable_exec", "run", "--confinement", "strict", "--workspace", str(workspace)]
    shown = subprocess.run([*argv, "--", "mkdir", "/usr/x"], capture_output=True, text=True, env={**os.environ, **GIT})
    assert "refused: mkdir /usr/x (host_writes)" in shown.stderr
    printed = subprocess.run([*argv, "--json", "--", "mkdir", "/usr/x"], capture_output=True, text=True)
    assert [each["path"] for each in json.loads(printed.stdout)["result"]["denials"]] == ["/usr/x"]
