"""Writing: conditions, owners, in-place forms, moving and removing, byte for byte."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from fable_exec import _sys
from fable_exec.errors import Conflict, PathDenied, PathError, PathExists, PathIsDirectory, PathNotDirectory, PathNotFound
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath
from tests import abilities, disks
from tests.pathguard import scenes

RESOLVERS = [name for name in (*scenes.RESOLVERS, "checked") if name != "openat2" or not abilities.missing("openat2")]
EVERY_BYTE = bytes(range(256)) * 3 + b"\r\n\n\r\x1a"


@pytest.fixture(params=RESOLVERS)
def held(request: pytest.FixtureRequest, workspace: Path) -> object:
    with Workspace.open(workspace, resolver=request.param) as opened:
        yield opened


def at(text: str) -> WorkspacePath:
    return WorkspacePath.parse(text, PathProfile.POSIX)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("data", [b"", EVERY_BYTE, bytearray(EVERY_BYTE), memoryview(EVERY_BYTE), b"x" * 300_000])
def test_content_is_kept_byte_for_byte(held: Workspace, workspace: Path, data: bytes) -> None:
    written = held.write_replace(at("f"), data)
    assert (workspace / "f").read_bytes() == bytes(data)
    assert (written.sha256, written.size_bytes, written.created) == (digest(bytes(data)), len(data), True)
    assert held.read(at("f")).sha256 == written.sha256
    assert not held.write_replace(at("f"), data).created
    assert held.write_inplace(at("f"), data).sha256 == written.sha256
    assert held.create_exclusive(at("g"), data).sha256 == written.sha256
    appended = held.append(at("g"), data)
    assert (appended.added_bytes, appended.total_bytes) == (len(data), 2 * len(data))
    assert (workspace / "g").read_bytes() == bytes(data) * 2


@pytest.mark.requires_ability("linux")
def test_a_program_that_runs_is_replaced_and_not_written_into(held: Workspace, workspace: Path) -> None:
    shutil.copy("/bin/sleep", workspace / "f")
    with subprocess.Popen([workspace / "f", "60"]) as running:
        for write in (held.append, held.write_inplace):
            with pytest.raises(PathError) as caught:
                write(at("f"), b"more")
            assert (caught.value.reason, caught.value.errno) == ("busy", errno.ETXTBSY)
            assert "a program runs from it" in str(caught.value)
        held.write_replace(at("f"), b"other")
        running.kill()
    assert (workspace / "f").read_bytes() == b"other"


@pytest.mark.parametrize(
    ("limit", "length", "truncated"), [(None, 10, False), (11, 10, False), (10, 10, False), (9, 9, True), (0, 0, True)]
)
def test_a_read_is_bounded_exactly(held: Workspace, workspace: Path, limit: int | None, length: int, truncated: bool) -> None:
    (workspace / "f").write_bytes(b"0123456789")
    found = held.read(at("f"), max_bytes=limit)
    assert (found.data, found.total_bytes, found.truncated) == (b"0123456789"[:length], 10, truncated)
    assert found.sha256 == digest(found.data)


def test_what_is_read_is_hashed_only_for_whoever_asks(held: Workspace, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "f").write_bytes(b"0123456789")
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "sha256", None)
        found = held.read(at("f"))
    assert found.sha256 == digest(b"0123456789")


def test_a_write_with_a_condition_happens_only_on_the_expected_content(held: Workspace, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"one")
    written = held.write_replace(at("f"), b"two", expected_sha256=digest(b"one").upper())
    assert written.previous_sha256 == digest(b"one")
    with pytest.raises(Conflict) as refusal:
        held.write_replace(at("f"), b"three", expected_sha256=digest(b"one"))
    assert (refusal.value.reason, refusal.value.actual_sha256) == ("changed", digest(b"two"))  # type: ignore[attr-defined]  # a Conflict of this kind has both
    assert (workspace / "f").read_bytes() == b"two"
    with pytest.raises(PathNotFound):
        held.write_replace(at("x/f"), b"three", expected_sha256=digest(b"one"))
    assert os.listdir(workspace) == ["f"]


def test_threads_that_write_on_a_condition_lose_no_change_of_each_other(workspace: Path) -> None:
    (workspace / "f").write_bytes(b"")
    with Workspace.open(workspace) as held:

        def add(number: int) -> None:
            for _ in range(25):
                while True:
                    before = held.read(at("f"))
                    try:
                        held.write_replace(at("f"), before.data + b"%d" % number, expected_sha256=before.sha256)
                    except Conflict:
                        continue
                    break

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(add, range(8)))
    assert sorted((workspace / "f").read_bytes()) == sorted(b"01234567" * 25)


@pytest.mark.parametrize("change", ["replace", "append", "move"])
def test_whoever_changes_what_a_name_holds_waits_for_the_turn(held: Workspace, workspace: Path, change: str) -> None:
    """Else a look that was right could be made wrong before the change that it allows."""
    (workspace / "f").write_bytes(b"one")
    (workspace / "g").write_bytes(b"two")
    changes: dict[str, Callable[[], object]] = {
        "replace": lambda: held.write_replace(at("f"), b"two"),
        "append": lambda: held.append(at("f"), b"two"),
        "move": lambda: held.rename(at("g"), at("f"), replace=True),
    }
    with ThreadPoolExecutor(1) as threads:
        with held._turn:
            made = threads.submit(changes[change])
            assert not wait([made], timeout=0.2).done
            assert (workspace / "f").read_bytes() == b"one"
        made.result(timeout=30)
    assert (workspace / "f").read_bytes().endswith(b"two")


def test_a_child_of_fork_does_not_wait_for_a_thread_that_it_has_not(workspace: Path) -> None:
    with Workspace.open(workspace) as held, held._turn:
        child = os.fork()
        if child == 0:
            try:
                held.write_replace(at("f"), b"child")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert (workspace / "f").read_bytes() == b"child"


@pytest.mark.parametrize("change", ["write", "swap", "remove"])
def test_a_change_while_the_write_is_prepared_is_noticed(held: Workspace, workspace: Path, change: str) -> None:
    (workspace / "f").write_bytes(b"one")

    def change_first() -> str:
        if change == "write":
            (workspace / "f").write_bytes(b"ONE!")
        elif change == "swap":
            (workspace / "g").write_bytes(b"one")
            (workspace / "g").rename(workspace / "f")
        else:
            (workspace / "f").unlink()
        return ".fable-tmp-0123456789abcdef"

    held._fresh_name = change_first
    before = digest(b"one")
    with pytest.raises(Conflict, match="changed"):
        held.write_replace(at("f"), b"two", expected_sha256=before)
    assert b"two" not in [path.read_bytes() for path in workspace.iterdir()]
    assert not list(workspace.glob(".fable*"))


@pytest.mark.requires_ability("root")
def test_a_root_broker_does_not_take_files_away_from_their_owner(held: Workspace, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"one")
    os.chown(workspace / "f", 12345, 23456)
    (workspace / "f").chmod(0o6754)
    held.write_replace(at("f"), b"two")
    status = (workspace / "f").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 23456, 0o754)


OF_ALL_MAY_READ = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, who) for tag, rights, who in
    ((1, 6, 2**32 - 1), (2, 6, 12345), (4, 4, 2**32 - 1), (0x10, 6, 2**32 - 1), (0x20, 4, 2**32 - 1))
)  # fmt: skip
"""The list `u::rw- u:12345:rw- g::r-- m::rw- o::r--`, as the kernel has it (linux/posix_acl_xattr.h)."""
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def set_attribute(path: Path, name: str, value: bytes) -> None:
    """Skips where the file system has no such attributes."""
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip(f"no {name} on this file system")


@pytest.mark.requires_ability("linux")
@pytest.mark.parametrize("held", [each for each in RESOLVERS if each != "checked"], indirect=True)
def test_replacing_keeps_the_access_control_list_and_the_users_attributes(held: Workspace, workspace: Path) -> None:
    """Without its list a file of this mode gives its group the right to write (acl(5))."""
    (workspace / "f").write_bytes(b"one")
    set_attribute(workspace / "f", ACCESS, OF_ALL_MAY_READ)
    set_attribute(workspace / "f", "user.origin", b"somewhere")
    held.write_replace(at("f"), b"two")
    assert {name: os.getxattr(workspace / "f", name) for name in os.listxattr(workspace / "f")} == {
        ACCESS: OF_ALL_MAY_READ,
        "user.origin": b"somewhere",
    }
    assert stat.S_IMODE((workspace / "f").stat().st_mode) == 0o664


@pytest.mark.requires_ability("linux")
@pytest.mark.parametrize("held", [each for each in RESOLVERS if each != "checked"], indirect=True)
def test_a_list_is_kept_although_another_writer_replaces_the_file_meanwhile(
    held: Workspace, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("f", "of-the-other"):
        (workspace / name).write_bytes(b"one")
        set_attribute(workspace / name, ACCESS, OF_ALL_MAY_READ)
    really_open = _sys.open_handle

    def open_after_the_other(name: str, directory: int) -> int:
        if name == "f" and (workspace / "of-the-other").exists():
            os.rename(workspace / "of-the-other", workspace / "f")
        return really_open(name, directory)

    monkeypatch.setattr(_sys, "open_handle", open_after_the_other)
    held.write_replace(at("f"), b"two")
    assert not (workspace / "of-the-other").exists()
    assert os.getxattr(workspace / "f", ACCESS) == OF_ALL_MAY_READ


@pytest.mark.requires_ability("linux")
@pytest.mark.parametrize("held", [each for each in RESOLVERS if each != "checked"], indirect=True)
def test_replacing_gives_nobody_what_only_the_directorys_default_list_would(held: Workspace, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"one")
    (workspace / "f").chmod(0o664)
    set_attribute(workspace, DEFAULT, OF_ALL_MAY_READ)
    held.write_replace(at("f"), b"two")
    assert (os.listxattr(workspace / "f"), stat.S_IMODE((workspace / "f").stat().st_mode)) == ([], 0o664)


@pytest.mark.requires_ability("linux")
@pytest.mark.parametrize("held", [each for each in RESOLVERS if each != "checked"], indirect=True)
def test_where_a_list_cannot_be_kept_the_group_gets_nothing(
    held: Workspace, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "f").write_bytes(b"one")
    set_attribute(workspace / "f", ACCESS, OF_ALL_MAY_READ)

    def refused(*of: object) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "setxattr", refused)
    held.write_replace(at("f"), b"two")
    assert (os.listxattr(workspace / "f"), stat.S_IMODE((workspace / "f").stat().st_mode)) == ([], 0o604)


def test_in_place_forms_keep_the_inode_and_create_only_when_asked(held: Workspace, workspace: Path) -> None:
    with pytest.raises(PathNotFound):
        held.write_inplace(at("f"), b"x")
    with pytest.raises(PathNotFound):
        held.append(at("f"), b"x")
    assert held.write_inplace(at("f"), b"long content", create=True).created
    inode = (workspace / "f").stat().st_ino
    assert not held.write_inplace(at("f"), b"short", create=True).created
    held.append(at("f"), b"er")
    assert ((workspace / "f").read_bytes(), (workspace / "f").stat().st_ino) == (b"shorter", inode)
    (workspace / "l").symlink_to("nope")
    for act in (held.write_inplace, held.append):
        with pytest.raises(PathDenied, match="symlink"):
            act(at("l"), b"x", create=True)
        with pytest.raises(PathIsDirectory):
            act(at("f/"), b"x", create=True)
    assert not (workspace / "nope").exists()


def test_a_hard_link_is_not_written_through_by_any_in_place_form(held: Workspace, workspace: Path) -> None:
    (workspace.parent / "secret").write_bytes(b"S")
    os.link(workspace.parent / "secret", workspace / "h")
    for act in (held.write_inplace, held.append):
        with pytest.raises(PathDenied) as refusal:
            act(at("h"), b"x")
        assert refusal.value.reason == "hard-link"
    assert (workspace.parent / "secret").read_bytes() == b"S"


@pytest.mark.parametrize("op", ["write_replace", "create_exclusive", "write_inplace", "append", "make_directories", "rename"])
@pytest.mark.parametrize("text", ["a\nb", "\t", "a\x85b"])
def test_control_characters_are_not_created_but_what_has_them_can_be_used(
    held: Workspace, workspace: Path, op: str, text: str
) -> None:
    (workspace / "f").touch()
    acts = {
        "write_replace": lambda path: held.write_replace(path, b""),
        "create_exclusive": lambda path: held.create_exclusive(path),
        "write_inplace": lambda path: held.write_inplace(path, b"", create=True),
        "append": lambda path: held.append(path, b"", create=True),
        "make_directories": lambda path: held.make_directories(path),
        "rename": lambda path: held.rename(at("f"), path),
    }
    with pytest.raises(PathDenied) as refusal:
        acts[op](at(text))
    assert refusal.value.reason == "control"
    assert os.listdir(workspace) == ["f"]
    (workspace / text).write_bytes(b"x")
    assert held.read(at(text)).data == b"x"
    held.append(at(text), b"y")
    held.rename(at(text), at("plain"))
    assert (workspace / "plain").read_bytes() == b"xy"


def test_moving_refuses_what_is_in_the_way_unless_told(held: Workspace, workspace: Path) -> None:
    for name in ("f", "g"):
        (workspace / name).write_bytes(name.encode())
    (workspace / "d").mkdir()
    (workspace / "l").symlink_to("f")
    for target in ("g", "d", "l", "f"):
        with pytest.raises((PathExists, PathDenied)):
            held.rename(at("f"), at(target))
    with pytest.raises(PathDenied, match="symlink"):
        held.rename(at("f"), at("l"), replace=True)
    with pytest.raises(PathError):
        held.rename(at("f"), at("d"), replace=True)
    with pytest.raises(PathNotDirectory):
        held.rename(at("f/"), at("x"))
    with pytest.raises(PathNotDirectory):
        held.rename(at("f"), at("x/"))
    with pytest.raises(PathNotFound):
        held.rename(at("nope"), at("x"))
    with pytest.raises(PathNotFound):
        held.rename(at("f"), at("nope/x"))
    assert (workspace / "f").read_bytes() == b"f"
    held.rename(at("f"), at("g"), replace=True)
    held.rename(at("g"), at("d/h"))
    held.rename(at("l"), at("d/l"))
    held.rename(at("d/"), at("e/"))
    assert (workspace / "e" / "h").read_bytes() == b"f" and (workspace / "e" / "l").is_symlink()


def test_without_a_noreplace_call_a_taken_name_is_still_safe(
    held: Workspace, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fable_exec import _sys
    from fable_exec._sys import windows

    monkeypatch.setattr(_sys, "rename_noreplace", windows.rename_noreplace)
    (workspace / "f").write_bytes(b"f")
    (workspace / "d").mkdir()
    held.rename(at("f"), at("g"))
    held.rename(at("d"), at("e"))
    assert held.create_exclusive(at("h"), b"h").created
    for source, target in (("g", "h"), ("g", "e"), ("e", "g"), ("e", "h")):
        with pytest.raises(PathExists):
            held.rename(at(source), at(target))
    with pytest.raises(PathExists):
        held.create_exclusive(at("h"))
    with pytest.raises(PathError, match="invalid"):
        held.rename(at("e"), at("e/x"))
    assert sorted(os.listdir(workspace)) == ["e", "g", "h"]


def test_removing_takes_names_and_never_what_they_point_at(held: Workspace, workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d" / "f").touch()
    (workspace / "l").symlink_to("d")
    os.mkfifo(workspace / "p")
    with pytest.raises(PathIsDirectory):
        held.remove(at("d"))
    for path in ("l", "p", "d/f"):
        with pytest.raises(PathNotDirectory):
            held.remove(at(path + "/"))
    with pytest.raises(PathDenied, match="symlink"):
        held.remove_directory(at("l"))
    with pytest.raises(PathNotDirectory):
        held.remove_directory(at("p"))
    with pytest.raises(PathError, match=r"not-empty\): the directory is not empty; remove it with recursive, or "):
        held.remove_directory(at("d"))
    for path in ("l", "p", "d/f"):
        held.remove(at(path))
    held.remove_directory(at("d"))
    with pytest.raises(PathNotFound):
        held.remove(at("d"))
    assert os.listdir(workspace) == []


@pytest.mark.requires_ability("ordinary_user")
def test_a_directory_that_may_be_changed_but_not_read_takes_files(workspace: Path) -> None:
    (workspace / "d").mkdir(mode=0o300)
    try:
        for resolver in scenes.RESOLVERS:
            with Workspace.open(workspace, resolver=resolver) as held:
                held.write_replace(at("d/f"), resolver.encode())
                assert held.read(at("d/f")).data == resolver.encode()
    finally:
        (workspace / "d").chmod(0o700)


def test_every_open_raises_the_audit_event_of_python(workspace: Path) -> None:
    (workspace / "a").mkdir()
    (workspace / "a" / "f").touch()
    program = """
