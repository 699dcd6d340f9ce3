"""What `tree_digest` and `verify` promise besides: progress, rules, what the profile tree binds, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fable_exec.treedigest
from fable_exec._sys.leases import Lease
from fable_exec.errors import ConfinementUnavailable, PathError, PathNotDirectory, PathNotFound, StateUnreadable, TreeUnstable
from fable_exec.pathguard import Workspace
from fable_exec.treedigest import Difference, EntryKind, Level, Manifest, Progress, diff, tree_digest, verify
from fable_exec.treedigest.reading import PROGRESS_BYTES
from tests.treedigest.test_gitindex import git
from tests.treedigest.test_loki import repository

FORMAT = b'"format":"fable-exec-tree/1"}'


def manifest_of(top: Path) -> Manifest:
    found = tree_digest(top).manifest
    assert found is not None
    return found


def test_the_digest_is_the_sha_256_of_the_manifest_which_is_canonical_json(workspace: Path) -> None:
    (workspace / "a").write_text("x")
    found = tree_digest(workspace)
    assert found.manifest is not None
    assert found.sha256 == hashlib.sha256(found.manifest.data).hexdigest()
    document = json.loads(found.manifest.data)
    assert json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == found.manifest.data
    assert document["directories"][0]["entries"][0] == {
        "kind": "file", "mode": "0644", "name": "a", "sha256": hashlib.sha256(b"x").hexdigest(), "size": 1,
    }  # fmt: skip


def test_directories_and_names_are_sorted_by_their_bytes(workspace: Path) -> None:
    for name in (b"z", b"a", b"a-b", b"\xff", "é".encode(), "\U0001f600".encode(), "\uffff".encode()):
        os.mkdir(os.fsencode(workspace) + b"/" + name)
        (workspace / os.fsdecode(b"f" + name)).write_text("")
    (workspace / "a/b").mkdir()
    document = json.loads(manifest_of(workspace).data)
    paths = [entry.path.encode("utf-8", "surrogateescape") for entry in manifest_of(workspace).entries]
    directories = [path for path in paths if not path.rpartition(b"/")[2].startswith(b"f")]
    assert directories == sorted(directories)
    files = [path for path in paths if path.startswith(b"f")]
    assert files == sorted(files)
    assert len(document["directories"]) == 9


def test_special_files_are_bound_and_not_opened(workspace: Path) -> None:
    os.mkfifo(workspace / "fifo", 0o600)
    before = manifest_of(workspace)
    assert {entry.path: entry.kind for entry in before.entries} == {"": EntryKind.DIRECTORY, "fifo": EntryKind.FIFO}
    (workspace / "fifo").chmod(0o640)
    assert diff(before, manifest_of(workspace)) == Difference(mode_changed=("fifo",))


def test_the_state_of_a_repository_is_bound_and_looking_at_it_is_no_change(workspace: Path) -> None:
    repository(workspace, "a", "b")
    before = manifest_of(workspace)
    (workspace / "a").touch()
    git(workspace, "status")
    git(workspace, "update-index", "--really-refresh")
    git(workspace, "gc", "-q")
    assert diff(before, manifest_of(workspace)) == Difference()
    git(workspace, "commit", "-q", "--allow-empty", "-m", "moved")
    assert diff(before, manifest_of(workspace)) == Difference(changed=(".git",))
    git(workspace, "reset", "-q", "--soft", "HEAD~")
    assert diff(before, manifest_of(workspace)) == Difference()
    git(workspace, "rm", "-q", "--cached", "b")
    assert diff(before, manifest_of(workspace)) == Difference(changed=(".git",))


def test_a_git_directory_that_is_none_hides_nothing(workspace: Path) -> None:
    (workspace / "sub/.git/hooks").mkdir(parents=True)
    (workspace / "sub/.git/hooks/payload").write_text("x")
    before = manifest_of(workspace)
    (workspace / "sub/.git/hooks/payload").write_text("y")
    assert diff(before, manifest_of(workspace)) == Difference(changed=("sub/.git/hooks/payload",))


def test_what_is_in_the_engine_directory_does_not_count_but_that_it_is_there(workspace: Path) -> None:
    def digest() -> str:
        return tree_digest(workspace, engine_directory=".engine").sha256

    without = digest()
    (workspace / ".engine").mkdir()
    empty = digest()
    (workspace / ".engine/state").write_text("1")
    assert without != empty == digest() != tree_digest(workspace).sha256
    (workspace / "sub/.engine").mkdir(parents=True)
    deep = digest()
    (workspace / "sub/.engine/state").write_text("1")
    assert digest() != deep


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_the_engine_directory_is_one_name(name: str, workspace: Path) -> None:
    with pytest.raises(ValueError, match="engine_directory"):
        tree_digest(workspace, engine_directory=name)


def test_progress_counts_every_file_and_byte_and_may_end_the_call(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    (workspace / "sub/long").write_bytes(bytes(PROGRESS_BYTES * 2 + 5))
    (workspace / "short").write_bytes(b"12345")
    told: list[Progress] = []
    tree_digest(workspace, level="fast", on_progress=told.append)
    assert told[-1] == Progress(files=2, size_bytes=PROGRESS_BYTES * 2 + 10)
    assert len(told) > 3
    assert [each.files for each in told] == sorted(each.files for each in told)

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tree_digest(workspace, on_progress=stop)


def test_a_file_that_changes_while_it_is_read_is_read_again(workspace: Path) -> None:
    (workspace / "long").write_bytes(bytes(PROGRESS_BYTES * 2))
    changes = iter(range(1))

    def change(progress: Progress) -> None:
        if progress.size_bytes and next(changes, None) is not None:
            with (workspace / "long").open("r+b") as file:
                file.write(b"changed")

    found = tree_digest(workspace, level="fast", on_progress=change)
    assert found.sha256 == tree_digest(workspace).sha256


def test_a_file_that_never_holds_still_has_no_digest_at_any_level(workspace: Path) -> None:
    (workspace / "long").write_bytes(bytes(PROGRESS_BYTES * 2))

    def change(progress: Progress) -> None:
        with (workspace / "long").open("r+b") as file:
            file.write(b"changed")

    for level in Level:
        with pytest.raises(TreeUnstable) as refused:
            tree_digest(workspace, level=level, on_progress=change)
        assert (refused.value.reason, refused.value.paths) == ("changed", ("long",))


def test_a_change_behind_the_reader_is_seen_and_all_is_read_again(workspace: Path) -> None:
    """The change comes after the file was read, before the look at everything: only the second look can see it."""
    for name in ("a", "sub/b"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("before")
    turns = iter(range(1))

    def change(progress: Progress) -> None:
        if progress.files == 2 and next(turns, None) is not None:
            (workspace / "a").write_text("after!")

    found = tree_digest(workspace, on_progress=change)
    assert found.sha256 == tree_digest(workspace).sha256
    assert found.manifest is not None and hashlib.sha256(b"after!").hexdigest().encode() in found.manifest.data


def test_a_change_that_moves_no_time_stamp_is_seen_if_the_stamp_could_hide_it(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a kernel with a coarse clock, where two changes within a tick have one ctime."""

    now = time.time_ns()
    monkeypatch.setattr("fable_exec.treedigest.watching.stamp_of", lambda status: (now, 0, status.st_ino, status.st_size))
    monkeypatch.setattr("fable_exec.treedigest.scanning.stamp_of", lambda status: (now, 0, status.st_ino, status.st_size))
    turns = iter(range(1))

    def change(progress: Progress) -> None:
        if progress.files == 1 and next(turns, None) is not None:
            (workspace / "a").write_text("after!")

    (workspace / "a").write_text("before")
    found = tree_digest(workspace, on_progress=change)
    assert found.sha256 == tree_digest(workspace).sha256


