"""Choosing a resolver, missing abilities, mounts, retries, and the flags of the platforms this is not run on."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fable_exec.pathguard
from fable_exec import _sys
from fable_exec._launcher import kernel_fs
from fable_exec._sys import darwin, linux, windows
from fable_exec.errors import ConfinementUnavailable, PathError
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath, resolvers

REPOSITORY = Path(__file__).resolve().parents[2]


def at(text: str) -> WorkspacePath:
    return WorkspacePath.parse(text, PathProfile.POSIX)


def run_program(program: str, *arguments: str, prefix: tuple[str, ...] = ()) -> str:
    argv = [*prefix, sys.executable, "-c", program, *arguments]
    answer = subprocess.run(argv, capture_output=True, text=True, cwd=REPOSITORY, timeout=60)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


# A filter of its own for one process: openat2 (437 everywhere that matters) answers with the errno in argv[1].
FILTER = """
import ctypes, os, struct, sys
from fable_exec.errors import *
from fable_exec.pathguard import *
libc = ctypes.CDLL(None, use_errno=True)
def forbid_openat2(number):
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x00050000 | number), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(program)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, header, 0, 0) == 0
"""


@pytest.mark.requires_ability("openat2")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_filter_over_the_call_means_the_walk_and_never_path_strings(number: int, when: str, workspace: Path) -> None:
    (workspace / "a").mkdir()
    (workspace / "a" / "f").write_bytes(b"I")
    (workspace / "l").symlink_to("a")
    program = (
        FILTER
        + """
number, when, root = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if when == "before":
    forbid_openat2(number)
held = Workspace.open(root)
print(held.resolver, end=" ")
if when == "after":
    forbid_openat2(number)
print(held.read(WorkspacePath.parse("a/f")).data.decode(), held.resolver, end=" ")
try:
    held.read(WorkspacePath.parse("l/f"))
except PathDenied as error:
    print(error.reason, end=" ")
try:
    Workspace.open(root, resolver="openat2")
except ConfinementUnavailable:
    print("insisting-refused", end=" ")
try:
    Workspace.open(root, no_xdev=True)
except ConfinementUnavailable:
    print("no-xdev-refused")
"""
    )
    first = "walk" if when == "before" else "openat2"
    answer = run_program(program, str(number), when, str(workspace))
    assert answer == f"{first} I walk symlink insisting-refused no-xdev-refused\n"


@pytest.mark.requires_ability("openat2")
@pytest.mark.requires_ability("ordinary_user")
def test_one_path_without_permission_does_not_switch_the_resolver(workspace: Path) -> None:
    (workspace / "closed" / "d").mkdir(parents=True)
    (workspace / "closed").chmod(0)
    try:
        with Workspace.open(workspace) as held:
            for _ in range(3):
                with pytest.raises(PathError) as failure:
                    held.read(at("closed/d/f"))
                assert (failure.value.reason, failure.value.errno) == ("permission", errno.EACCES)
            assert held.resolver == "openat2"
    finally:
        (workspace / "closed").chmod(0o700)


@pytest.mark.requires_ability("openat2", "userns")
@pytest.mark.parametrize("resolver", ["openat2", "walk"])
def test_mounts_inside_are_entered_unless_told_otherwise(resolver: str, workspace: Path) -> None:
    for name in ("m", "other"):
        (workspace / name).mkdir()
        (workspace / name / "f").write_bytes(name.encode())
    (workspace / "plain").write_bytes(b"plain")
    (workspace / "bound").touch()
    program = """
import subprocess, sys
from fable_exec.errors import *
from fable_exec.pathguard import *
root, resolver = sys.argv[1:]
for source, target in (("other", "m"), ("plain", "bound")):
    subprocess.run(["mount", "--bind", f"{root}/{source}", f"{root}/{target}"], check=True)
with Workspace.open(root, resolver=resolver) as held:
    print(held.read(WorkspacePath.parse("m/f")).data.decode(), held.read(WorkspacePath.parse("bound")).data.decode())
try:
    strict = Workspace.open(root, resolver=resolver, no_xdev=True)