import sys
from fable_exec.pathguard import Workspace, WorkspacePath
seen = []
sys.addaudithook(lambda event, arguments: seen.append(arguments[0]) if event == "open" else None)
with Workspace.open(sys.argv[1], resolver=sys.argv[2]) as held:
    seen.clear()
    held.read(WorkspacePath.parse("a/f"))
    held.read(WorkspacePath.parse("a/f"))
print(seen)
"""
    for resolver in (name for name in RESOLVERS if name != "checked"):
        argv = [sys.executable, "-c", program, str(workspace), resolver]
        answer = subprocess.run(argv, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2], check=True)
        assert answer.stdout == f"{['a', 'f'] * 2}\n"


def test_a_closed_workspace_refuses_and_an_operation_under_way_ends_first(workspace: Path) -> None:
    held = Workspace.open(workspace)
    fd = held.fd

    def close_meanwhile() -> str:
        held.close()
        os.fstat(fd)  # still open
        return ".fable-tmp-0123456789abcdef"

    held._fresh_name = close_meanwhile
    held.write_replace(at("f"), b"x")
    with pytest.raises(OSError):
        os.fstat(fd)
    for act in (lambda: held.read(at("f")), lambda: held.fd):
        with pytest.raises(ValueError, match="closed"):
            act()
    held.close()
    assert (workspace / "f").read_bytes() == b"x"


FULL = """
import sys
from fable_exec.errors import PathError
from fable_exec.pathguard import Workspace, WorkspacePath
with Workspace.open(".", resolver=sys.argv[1]) as held:
    at = WorkspacePath.parse
    held.write_replace(at("there"), b"x" * 300_000)
    for act, name in ((held.append, "there"), (held.append, "new"), (held.write_replace, "there"), (held.write_replace, "d/new")):
        try:
            act(at(name), b"y" * 900_000, **({"create": True} if act == held.append else {}))
        except PathError as error:
            print(error.reason, end=" ")
    print(*(f"{entry.name}:{entry.size_bytes}" for entry in held.list(at("."), 10).entries))
    held.append(at("there"), b"z")
    print(held.stat(at("there")).size_bytes)
