"""The stat cache: it saves reading, is never believed where it could be wrong, and is never needed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fable_exec.errors import PathDenied, PathPermission, StateUnreadable
from fable_exec.treedigest import DigestCache, Profile, Progress, tree_digest
from fable_exec.treedigest.reading import Reader
from fable_exec.treedigest.watching import could_hide_a_name
from tests.treedigest.test_gitindex import git
from tests.treedigest.test_loki import repository


@pytest.fixture
def cache(tmp_path: Path) -> DigestCache:
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o700)
    return DigestCache(directory / "digests")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that are read."""
    names: list[str] = []
    digest = Reader.digest

    def noted(self: Reader, directory: object, name: str) -> object:
        names.append(name)
        return digest(self, directory, name)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(Reader, "digest", noted)
    return names


def settle(workspace: Path) -> Path:
    """Make stamps old enough to be believed."""
    time.sleep(0.05)
    return workspace


def cached(workspace: Path, cache: DigestCache, profile: Profile | str = "tree") -> str:
    return tree_digest(workspace, profile, "fast", cache=cache).sha256


@pytest.mark.parametrize("profile", Profile)
def test_an_unchanged_tree_is_not_read_again(profile: Profile, workspace: Path, cache: DigestCache, read: list[str]) -> None:
    settle(repository(workspace, "a", "sub/b", "sub/c\n", "node_modules/d"))
    first = cached(workspace, cache, profile)
    assert sorted({*read}) == ["a", "b", "c\n", "d"]
    read.clear()
    assert cached(workspace, DigestCache(cache.path), profile) == first == tree_digest(workspace, profile).sha256
    assert profile is Profile.LOKI_V3 or set(read[:-4]) == set()  # the last four were read by the call without a cache


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "sub/b").write_text("B"),
        lambda top: (top / "sub/b").chmod(0o600),
        lambda top: (top / "sub/b").unlink(),
        lambda top: (top / "sub/new").write_text("b"),
        lambda top: os.rename(top / "sub/b", top / "sub/d"),
        lambda top: os.replace(top / "a", top / "sub/b"),
        lambda top: ((top / "sub/b").write_text("B"), os.utime(top / "sub/b", ns=(1, 1))),
        lambda top: (os.rename(top / "sub", top / "old"), (top / "sub").mkdir(), (top / "sub/b").write_text("other")),
    ],
)
@pytest.mark.parametrize("profile", Profile)
def test_every_change_is_seen_through_the_cache(
    profile: Profile, change: Callable[[Path], object], workspace: Path, cache: DigestCache
) -> None:
    settle(repository(workspace, "a", "sub/b", "sub/c"))
    before = cached(workspace, cache, profile)
    change(workspace)
    assert cached(workspace, cache, profile) == tree_digest(workspace, profile).sha256
    assert cached(workspace, cache, profile) == tree_digest(workspace, profile).sha256
    assert change.__code__.co_names[0] == "chmod" or before  # the mode does not count for one profile


EDITS: list[Callable[[Path, Path], object]] = [
    lambda one, other: one.write_text(f"{time.time_ns()}"[-6:]),
    lambda one, other: (one.write_text(one.read_text()[::-1]), os.utime(one, ns=(1, 1))),
    lambda one, other: one.unlink(),
    lambda one, other: one.mkdir(),
    lambda one, other: os.rename(one, other),
    lambda one, other: (os.rename(one, f"{one}.aside"), os.rename(other, one), os.rename(f"{one}.aside", other)),
    lambda one, other: os.link(one, other),
    lambda one, other: one.symlink_to(other.name),
    lambda one, other: one.chmod(0o755 if one.stat().st_mode & 0o100 == 0 else 0o644),
    lambda one, other: git(one.parent, "add", "-A", fails=True),
    lambda one, other: git(one.parent, "update-index", "--force-remove", one.name, fails=True),
    lambda one, other: git(one, "init", "-q", fails=True),
]