def test_a_file_whose_writers_cannot_be_told_is_counted_and_not_sealed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another user's file is to an ordinary user."""
    (workspace / "a").write_text("x")
    monkeypatch.setattr("fable_exec.treedigest.reading.take_read_lease", lambda fd: Lease.UNKNOWN)
    assert tree_digest(workspace).unproven == 1
    with pytest.raises(TreeUnstable) as refused:
        tree_digest(workspace, level="sealed")
    assert (refused.value.reason, refused.value.paths) == ("unproven", ("a",))


def test_verify_names_what_differs_and_keeps_the_rules_of_the_manifest(workspace: Path) -> None:
    (workspace / ".engine").mkdir()
    (workspace / "a").write_text("x")
    kept = tree_digest(workspace, engine_directory=".engine").manifest
    assert kept is not None
    (workspace / ".engine/state").write_text("1")
    assert verify(kept, workspace).is_empty
    (workspace / "a").write_text("y")
    (workspace / "b").write_text("new")
    assert verify(kept, workspace) == Difference(added=("b",), changed=("a",))


def test_verify_of_a_worktree_that_is_none_any_more_finds_everything_gone(workspace: Path) -> None:
    repository(workspace, "a")
    kept = tree_digest(workspace, "loki-v3").manifest
    assert kept is not None
    assert verify(kept, workspace).is_empty
    os.rename(workspace / ".git", workspace / "git")
    assert verify(kept, workspace).removed == ("a",)


