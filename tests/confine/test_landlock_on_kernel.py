"""Landlock rules, in force: what is listed works, all else is refused, and a control shows that it would have worked."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec._launcher import kernel_confine
from fable_exec.confine import FileView, filters
from fable_exec.confine.landlock import LandlockRules, rights
from fable_exec.confine.restricting import _own_root
from tests.confine.entering import NO_NEW_PRIVILEGES, PROGRAMS, PROJECT, enter, files_step, filter_step
from tests.ports import free_port

pytestmark = pytest.mark.requires_ability("landlock")

ACCES, PERM, XDEV = errno.EACCES, errno.EPERM, errno.EXDEV
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/etc", "/proc", sys.base_prefix, sys.prefix, str(PROGRAMS))
ABI = kernel_confine.landlock_abi()


def needs_abi(abi: int) -> pytest.MarkDecorator:
    return pytest.mark.skipif(abi > ABI, reason=f"this kernel's Landlock ABI is {ABI}, not {abi}")


@attrs.frozen
class Scene:
    """An open directory, which rules will grant, beside a closed one."""

    open: Path
    closed: Path

    def rules(self, **more: Any) -> LandlockRules:
        fields = {"execute": SYSTEM, "write": (str(self.open),), "optional": frozenset(SYSTEM), **more}
        return LandlockRules(**{"devices": ("/dev/null",), **fields})


@pytest.fixture
def scene(workspace: Path) -> Scene:
    for name in ("open", "closed"):
        folder = workspace / name
        folder.mkdir()
        (folder / "file").write_text("x")
        (folder / "folder").mkdir()
        (folder / "program").write_text("#!/bin/sh\n")
        (folder / "program").chmod(0o755)
    return Scene(workspace / "open", workspace / "closed")


def attempt(steps: Sequence[Any], attempts: Sequence[Sequence[Any]], **options: Any) -> list[int]:
    words = [[str(word) if isinstance(word, Path) else word for word in each] for each in attempts]
    done = enter(steps, [sys.executable, "-I", str(PROGRAMS / "attempts.py")], stdin=json.dumps(words), **options)
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout)
    return found


def under(rules: LandlockRules, attempts: Sequence[Sequence[Any]], **options: Any) -> list[int]:
    return attempt([NO_NEW_PRIVILEGES, files_step(rules)], attempts, **options)


FILES = [
    ("read", "file"), ("list", "folder"), ("write", "file"), ("append", "file"), ("reopen", "file"), ("create", "new"),
    ("mkdir", "made"), ("rmdir", "folder"), ("symlink", "link"), ("fifo", "fifo"), ("truncate", "file"), ("unlink", "file"),
]  # fmt: skip


def test_what_lies_outside_can_be_neither_read_nor_changed(scene: Scene) -> None:
    before = sorted(path.name for path in scene.closed.iterdir())
    attempts = [(name, scene.closed / file) for name, file in FILES]
    assert under(scene.rules(), attempts) == [ACCES] * len(FILES)
    assert sorted(path.name for path in scene.closed.iterdir()) == before
    assert (scene.closed / "file").read_text() == "x"
    assert attempt([], attempts) == [0] * len(FILES)


def test_what_is_granted_can_be_read_and_changed_but_not_executed(scene: Scene) -> None:
    attempts = [(name, scene.open / file) for name, file in FILES]
    assert under(scene.rules(), attempts) == [0] * len(FILES)
    assert under(scene.rules(), [("execute", scene.open / "program")]) == [ACCES]
    assert under(scene.rules(execute=(*SYSTEM, str(scene.open))), [("execute", scene.open / "program")]) == [0]


def test_what_is_granted_for_reading_can_only_be_read(scene: Scene) -> None:
    rules = scene.rules(read=(str(scene.closed),))
    attempts = [(name, scene.closed / file) for name, file in FILES]
    assert under(rules, attempts) == [0, 0] + [ACCES] * (len(FILES) - 2)
    assert under(rules, [("execute", scene.closed / "program")]) == [ACCES]


@needs_abi(3)
def test_a_file_that_may_not_be_written_cannot_be_emptied(scene: Scene) -> None:
    (scene.closed / "file").chmod(0o666)
    assert under(scene.rules(read=(str(scene.closed),)), [("truncate", scene.closed / "file")]) == [ACCES]
    assert (scene.closed / "file").read_text() == "x"


@needs_abi(2)
def test_files_move_within_what_is_granted_and_neither_in_nor_out(scene: Scene) -> None:
    inside, outside = scene.open, scene.closed
    attempts = [
        ("rename", inside / "file", inside / "folder" / "file"),
        ("link", inside / "folder" / "file", inside / "second"),
        ("rename", inside / "folder" / "file", outside / "stolen"),
        ("link", inside / "second", outside / "stolen"),
        ("rename", outside / "file", inside / "taken"),
        ("link", outside / "file", inside / "alias"),
        ("rename", outside / "file", outside / "folder" / "file"),
    ]
    found = under(scene.rules(), attempts)
    assert found[:2] == [0, 0]
    assert all(number in (ACCES, XDEV) for number in found[2:]), found
    assert (outside / "file").exists()


def test_a_symlink_leads_nowhere_that_its_target_does_not(scene: Scene) -> None:
    (scene.open / "link").symlink_to(scene.closed / "file")
    assert under(scene.rules(), [("read", scene.open / "link"), ("write", scene.open / "link")]) == [ACCES, ACCES]


def test_a_rule_for_one_file_grants_its_neighbours_nothing(scene: Scene) -> None:
    rules = scene.rules(write=(str(scene.open), str(scene.closed / "file")))
    attempts = [("write", scene.closed / "file"), ("write", scene.closed / "program"), ("create", scene.closed / "new")]
    assert under(rules, attempts) == [0, ACCES, ACCES]


@needs_abi(5)
def test_a_device_takes_an_ioctl_only_where_devices_are_granted(scene: Scene) -> None:
    attempts = [("device_ioctl", "/dev/zero"), ("read", "/dev/zero")]
    assert under(scene.rules(read=("/dev/zero",)), attempts) == [ACCES, 0]
    assert under(scene.rules(devices=("/dev/null", "/dev/zero")), attempts) == [0, 0]


@pytest.fixture
def port() -> Iterator[int]:
    """A port of the host that someone listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@needs_abi(4)