except ConfinementUnavailable as error:
    print("unavailable")
    raise SystemExit
with strict as held:
    for act in (lambda path: held.read(path), lambda path: held.write_replace(path, b"x")):
        try:
            act(WorkspacePath.parse("m/f"))
        except PathDenied as error:
            print(error.reason)
    try:
        held.read(WorkspacePath.parse("bound"))
    except PathDenied as error:
        print(error.reason)
    print(held.read(WorkspacePath.parse("plain")).data.decode())
"""
    prefix = ("unshare", "--user", "--map-root-user", "--mount")
    answer = run_program(program, str(workspace), resolver, prefix=prefix).split()
    strict = ["mount-crossing"] * 3 + ["plain"] if resolver == "openat2" else ["unavailable"]
    assert answer == ["other", "plain", *strict]


@pytest.mark.requires_ability("openat2")
def test_a_busy_kernel_is_asked_again_for_a_bounded_time(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "a").mkdir()
    (workspace / "a" / "f").write_bytes(b"I")
    tries = 0
    real = _sys.open_handle_beneath

    def busy(path: str, dir_fd: int, *, no_xdev: bool = False) -> int:
        nonlocal tries
        tries += 1
        if tries <= limit:
            raise BlockingIOError(errno.EAGAIN, "busy", path)
        return real(path, dir_fd, no_xdev=no_xdev)

    with Workspace.open(workspace) as held:
        monkeypatch.setattr(_sys, "open_handle_beneath", busy)
        limit = 100
        assert held.read(at("a/f")).data == b"I"
        limit, tries = 10**9, 0
        with pytest.raises(PathError) as failure:
            held.read(at("a/f"))
    assert (failure.value.reason, failure.value.errno) == ("unstable", errno.EAGAIN)
    assert tries == resolvers.MAX_TRIES


@pytest.mark.requires_ability("openat2")
def test_an_interrupted_call_is_made_again(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = kernel_fs._openat2
    calls = []

    def interrupted(*arguments: object) -> int:
        calls.append(arguments)
        if len(calls) < 4:
            ctypes.set_errno(errno.EINTR)
            return -1
        return int(real(*arguments))

    (workspace / "a").mkdir()
    monkeypatch.setattr(kernel_fs, "_openat2", interrupted)
    fd = os.open(workspace, os.O_RDONLY)
    try:
        os.close(linux.open_handle_beneath("a", fd))
    finally:
        os.close(fd)
    assert len(calls) == 4


@pytest.mark.requires_ability("openat2")
def test_an_error_of_the_call_names_the_file_and_the_call(workspace: Path) -> None:
    fd = os.open(workspace, os.O_RDONLY)
    try:
        with pytest.raises(FileNotFoundError) as failure:
            linux.open_handle_beneath("a/b", fd)
        assert failure.value.filename == "a/b"
        assert failure.value.__notes__ == ["openat2 failed"]
        with pytest.raises(FileNotFoundError) as failure:
            linux.rename_noreplace("x", "y", old_dir_fd=fd, new_dir_fd=fd)
        assert (failure.value.filename, failure.value.filename2) == ("x", "y")
        with pytest.raises(ValueError, match="null"):
            linux.open_handle_beneath("a\0b", fd)
        opened = linux.open_handle_beneath(".", fd)
        assert not os.get_inheritable(opened)
        os.close(opened)
    finally:
        os.close(fd)


def test_the_numbers_of_the_calls_follow_the_machine(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    table = {
        ("x86_64", 8, "x86_64-linux-gnu"): "x86_64", ("x86_64", 4, "i386-linux-gnu"): "i386", ("i686", 4, ""): "i386",
        ("aarch64", 8, ""): "aarch64", ("aarch64", 4, "arm-linux-gnueabihf"): "arm", ("armv7l", 4, ""): "arm",
        ("mips64", 8, "mips64el-linux-gnuabi64"): "mips-n64", ("mips64", 4, "mips64el-linux-gnuabin32"): "mips-n32",
        ("mips", 4, "mipsel-linux-gnu"): "mips-o32", ("riscv64", 8, ""): "riscv64",
    }  # fmt: skip
    assert {key: kernel_fs._calling_convention(*key) for key in table} == table
    monkeypatch.setattr(kernel_fs, "SYS_OPENAT2", None)
    monkeypatch.setattr(kernel_fs, "SYS_RENAMEAT2", None)
    with pytest.raises(OSError) as failure:
        kernel_fs.openat2(-1, "x", 0)
    assert failure.value.errno == errno.ENOSYS
    with pytest.raises(OSError):
        kernel_fs.renameat2(-1, "x", -1, "y", 1)
    with Workspace.open(workspace) as held:
        assert held.resolver == "walk"


def test_macos_takes_one_of_its_two_link_flags_and_says_when_it_has_none() -> None:
    nofollow, nofollow_any = 0x100, 0x20000000
    assert darwin.beneath_flags(os.O_RDWR | nofollow, nofollow=nofollow, nofollow_any=nofollow_any) == os.O_RDWR | nofollow_any
    assert darwin.handle_flags(symlink=0x200000, nonblock=4, noctty=0x20000) == 0x200000 | 4 | 0x20000
    for missing in (
        lambda: darwin.beneath_flags(0, nofollow=nofollow, nofollow_any=0),
        lambda: darwin.handle_flags(symlink=0, nonblock=4, noctty=0x20000),
        lambda: darwin.open_beneath("a", -1, 0, no_xdev=True),
    ):
        with pytest.raises(OSError) as failure:
            missing()
        assert failure.value.errno == errno.ENOSYS


@pytest.mark.parametrize("module", [linux, darwin, windows])
def test_every_platform_has_the_same_names(module: object) -> None:
    assert all(hasattr(module, name) for name in _sys.__all__)


def test_windows_has_no_handles_and_says_so() -> None:
    for act in (
        lambda: windows.open_beneath("a", 1, 0),
        lambda: windows.open_handle("a", 1),
        lambda: windows.open_handle_beneath("a", 1),
        lambda: windows.rename_noreplace("a", "b", old_dir_fd=1, new_dir_fd=1),
    ):
        with pytest.raises(OSError) as failure:
            act()
        assert failure.value.errno == errno.ENOSYS
    assert not windows.HAS_DIRECTORY_HANDLES and windows.path_of(1) is None


def test_the_reduced_form_is_used_only_without_handles_and_says_so(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Workspace.open(workspace) as held:
        assert not held.reduced
    monkeypatch.setattr(_sys, "HAS_DIRECTORY_HANDLES", False)
    with Workspace.open(workspace) as held:
        assert held.reduced and held.resolver == "checked"
        with pytest.raises(ValueError, match="no descriptor"):
            _ = held.fd
    for options in ({"resolver": "openat2"}, {"no_xdev": True}):
        with pytest.raises(ConfinementUnavailable):
            Workspace.open(workspace, **options)


def test_an_unknown_resolver_is_an_error_and_leaks_nothing(workspace: Path) -> None:
    fds = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="resolver is"):
        Workspace.open(workspace, resolver="guess")
    with pytest.raises(ConfinementUnavailable, match="no_xdev"):
        Workspace.open(workspace, resolver="walk", no_xdev=True)
    assert len(os.listdir("/proc/self/fd")) == fds


def test_the_public_names_are_what_the_room_says() -> None:
    public = {
        name for name in vars(fable_exec.pathguard) if name.isidentifier() and not name.startswith("_") and name != "annotations"
    }
    modules = {name for name in public if type(vars(fable_exec.pathguard)[name]).__name__ == "module"}
    assert public - modules == set(fable_exec.pathguard.__all__)


def test_open_descriptors_are_for_the_named_thing_and_owned_by_the_caller(workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_bytes(b"x")
    with Workspace.open(workspace) as held:
        directory, file, root = held.open_directory(at("d")), held.open_file(at("d/f")), held.open_directory()
    try:
        assert os.listdir(directory) == ["f"] and os.read(file, 9) == b"x" and os.listdir(root) == ["d"]
        assert not any(os.get_inheritable(fd) for fd in (directory, file, root))
    finally:
        for fd in (directory, file, root):
            os.close(fd)