def test_manifests_of_other_rules_are_told_to_be(workspace: Path) -> None:
    (workspace / "a").write_text("x")
    one, other = tree_digest(workspace), tree_digest(workspace, engine_directory=".engine")
    assert one.manifest is not None and other.manifest is not None
    assert diff(one.manifest, other.manifest) == Difference(rules_changed=True)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"", "torn"),
        (b'{"version":3', "torn"),
        (b"[" * 100_000, "torn"),
        (b"[]", "foreign"),
        (b"{}", "foreign"),
        (b'{"version":4}', "foreign"),
        (b'{"directories":[],"engine_directory":null,"format":"fable-exec-tree/2"}', "newer"),
        (b'{"directories": [],"engine_directory":null,"format":"fable-exec-tree/1"}', "foreign"),
        (b'{"directories":[{}],"engine_directory":null,"format":"fable-exec-tree/1"}', "foreign"),
        (b'{"directories":[{"entries":[],"mode":"0755","path":{"b":"YQ"}}],"engine_directory":null,' + FORMAT, "foreign"),
        (b'{"entries":[{"kind":"what","path":"a"}],"version":3}', "foreign"),
        (b'{"entries":[],"entries":[],"version":3}', "foreign"),
        ('{"entries":[{"kind":"missing","path":"é"}],"version":3}'.encode(), "foreign"),
        (b'{"version":3.0}', "foreign"),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(StateUnreadable) as refused:
        Manifest.from_bytes(data, "kept.json")
    assert (refused.value.reason, refused.value.path) == (reason, "kept.json")


def test_a_workspace_that_is_held_is_used_and_stays_open(workspace: Path) -> None:
    (workspace / "a").write_text("x")
    with Workspace.open(workspace) as held:
        found = tree_digest(held)
        assert held.fd >= 0
    assert found == tree_digest(workspace)


def test_what_is_no_directory_is_refused(workspace: Path) -> None:
    (workspace / "file").write_text("x")
    with pytest.raises(PathNotFound):
        tree_digest(workspace / "none")
    with pytest.raises(PathNotDirectory):
        tree_digest(workspace / "file")
    with pytest.raises(ValueError, match="what"):
        tree_digest(workspace, "what")


def test_a_link_to_a_tree_is_that_tree(workspace: Path) -> None:
    (workspace / "a").write_text("x")
    (workspace.parent / "link").symlink_to(workspace)
    assert tree_digest(workspace.parent / "link") == tree_digest(workspace) != tree_digest(workspace.parent)


def test_without_directory_handles_there_is_no_digest(workspace: Path) -> None:
    with Workspace.open(workspace, resolver="checked") as held, pytest.raises(ConfinementUnavailable):
        tree_digest(held)


