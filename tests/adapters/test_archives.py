"""A workspace as a tar and back: what comes back, what is refused before anything is changed, and that no link is followed."""

from __future__ import annotations

import io
import os
import socket
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import hypothesis
import pytest
from hypothesis import strategies as st

from fable_exec import FableExecError, InvalidRequest, PathDenied, PathError
from fable_exec.adapters import archives
from fable_exec.adapters.owned import remove_directory
from fable_exec.pathguard import Workspace
from tests.adapters.tars import END, a_directory, a_file, a_link, extended, header, record, sparse, tar_of
from tests.bounds import BUSY_SECONDS
from tests.fuzzing import A_TENTH

ODD = (b"plain", "grün ✨".encode(), b"new\nline", b"\xff\xfe not utf-8", b"a:b", b" edge ", b"\\back", b"x" * 255)


def packed(root: Path, left_out: Any = ()) -> IO[bytes]:
    with Workspace.open(root) as workspace:
        return archives.pack(workspace, left_out)


def unpacked(root: Path, data: bytes | IO[bytes], **terms: Any) -> None:
    with Workspace.open(root) as workspace:
        archives.unpack(workspace, io.BytesIO(data) if isinstance(data, bytes) else data, **terms)


def facts(root: Path) -> dict[bytes, tuple[Any, ...]]:
    """Everything below a directory: kind, mode, and what it holds or says."""
    found: dict[bytes, tuple[Any, ...]] = {}
    top = os.fsencode(root)
    for here, directories, files in os.walk(top):
        for name in directories + files:
            path = os.path.join(here, name)
            status = os.lstat(path)
            held = os.readlink(path) if stat.S_ISLNK(status.st_mode) else b""
            if stat.S_ISREG(status.st_mode):
                held = Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, top)] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), held)
    return found


@pytest.fixture
def other(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


def test_what_comes_back_is_what_was_there(workspace: Path, other: Path) -> None:
    for number, name in enumerate(ODD):
        directory = workspace / os.fsdecode(name)
        directory.mkdir(mode=0o755)
        (directory / os.fsdecode(name)).write_bytes(os.urandom(number * 50_000))
    (workspace / "deep" / "er").mkdir(parents=True)
    (workspace / "program").write_bytes(b"#!/bin/sh\n")
    (workspace / "program").chmod(0o755)
    (workspace / "read-only").mkdir()
    (workspace / "read-only" / "file").write_bytes(b"kept")
    (workspace / "read-only").chmod(0o555)
    for link, target in (("absolute", "/etc/passwd"), ("up", "../../.."), ("loop", "loop"), ("inside", "deep/er")):
        (workspace / link).symlink_to(target)
    os.link(workspace / "program", workspace / "second name")
    os.utime(workspace / "program", (1_000_000_000, 1_000_000_000))
    with packed(workspace) as archive:
        unpacked(other, archive)
    want = {path: (kind, 0o755 if path == b"read-only" else mode, held) for path, (kind, mode, held) in facts(workspace).items()}
    assert facts(other) == want
    assert (other / "program").stat().st_mtime == 1_000_000_000
    assert (other / "second name").stat().st_nlink == 1


def test_what_is_no_file_and_what_was_left_out_is_not_in_it(workspace: Path, other: Path) -> None:
    os.mkfifo(workspace / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(workspace / "socket"))
    (workspace / ".fable-tmp-0123456789abcdef").write_text("of a writer that crashed")
    for name in ("kept", "cache", "deep"):
        (workspace / name).mkdir()
        (workspace / name / "file").write_text(name)
    with packed(workspace, {("cache",), ("deep", "file")}) as archive:
        unpacked(other, archive)
    assert sorted(facts(other)) == [b"deep", b"kept", b"kept/file"]


def test_rights_of_others_and_set_id_bits_are_not_given(other: Path) -> None:
    unpacked(
        other, tar_of(a_directory("d", 0o7777), a_file("d/f", mode=0o6777), a_file("plain", mode=0o066), a_file("closed", mode=0))
    )
    assert {path: mode for path, (_, mode, _) in facts(other).items()} == {
        b"d": 0o755, b"d/f": 0o755, b"plain": 0o644, b"closed": 0o600,
    }  # fmt: skip


@pytest.mark.requires_ability("root")
def test_in_another_users_workspace_what_root_makes_is_that_users(other: Path) -> None:
    os.chown(other, 12_345, 12_345)
    unpacked(other, tar_of(a_directory("d"), a_file("d/f"), a_file("deep/er/f")))
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in other.rglob("*")}
    assert owners == {(12_345, 12_345)} and len(list(other.rglob("*"))) == 5