@pytest.mark.parametrize("edits", [150, pytest.param(2_000, marks=pytest.mark.deep)])
def test_whatever_is_done_to_a_tree_it_has_the_digest_that_it_has_without_a_cache(
    edits: int, workspace: Path, tmp_path: Path
) -> None:
    repository(workspace, "a", "b", "c/a", "c/b/c")
    repository(workspace / "sub", "a", "c/b")
    (tmp_path / "cache").mkdir(mode=0o700)
    chance = random.Random(edits)
    for _ in range(edits):
        one, other = (workspace.joinpath(*chance.choices("abc", k=chance.randint(1, 3))) for _ in range(2))
        if chance.random() < 0.3:
            one = workspace / "sub" / one.relative_to(workspace)
        with contextlib.suppress(OSError):
            chance.choice(EDITS)(one, other)
        for profile in Profile:
            cache = DigestCache(tmp_path / "cache" / profile.value)
            try:
                expected = tree_digest(workspace, profile, "fast").sha256
            except (PathDenied, PathPermission) as refusal:  # links in a ring, or what this user may not read
                with pytest.raises(type(refusal)):
                    cached(workspace, cache, profile)
            else:
                assert cached(workspace, cache, profile) == expected


def test_only_what_changed_is_read_again(workspace: Path, cache: DigestCache, read: list[str]) -> None:
    settle(repository(workspace, "a", "sub/b", "sub/c"))
    cached(workspace, cache)
    (workspace / "sub/c").write_text("C")
    settle(workspace)
    read.clear()
    cached(workspace, cache)
    assert read == ["c"]


def test_a_file_that_was_written_a_moment_ago_is_not_believed(workspace: Path, cache: DigestCache, read: list[str]) -> None:
    (workspace / "a").write_text("before")
    cached(workspace, cache)
    read.clear()
    cached(workspace, cache)
    assert read == ["a"]


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-1], lambda data: data[:40] + b"x" + data[41:], bytes.upper]
)
def test_a_cache_that_is_torn_counts_as_empty(
    damage: Callable[[bytes], bytes], workspace: Path, cache: DigestCache, read: list[str]
) -> None:
    settle(workspace)
    (workspace / "a").write_text("x")
    first = cached(settle(workspace), cache)
    cache.path.write_bytes(damage(cache.path.read_bytes()))
    read.clear()
    assert cached(workspace, cache) == first
    assert read == ["a"]


def test_a_cache_with_other_counts_than_it_should_have_counts_as_empty(
    workspace: Path, cache: DigestCache, read: list[str]
) -> None:
    settle(workspace)
    (workspace / "a").write_text("x")
    first = cached(settle(workspace), cache)
    body = cache.path.read_bytes()[:-32]
    for change in (body[:-8], body + bytes(8), body.replace(b'"directories": 1', b'"directories": 2')):
        assert change != body
        cache.path.write_bytes(change + hashlib.sha256(change).digest())
        read.clear()
        assert cached(workspace, cache) == first
        assert read == ["a"]


def test_a_directory_with_more_rows_than_names_counts_as_unknown(workspace: Path, cache: DigestCache, read: list[str]) -> None:
    (workspace / "a").write_text("x")
    cached(settle(workspace), cache)
    change = cache.path.read_bytes()[:-32].replace(b'{"kind"', b'\n"kind"', 1)
    cache.path.write_bytes(change + hashlib.sha256(change).digest())
    (workspace / "b").write_text("y")  # so that rows have to be told apart
    read.clear()
    assert cached(workspace, cache) == tree_digest(workspace, level="fast").sha256
    assert read[:2] == ["a", "b"]


def forged(cache: DigestCache, old: bytes, new: bytes) -> None:
    """Put `new` for `old` into what is kept of directories, with all lengths and the sum as they should be."""
    body = cache.path.read_bytes()[:-32]
    at = body.index(b"\n") + 1
    parts, lengths = [body[:at]], struct.Struct("<QIIIIII")
    while at < len(body):
        device, *sizes = lengths.unpack_from(body, at)
        at += lengths.size
        texts = []
        for size in sizes:
            texts.append(body[at : at + size].replace(old, new))
            at += size
        parts += [lengths.pack(device, *map(len, texts)), *texts]
    change = b"".join(parts)
    assert change != body
    cache.path.write_bytes(change + hashlib.sha256(change).digest())