def test_a_tree_of_many_levels_is_digested(workspace: Path) -> None:
    above = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(1_500):
        os.mkdir("d" * 20, dir_fd=above)
        below = os.open("d" * 20, os.O_RDONLY | os.O_DIRECTORY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    found = tree_digest(workspace).manifest
    assert found is not None and len(found.entries) == 1_501
    subprocess.run(["rm", "-rf", str(workspace / ("d" * 20))], check=True)


@pytest.mark.parametrize("profile", ["tree", "loki-v3"])
def test_a_tree_that_is_small_on_a_disk_and_large_in_memory_is_refused(
    profile: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each level is told with all above it, and in loki-v3 each file."""
    repository(workspace, "a")
    below = workspace / "/".join(["d" * 20] * 60)
    below.mkdir(parents=True)
    for number in range(40):
        (below / str(number)).touch()
    monkeypatch.setattr("fable_exec.treedigest.scanning.MAX_PATH_BYTES", 200_000)
    assert tree_digest(workspace, profile).sha256
    monkeypatch.setattr("fable_exec.treedigest.scanning.MAX_PATH_BYTES", 50_000)
    with pytest.raises(PathError) as refused:
        tree_digest(workspace, profile)
    assert refused.value.reason == "too-large"


@pytest.mark.parametrize(
    "error", [TimeoutError(), PermissionError(), TreeUnstable("x", reason="changed"), PathNotFound("x"), KeyError()]
)
@pytest.mark.parametrize("profile", ["tree", "loki-v3"])
def test_what_a_caller_raises_comes_out_as_it_is_and_at_once(profile: str, error: Exception, workspace: Path) -> None:
    repository(workspace, "a")
    with (workspace / "long").open("w") as file:
        file.truncate(2 * PROGRESS_BYTES)
    for turn in (1, 2):
        told: list[Progress] = []

        def end(progress: Progress, turn: int = turn, told: list[Progress] = told) -> None:
            told.append(progress)
            if len(told) == turn:
                raise error

        with pytest.raises(type(error)) as raised:
            tree_digest(workspace, profile, on_progress=end)
        assert raised.value is error and len(told) == turn
        assert (error.__cause__, error.__context__, error.__suppress_context__) == (None, None, False)


def test_nothing_is_left_of_a_digest(workspace: Path) -> None:
    repository(workspace, "a", "sub/b")
    before = (sorted(os.listdir("/proc/self/fd")), threading.active_count(), os.getcwd())
    for profile in ("tree", "loki-v3"):
        tree_digest(workspace, profile)
    (workspace / "sub").chmod(0o700)
    with pytest.raises(RuntimeError):
        tree_digest(workspace, on_progress=lambda _: (_ for _ in ()).throw(RuntimeError))
    assert (sorted(os.listdir("/proc/self/fd")), threading.active_count(), os.getcwd()) == before


def test_a_tree_may_be_digested_from_many_threads(workspace: Path) -> None:
    for number in range(200):
        (workspace / f"file{number}").write_text(str(number))
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(tree_digest(workspace, level="sealed").sha256)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


def test_the_room_exports_what_it_says_and_loads_with_the_first_use() -> None:
    assert sorted(fable_exec.treedigest.__all__) == fable_exec.treedigest.__all__
    program = "import fable_exec, sys; sys.exit('fable_exec.treedigest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).resolve().parents[2]).returncode == 0


def test_a_long_file_has_its_own_sha_256_and_needs_no_thread(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(PROGRESS_BYTES + 12_345)
    (workspace / "long").write_bytes(content)
    monkeypatch.setattr(threading.Thread, "start", None)
    assert manifest_of(workspace).entries[1].content == hashlib.sha256(content).hexdigest()


def _both(workspace: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Manifests of both profiles, with rows of many kinds."""
    (workspace / "sub").mkdir()
    repository(workspace / "sub/lib", "x")
    repository(workspace, "a", "sub/b")
    os.mkfifo(workspace / "fifo")
    (workspace / "link").symlink_to("a")
    (workspace / os.fsdecode(b"\xff")).write_text("")
    (workspace / "gone").write_text("")
    git(workspace, "add", "gone")
    (workspace / "gone").unlink()
    loki, tree = (tree_digest(workspace, profile, engine_directory=".fable").manifest for profile in ("loki-v3", "tree"))
    assert loki is not None and tree is not None
    return json.loads(loki.data), json.loads(tree.data)


ODD: list[Any] = [None, True, 0, 1.5, "", "a/b", "..", "\udcff", [], ["x"], [{}], {}, {"b": 1}, {"b": "YQ"}, 10**30]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, name) in it."""
    for name, inner in list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()):
        yield value, name
        yield from _places(inner)


def _refused_or_apart(document: dict[str, Any], original: Manifest) -> None:
    try:
        data = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii="version" in document).encode()
        other = Manifest.from_bytes(data)
    except (StateUnreadable, UnicodeEncodeError):
        return
    assert other.data == original.data or not diff(original, other).is_empty
    assert other.engine_directory is None or isinstance(other.engine_directory, str)
    assert all(isinstance(text, str) for entry in other.entries for text in (entry.path, entry.mode, entry.content))


def test_a_manifest_with_anything_else_in_it_is_refused_or_differs(workspace: Path) -> None:
    for document in _both(workspace):
        text = json.dumps(document)
        data = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii="version" in document).encode()
        original = Manifest.from_bytes(data)
        for number in range(sum(1 for _ in _places(document))):
            for odd in ODD:
                made = json.loads(text)
                place, name = list(_places(made))[number]
                place[name] = odd
                _refused_or_apart(made, original)
            made = json.loads(text)
            place, name = list(_places(made))[number]
            place.insert(0, place[name]) if isinstance(place, list) else place.update(more=place[name])
            _refused_or_apart(made, original)


def test_two_manifests_of_one_meaning_are_not_both_read() -> None:
    row = b'{"kind":"file","mode":"0644","name":"%b","sha256":"1","size":1}'
    root, below = b'{"entries":[%b],"mode":"0755","path":""}', b'{"entries":[%b],"mode":"0755","path":"a"}'
    shapes = [
        (root % (row % b"a/b"), below % b""), (root % (row % b"a"), below % b""), (below % b"", root % b""),
        (root % b"", below % (row % b"c" + b"," + row % b"b")),
    ]  # fmt: skip
    for depth in range(100, 1100, 20):  # whatever the room on the stack is
        with pytest.raises(StateUnreadable):
            Manifest.from_bytes(b'{"a":' + b"[" * depth + b"]" * depth + b',"version":3}')
    for directories in shapes:
        with pytest.raises(StateUnreadable):
            Manifest.from_bytes(b'{"directories":[' + b",".join(directories) + b'],"engine_directory":null,' + FORMAT)
    assert Manifest.from_bytes(b'{"directories":[' + root % b"" + b"," + below % b"" + b'],"engine_directory":null,' + FORMAT)