def test_what_is_there_is_replaced_or_all_of_it_goes_first(other: Path) -> None:
    (other / "old").write_text("old")
    (other / "f").symlink_to("old")
    (other / "d").write_text("no directory")
    tar = tar_of(a_file("f", b"new"), a_file("d/g", b"new"))
    unpacked(other, tar)
    assert {path: held for path, (_, _, held) in facts(other).items()} == {
        b"old": b"old",
        b"f": b"new",
        b"d": b"",
        b"d/g": b"new",
    }
    assert stat.S_IMODE((other / "d").stat().st_mode) == 0o700  # which no member spoke of
    (other / "tree" / "deep").mkdir(parents=True)
    unpacked(other, tar, instead=True)
    assert sorted(facts(other)) == [b"d", b"d/g", b"f"]
    with pytest.raises(PathError, match="directory"):
        unpacked(other, tar_of(a_file("d", b"a file where a directory is")))


REFUSED: dict[str, Callable[[], bytes]] = {
    "an absolute name": lambda: tar_of(a_file("/etc/cron.d/x")),
    "a name that leads up": lambda: tar_of(a_file("a/../../x")),
    "a file below a link": lambda: tar_of(a_link("d", "/tmp"), a_file("d/x")),
    "a file below a link that comes later": lambda: tar_of(a_file("d/x"), a_link("d", "/tmp")),
    "a file below a file": lambda: tar_of(a_file("d"), a_file("d/x")),
    "a hard link": lambda: tar_of(a_file("a"), ("b", {"type": tarfile.LNKTYPE, "linkname": "a"}, b"")),
    "a device": lambda: tar_of(("null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, b"")),
    "a FIFO": lambda: tar_of(("fifo", {"type": tarfile.FIFOTYPE}, b"")),
    "a name twice": lambda: tar_of(a_file("a"), a_file("./a")),
    "a link that says nothing": lambda: tar_of(a_link("a", "")),
    "the workspace as a link": lambda: tar_of(a_link(".", "/tmp")),
    "the workspace as a file": lambda: tar_of(a_file("./")),
    "a link that is too long": lambda: tar_of(a_link("a", "x" * 5000)),
    "a size that leads back to itself": lambda: header("a") + extended(record("size", "-1536")) + header("b") + END,
    "a size below nothing": lambda: header("a", size=-1024) + END,
    "a header as large as memory": lambda: header("l", size=8 * 1024**3 - 1, kind=tarfile.GNUTYPE_LONGNAME) + header("a") + END,
    "headers without an end": lambda: extended(record("comment", "x")) * 2000 + header("a") + END,
    "records for all without an end": lambda: extended(*(record(f"k{n}", "") for n in range(200)), kind=b"g") + header("a") + END,
    "a sparse file": lambda: sparse("1000", map="0,10") + END,
    "a sparse file of a size below nothing": lambda: sparse("-1000", map="0,0") + END,
    "an old sparse file": lambda: header("a", kind=tarfile.GNUTYPE_SPARSE) + END,
    "nothing": lambda: b"",
    "no tar": lambda: b"PK\x03\x04" + bytes(2000),
    "half of a tar": lambda: tar_of(a_file("a", bytes(5000)))[:3000],
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_member_that_may_not_be_is_refused_before_anything_is_changed(what: str, other: Path) -> None:
    (other / "old").write_text("old")
    tar = tar_of(a_file("first"))[:1024] + REFUSED[what]()  # after one that could have been made
    with pytest.raises((InvalidRequest, PathDenied)):
        unpacked(other, tar, instead=True)
    assert list(facts(other)) == [b"old"]


def test_no_link_that_is_there_already_is_written_through(other: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("d", "f", "deep"):
        (other / name).symlink_to(outside if name != "f" else outside / "f")
    unpacked(other, tar_of(a_file("d/x"), a_file("f"), a_file("deep/er/x"), a_directory("deep")))
    assert list(outside.iterdir()) == []
    assert not any((other / name).is_symlink() for name in ("d", "f", "deep"))


@pytest.mark.requires_ability("openat2")
def test_a_directory_that_is_swapped_for_a_link_all_the_time_leads_nowhere(other: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (other / "d").mkdir()
    (other / "link").symlink_to(outside)
    tar = tar_of(a_file("d/x", b"written"))
    with swapping(other, "d", "link"):
        for _ in range(200):
            for act in (lambda: unpacked(other, tar), lambda: read_back(other)):
                try:
                    act()
                except FableExecError:
                    pass
    assert [path.name for path in outside.iterdir()] == ["secret"]


def read_back(root: Path) -> None:
    with packed(root) as archive, tarfile.open(fileobj=archive) as tar:
        assert not any(name.endswith("secret") for name in tar.getnames())


@contextmanager
def swapping(root: Path, first: str, second: str) -> Any:
    attacker = Path(__file__).parents[1] / "pathguard" / "attacker.py"
    argv = [sys.executable, str(attacker), "exchange", str(root), first, second]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


def test_too_many_members_and_too_many_bytes_are_refused_both_ways(
    workspace: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    monkeypatch.setattr(archives, "MAX_BYTES", 20_000)
    for number in range(3):
        (workspace / str(number)).write_bytes(bytes(5000))
    packed(workspace).close()
    (workspace / "0").write_bytes(bytes(15_000))
    with pytest.raises(PathError, match="20000 bytes") as large:
        packed(workspace)
    assert large.value.reason == "too-large"
    (workspace / "0").write_bytes(b"")
    (workspace / "3").touch()
    with pytest.raises(PathError, match="3 entries"):
        packed(workspace)
    for tar, why in (
        (tar_of(*(a_file(str(number)) for number in range(4))), "3 members"),
        (bytes(30_000), "longer than 20000"),
        (tar_of(a_file("holes", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": "30000"})), "unpacks to more"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            unpacked(other, tar)
    assert facts(other) == {}


def test_more_names_than_can_be_looked_up_are_refused_both_ways(
    workspace: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_NAMES", 5)
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "f").touch()
    packed(workspace).close()
    (workspace / "a" / "b" / "c").touch()
    with pytest.raises(PathError, match="names"):
        packed(workspace)
    with pytest.raises(InvalidRequest, match="names"):
        unpacked(other, tar_of(a_file("a/b/c"), a_file("d/e/f")))
    assert facts(other) == {}


def test_what_none_could_make_again_does_not_go_into_an_archive(workspace: Path) -> None:
    os.close(made_deep(workspace, 2100))
    with pytest.raises(PathDenied, match="path-too-long"):
        packed(workspace)
    remove_directory(str(workspace))


def test_what_lies_deep_comes_back_in_a_time_that_grows_as_its_paths_do(workspace: Path, other: Path) -> None:
    bottom = made_deep(workspace, 2000)
    for number in range(500):
        os.close(os.open(str(number), os.O_CREAT, dir_fd=bottom))
    os.close(bottom)
    with packed(workspace) as archive:
        began = time.monotonic()
        unpacked(other, archive)
        assert time.monotonic() - began < BUSY_SECONDS
        archive.seek(0)
        with packed(other) as again:
            assert names_in(again) == names_in(archive)
    for each in (workspace, other):
        remove_directory(str(each))


def names_in(archive: IO[bytes]) -> list[str]:
    with tarfile.open(fileobj=archive) as tar:
        return tar.getnames()


def made_deep(root: Path, depth: int) -> int:
    """Directories one in the other, more than a path can name; the last one's descriptor."""
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    return descriptor


@pytest.mark.parametrize("when", ["nan", "inf", "-inf", "1e300"])
def test_a_time_that_is_none_is_no_reason_to_leave_a_file_out(when: str, other: Path) -> None:
    unpacked(other, extended(record("mtime", when)) + header("f") + END)
    assert list(facts(other)) == [b"f"]


@pytest.mark.requires_ability("ordinary_user")
def test_what_cannot_be_read_is_told_and_never_left_out(workspace: Path) -> None:
    (workspace / "closed").mkdir(mode=0)
    with pytest.raises(PathError, match="1 directories"):
        packed(workspace)
    (workspace / "closed").chmod(0o700)
    (workspace / "closed" / "file").touch(mode=0)
    with pytest.raises(PathError, match="closed/file"):
        packed(workspace)


SOUND = tar_of(a_directory("d"), a_file("d/f", b"content" * 100), a_link("l", "d/f"), a_file("ü" * 110), a_file("last"))


def test_a_tar_that_ends_anywhere_is_whole_or_refused(other: Path) -> None:
    (other / "old").write_text("old")
    for size in range(0, len(SOUND.rstrip(b"\0")) + 1, 64):
        with pytest.raises(InvalidRequest):
            unpacked(other, SOUND[:size], instead=True)
    assert list(facts(other)) == [b"old"]
    unpacked(other, SOUND, instead=True)
    assert (other / "d" / "f").read_bytes() == b"content" * 100


def test_a_header_that_is_none_does_not_end_a_tar_early(other: Path) -> None:
    tar = bytearray(tar_of(a_file("first"), a_file("second")))
    tar[1024 + 148] ^= 1
    with pytest.raises(InvalidRequest, match="end is missing"):
        unpacked(other, bytes(tar))
    assert facts(other) == {}


@pytest.mark.fuzz
@A_TENTH
@hypothesis.given(data=st.data())
def test_whatever_a_tar_says_it_is_made_below_the_workspace_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("tar")
    (place / "workspace").mkdir()
    tar = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(tar) - 1))
        tar[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        mend(tar)
    try:
        unpacked(place / "workspace", bytes(tar))
    except FableExecError:
        pass
    assert [path.name for path in place.iterdir()] == ["workspace"]


def mend(tar: bytearray) -> None:
    """Right checksums, so that what was changed in a header is taken for what it says."""
    for at in range(0, len(tar) - 511, 512):
        block = tar[at : at + 512]
        if block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            tar[at + 148 : at + 156] = b"%06o\0 " % sum(block)