def test_only_listed_ports_can_be_connected_to_and_listened_on(scene: Scene, port: int) -> None:
    free = free_port()
    attempts = [("connect", port), ("bind", free), ("bind", 0)]
    assert under(scene.rules(), attempts) == [ACCES, ACCES, ACCES]
    assert under(scene.rules(ports_connect=(port,)), attempts) == [0, ACCES, ACCES]
    assert under(scene.rules(ports_bind=(free,)), attempts) == [ACCES, 0, ACCES]
    assert under(scene.rules(ports_bind=None, ports_connect=None), attempts) == [0, 0, 0]


@needs_abi(4)
def test_port_rules_are_not_got_round_by_fast_open_or_another_protocol(scene: Scene, port: int) -> None:
    """Landlock alone may let both pass, depending on the kernel; together with the filter none does."""
    steps = [NO_NEW_PRIVILEGES, files_step(scene.rules()), filter_step(filters.strict(inet="tcp"))]
    assert attempt(steps, [("fast_open", port), ("datagram", port), ("connect", port)]) == [ACCES, ACCES, ACCES]
    assert attempt([], [("datagram", port), ("connect", port)]) == [0, 0]


@needs_abi(6)
def test_abstract_sockets_outside_cannot_be_reached(scene: Scene) -> None:
    name = f"fable-exec-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        assert under(scene.rules(), [("abstract", name)]) == [PERM]
        assert under(scene.rules(scopes=("signal",)), [("abstract", name)]) == [0]