FORGERIES = {
    "rows that are no text": (b'{"kind"', b'\xff{"kind"'),
    "rows that are half a character": (b'{"kind"', b'\xc3'),
    "a row more": (b'{"kind"', b'\n{"kind"'),
    "a name more": (b"afile", b"afile/bfile"),
    "no name": (b"afile", b""),
    "an empty name": (b"afile", b"/"),
    "its own directory": (b"afile", b"."),
    "a name above": (b"afile", b".."),
    "a path above": (b"afile", b"../afile"),
    "a name that none can have": (b"afile", b"a\0ile"),
    "a directory above": (b"within", b"../within"),
    "a directory that none can be": (b"within", b"with\0n"),
}  # fmt: skip


@pytest.mark.parametrize("change", FORGERIES)
@pytest.mark.parametrize("touched", [False, True])
def test_what_keep_cannot_have_written_counts_as_unknown(
    change: str, touched: bool, workspace: Path, cache: DigestCache, read: list[str]
) -> None:
    (workspace / "afile").write_text("x")
    (workspace / "within").mkdir()
    cached(settle(workspace), cache)
    cached(settle(workspace), cache)
    forged(cache, *FORGERIES[change])
    if touched:
        (workspace / "other").write_text("y")  # so that rows have to be told apart
    wanted = tree_digest(workspace, level="fast").sha256
    read.clear()
    assert cached(workspace, cache) == wanted
    assert "afile" in read or "directory" in change


@pytest.mark.parametrize("listing", ["3", "null", '"short"', '{"a": "b"}', '["x"]', f'"{"Z" * 64}"'])
def test_listings_that_are_no_digests_count_as_unknown(listing: str, workspace: Path, cache: DigestCache) -> None:
    settle(repository(workspace, "afile"))
    first = cached(settle(workspace), cache)
    body = cache.path.read_bytes()[:-32]
    change = re.sub(rb'(?<="listings": \{)("[0-9a-f]{64}": )"[0-9a-f]{64}"', rb"\g<1>" + listing.encode(), body)
    assert change != body
    cache.path.write_bytes(change + hashlib.sha256(change).digest())
    assert cached(workspace, cache) == first == tree_digest(workspace).sha256