"""


@pytest.mark.requires_ability("userns")
@pytest.mark.parametrize("resolver", RESOLVERS)
def test_what_does_not_fit_on_a_full_disk_leaves_nothing_of_itself(resolver: str, tmp_path: Path) -> None:
    answer = disks.on_tmpfs(tmp_path, "size=1m", FULL, resolver)
    assert answer.stdout == "no-space no-space no-space no-space there:300000\n300001\n", answer.stderr


def test_what_a_failed_append_added_stays_where_another_appended_behind_it(
    held: Workspace, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = workspace / "f"
    file.write_bytes(b"old ")
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if file.stat().st_size > 4:
            raise OSError(errno.ENOSPC, "full")
        written = real(fd, bytes(data)[:2])
        with file.open("ab") as another:
            another.write(b" another's")
        return written

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(PathError) as caught:
        held.append(at("f"), b"ours")
    assert caught.value.reason == "no-space" and file.read_bytes() == b"old ou another's"


OTHER = 1234


@pytest.mark.requires_ability("root")
@pytest.mark.parametrize("resolver", [name for name in RESOLVERS if name != "checked"])
def test_what_root_makes_in_another_users_directory_is_that_users(workspace: Path, resolver: str) -> None:
    (workspace / "roots").mkdir()
    (workspace / "there").write_bytes(b"x")
    os.chown(workspace / "there", OTHER + 1, OTHER + 2)
    os.chown(workspace, OTHER, OTHER + 5)
    with Workspace.open(workspace, resolver=resolver) as held:
        held.write_replace(at("a/b/replaced"), b"x")
        held.create_exclusive(at("exclusive"), b"x")
        held.append(at("appended"), b"x", create=True)
        held.write_inplace(at("inplace"), b"x", create=True)
        held.make_directories(at("c/d"))
        held.write_replace(at("roots/replaced"), b"x")
        held.write_replace(at("there"), b"y")
    owners = {str(path.relative_to(workspace)): (path.stat().st_uid, path.stat().st_gid) for path in workspace.rglob("*")}
    assert owners.pop("there") == (OTHER + 1, OTHER + 2)
    assert {owners.pop("roots"), owners.pop("roots/replaced")} == {(0, 0)}
    assert len(owners) == 8 and set(owners.values()) == {(OTHER, OTHER + 5)}


@pytest.mark.requires_ability("root")
def test_a_full_directory_that_took_the_place_of_a_new_one_is_not_given_away(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = workspace / "roots"
    secret.mkdir(0o700)
    (secret / "key").touch()
    os.chown(workspace, OTHER, OTHER)
    real = os.mkdir

    def swapped(name: str, *arguments: int, **named: int) -> None:
        real(name, *arguments, **named)
        os.rmdir(workspace / name)
        os.rename(secret, workspace / name)

    monkeypatch.setattr(os, "mkdir", swapped)
    with Workspace.open(workspace) as held:
        held.make_directories(at("new"))
    assert ((workspace / "new" / "key").exists(), (workspace / "new").stat().st_uid) == (True, 0)