@needs_abi(6)
def test_processes_outside_cannot_be_signalled_nor_looked_into(scene: Scene) -> None:
    attempts = [("signal", os.getpid()), ("memory", os.getpid())]
    assert under(scene.rules(), attempts) == [PERM, ACCES]
    assert under(scene.rules(scopes=("abstract_unix_socket",)), attempts[:1]) == [0]


def test_sockets_with_a_path_are_out_of_reach_only_from_abi_9_on(scene: Scene) -> None:
    """Below it, this is the business of mounts, or of the filter where there are none."""
    # The path of a socket has room for 107 bytes.
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as server:
        path = f"{short}/s"
        server.bind(path)
        server.listen()
        assert under(scene.rules(), [("pathname", path)]) == [ACCES if ABI >= 9 else 0]
        steps = [NO_NEW_PRIVILEGES, files_step(scene.rules()), filter_step(filters.plain())]
        assert attempt(steps, [("pathname", path)]) == [ACCES]


def test_metadata_is_what_landlock_does_not_cover_and_the_filter_can(scene: Scene) -> None:
    attempts = [("chmod", scene.closed / "file")]
    assert under(scene.rules(), attempts) == [0]
    steps = [NO_NEW_PRIVILEGES, files_step(scene.rules()), filter_step(filters.plain(metadata="deny"))]
    assert attempt(steps, attempts) == [PERM]


def test_a_memory_file_is_executed_whatever_the_rules_say(scene: Scene) -> None:
    """A known hole of execute rules, and no wider than what an interpreter may do; it stays under all other rules."""
    (scene.open / "true").write_bytes(Path("/bin/true").read_bytes())
    (scene.open / "true").chmod(0o755)
    assert under(scene.rules(), [("execute", scene.open / "true"), ("execute_memory", scene.open / "true")]) == [ACCES, 0]


SLOT = f"""
import json, os, signal, sys
sys.path.insert(0, {str(PROJECT)!r})
from fable_exec._launcher import kernel
from fable_exec._launcher.confine_steps import CONFINE_STEPS

ready, report = os.pipe()
slot = kernel.clone(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
if slot == 0:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)
    kernel.mount("proc", "/proc", "proc", 0)
    os.write(report, b"x")
    while True: signal.pause()
os.read(ready, 1)
namespace = os.open(f"/proc/{{slot}}/ns/mnt", os.O_RDONLY)
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
CONFINE_STEPS["restrict_files"](json.loads(sys.argv[1]))
kernel.setns(namespace, kernel.CLONE_NEWNS)
try:
    print(len(os.listdir("/proc")) > 0)
except OSError as error:
    print(error.errno)
"""


@pytest.mark.requires_ability("own_proc")
@pytest.mark.parametrize(("path", "answer"), [("/proc", str(ACCES)), ("/", "True")])
def test_a_rule_for_a_mount_point_does_not_reach_what_a_slot_mounts_there(path: str, answer: str) -> None:
    """Rules belong to the file system that was there when they were made; each slot's /proc is another one. A rule for a
    directory above the mount point reaches it."""
    wire = files_step(LandlockRules(read=(path,)))[1]
    box = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = enter([], [*box, sys.executable, "-I", "-c", SLOT, json.dumps(wire)])
    assert done.stdout.strip() == answer, done.stderr


STEP = f"""
import json, os, sys
sys.path.insert(0, {str(PROJECT)!r})
from fable_exec._launcher import kernel
from fable_exec._launcher.confine_steps import CONFINE_STEPS
wire, privileges = json.load(sys.stdin)
if privileges:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
before = os.listdir("/proc/self/fd")
try:
    CONFINE_STEPS["restrict_files"](wire)
    print("done", end=" ")
except OSError as error:
    print(type(error).__name__, *getattr(error, "__notes__", []), end=" ")
try:
    os.listdir("/")
    print("unrestricted", end=" ")
    print(len(os.listdir("/proc/self/fd")) - len(before))
except PermissionError:
    print("restricted", len(os.listdir("/proc/self/fd")) - len(before))
"""