def test_an_unchanged_directory_is_not_listed_again(workspace: Path, cache: DigestCache, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(repository(workspace, "a", "sub/b", "sub/deeper/c"))
    (workspace / "empty").mkdir()
    before = cached(settle(workspace), cache)
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", None)
        assert cached(workspace, cache) == before
    (workspace / "sub/deeper/new").touch()
    with pytest.MonkeyPatch.context() as patched, pytest.raises(TypeError):
        patched.setattr(os, "scandir", None)
        cached(workspace, cache)


@pytest.mark.parametrize("profile", Profile)
def test_a_cache_that_has_nothing_to_learn_is_not_written(profile: Profile, workspace: Path, cache: DigestCache) -> None:
    settle(repository(workspace, "a", "sub/b", ".loki/state"))
    for _ in range(2):  # the first reads what was just made
        cached(settle(workspace), cache, profile)
    before = cache.path.stat()
    cached(workspace, cache, profile)
    assert os.path.samestat(cache.path.stat(), before)  # it is replaced when it is written


def test_a_directory_that_was_changed_a_moment_ago_is_listed_again(
    workspace: Path, cache: DigestCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(repository(workspace, "a"))
    (workspace / "new").mkdir()  # a name more, behind which another one could come within the tick of the clock
    cached(workspace, cache)
    listed: list[int] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda fd: (listed.append(fd), scandir(fd))[1])
    cached(workspace, cache)
    assert len(listed) == 2  # the top, and the new one


def test_names_that_are_left_out_in_one_place_are_not_lost_in_another(workspace: Path, cache: DigestCache) -> None:
    """What is left out of a directory depends on whether a worktree has its top there, which no stamp of it tells."""
    settle(repository(workspace / "sub", "a"))
    settle(repository(workspace, "b"))
    (workspace / "sub/.loki").write_text("a file in the engine's place")
    settle(workspace)
    assert cached(workspace, cache, "loki-v3") == tree_digest(workspace, "loki-v3").sha256
    git(workspace, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
    assert cached(workspace, cache, "loki-v3") == tree_digest(workspace, "loki-v3").sha256
    git(workspace, "rm", "-q", "--cached", "sub")
    assert cached(workspace, cache, "loki-v3") == tree_digest(workspace, "loki-v3").sha256


def test_a_directory_within_a_submodule_is_another_one_when_that_is_none_any_more(workspace: Path, cache: DigestCache) -> None:
    """Its rows have paths from another top then, and its stamp is the same."""
    settle(repository(workspace / "sub", "deep/a"))
    repository(workspace, "b")
    git(workspace, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
    settle(workspace)
    for option in ("--force-remove", "--add"):
        assert cached(workspace, cache, "loki-v3") == tree_digest(workspace, "loki-v3").sha256
        git(workspace, "update-index", option, "sub")
        assert cached(workspace, cache, "loki-v3") == tree_digest(workspace, "loki-v3").sha256


def test_what_a_split_index_lists_is_not_known_without_its_shared_one(workspace: Path, cache: DigestCache) -> None:
    repository(workspace, "a")
    git(workspace, "update-index", "--split-index")
    cached(settle(workspace), cache)
    (shared,) = (workspace / ".git").glob("sharedindex.*")
    shared.unlink()
    with pytest.raises(StateUnreadable, match="sharedindex"):
        cached(workspace, cache)


def test_a_directory_whose_stamp_is_no_time_is_listed_each_time() -> None:
    """As the top of a FAT file system, which cannot be mounted here."""
    assert could_hide_a_name(0, time.time_ns())
    assert not could_hide_a_name(1, time.time_ns())


def test_a_cache_is_of_one_workspace_and_one_profile(workspace: Path, cache: DigestCache, read: list[str]) -> None:
    settle(repository(workspace, "a"))
    other = settle(repository(workspace.parent / "other", "a"))
    for top, profile in ((workspace, "tree"), (workspace, "loki-v3"), (other, "tree")):
        read.clear()
        assert cached(top, cache, profile) == tree_digest(top, profile).sha256
        assert read == ["a", "a"]


def test_it_is_private_and_stays_so(workspace: Path, cache: DigestCache) -> None:
    (workspace / "a").write_text("x")
    cached(workspace, cache)
    assert cache.path.stat().st_mode & 0o777 == 0o600
    cache.path.chmod(0o640)
    with pytest.raises(StateUnreadable) as refused:
        cached(workspace, cache)
    assert refused.value.reason == "not-private"
    cache.path.chmod(0o600)
    cache.path.parent.chmod(0o755)
    with pytest.raises(StateUnreadable):
        cached(workspace, cache)


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda path: os.symlink("elsewhere", path), lambda path: os.link(path.parent / "elsewhere", path)],
)
def test_what_is_no_file_of_its_own_is_no_cache(make: Callable[[Path], None], workspace: Path, cache: DigestCache) -> None:
    cached(workspace, DigestCache(cache.path.parent / "elsewhere"))
    make(cache.path)
    with pytest.raises(StateUnreadable) as refused:
        cached(workspace, cache)
    assert refused.value.reason == "not-private"


@pytest.mark.parametrize("header", [b"[" * 100_000, b"[]", b"null", b"0", b'"x"', b"{}", b""])
def test_a_cache_that_somebody_else_wrote_counts_as_empty(header: bytes, workspace: Path, cache: DigestCache) -> None:
    body = header + b"\n"
    cache.path.write_bytes(body + hashlib.sha256(body).digest())
    cache.path.chmod(0o600)
    assert cached(workspace, cache) == tree_digest(workspace, level="fast").sha256


def test_it_does_not_lie_in_the_workspace(workspace: Path) -> None:
    (workspace / "private").mkdir(mode=0o700)
    for path in (workspace / "private/cache", workspace / "private/none/cache"):
        with pytest.raises(ValueError, match="workspace"):
            cached(workspace, DigestCache(path))


@pytest.mark.parametrize("level", ["stable", "sealed"])
def test_it_is_no_part_of_a_promise(level: str, workspace: Path, cache: DigestCache) -> None:
    with pytest.raises(ValueError, match="fast"):
        tree_digest(workspace, level=level, cache=cache)


def test_nothing_is_written_for_a_digest_that_failed_or_an_unchanged_tree(workspace: Path, cache: DigestCache) -> None:
    settle(workspace)
    (workspace / "a").write_text("x")
    settle(workspace)

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tree_digest(workspace, level="fast", cache=cache, on_progress=stop)
    assert not cache.path.exists()
    cached(workspace, cache)
    written = cache.path.stat().st_mtime_ns
    cached(workspace, cache)
    assert cache.path.stat().st_mtime_ns == written