def perform(rules: LandlockRules, *, privileges: bool = True, **change: Any) -> str:
    wire = {**files_step(rules)[1], **change}
    done = enter([], [sys.executable, "-I", "-c", STEP], stdin=json.dumps([wire, privileges]))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_missing_path_is_an_error_unless_it_is_optional(scene: Scene) -> None:
    missing = str(scene.closed / "missing")
    assert perform(scene.rules(read=(missing,))) == "FileNotFoundError unrestricted 0"
    assert perform(scene.rules(read=(missing,), optional=frozenset({*SYSTEM, missing}))) == "done restricted 0"


def test_the_rules_come_after_no_new_privileges_or_not_at_all(scene: Scene) -> None:
    assert perform(scene.rules(), privileges=False) == "PermissionError unrestricted 0"


def test_a_ruleset_that_the_kernel_refuses_restricts_nothing_and_says_which_call(scene: Scene) -> None:
    text = perform(scene.rules(), handled_fs=1 << 60)
    assert text.startswith("OSError landlock_create_ruleset(0x1000000000000000")
    assert text.endswith("unrestricted 0")


def test_a_path_that_is_refused_is_named(scene: Scene) -> None:
    wire: dict[str, Any] = {"paths": [[str(scene.open), 1 << 60, False]]}
    assert f"{scene.open} unrestricted 0" in perform(scene.rules(), **wire)


def test_the_kernels_abi_has_all_the_rights_that_the_table_gives_it() -> None:
    descriptor = kernel_confine.create_ruleset(rights("fs", abi=ABI), rights("net", abi=ABI), rights("scope", abi=ABI))
    os.close(descriptor)
    with pytest.raises(OSError, match="Invalid argument"):
        kernel_confine.create_ruleset(1 << 40, 0, 0)


IN_A_ROOT_OF_ITS_OWN = f"""
import errno, json, os, sys
sys.path.insert(0, {str(PROJECT)!r})
from fable_exec._launcher import kernel
from fable_exec._launcher.confine_steps import CONFINE_STEPS
wire, root, outside = json.load(sys.stdin)
folder = os.open(outside, os.O_RDONLY)
os.chroot(root)
os.chdir("/")
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
CONFINE_STEPS["restrict_files"](wire)
def tried(name, flags, **where):
    try:
        os.close(os.open(name, flags, **where))
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
print(json.dumps([
    tried("/srv/file", os.O_RDONLY), tried("/srv/file", os.O_WRONLY),
    tried("/tmp/job/file", os.O_RDONLY), tried("/tmp/job/file", os.O_WRONLY),
    tried("file", os.O_RDONLY, dir_fd=folder), tried("file", os.O_WRONLY, dir_fd=folder),
]))
"""


@pytest.mark.requires_ability("userns")
def test_in_a_root_of_its_own_the_rules_hold_off_what_lies_outside_and_leave_what_lies_inside_to_the_mounts(scene: Scene) -> None:
    """A locked workspace below /tmp could be written, if its mount let it; a descriptor from outside opens nothing."""
    root = scene.open
    for name in ("srv", "tmp/job", "var/tmp", "home/command", "dev/shm"):
        (root / name).mkdir(parents=True)
    for file in ("srv/file", "tmp/job/file"):
        (root / file).touch()
    rules = files_step(_own_root(FileView(workspace="/tmp/job", writable=False)))[1]
    as_root = ["unshare", "--user", "--map-root-user"]
    given = json.dumps([rules, str(root), str(scene.closed)])
    done = enter([], [*as_root, sys.executable, "-I", "-c", IN_A_ROOT_OF_ITS_OWN], stdin=given)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["done", "EACCES", "done", "done", "EACCES", "EACCES"]
