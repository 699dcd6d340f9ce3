"""The objects of a repository, read without git: what git says of them, or nothing."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.pathguard import Workspace
from fable_exec.proofbind.changes import CannotTell
from fable_exec.proofbind.changes.objects import open_objects
from tests.proofbind.repositories import commit_all, git, lines, new_repository

pytestmark = pytest.mark.requires_ability("git")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A bare object store with one pack that has deltas, and the names of its objects."""
    top = new_repository(tmp_path_factory.mktemp("store") / "top")
    for turn in range(4):
        (top / "file").write_text(lines(200, (turn,)))
        commit_all(top, str(turn))
    git(top, "gc", "-q", "--aggressive")
    listed = git(top, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").decode().split()
    assert b"chain length" in git(top, "verify-pack", "-v", str(next((top / ".git/objects/pack").glob("*.idx"))))
    return top / ".git", listed


def _read_all(directory: Path, oids: list[str]) -> dict[str, tuple[str, bytes]]:
    with Workspace.open(directory) as workspace, open_objects(workspace, ()) as objects:
        return {oid: objects.read(oid) for oid in oids}


def test_packed_objects_are_what_git_says(store: tuple[Path, list[str]]) -> None:
    directory, oids = store
    for oid, (kind, data) in _read_all(directory, oids).items():
        assert data == git(directory, "cat-file", kind, oid)


def test_a_chain_of_deltas_that_makes_too_much_is_not_worked_off(
    store: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, oids = store
    monkeypatch.setattr("fable_exec.proofbind.changes.packs._MAX_MADE_BYTES", 10)
    monkeypatch.setattr("fable_exec.proofbind.changes.packs.applied", None)
    refused = []
    for oid in oids:
        try:
            _read_all(directory, [oid])
        except CannotTell as reason:
            refused.append(reason.why)
    assert refused and {*refused} == {"too-large"} and len(refused) < len(oids)


@given(st.data())
def test_a_damaged_store_gives_the_right_object_or_none(store: tuple[Path, list[str]], data: st.DataObject) -> None:
    directory, oids = store
    suffix = data.draw(st.sampled_from(["idx", "pack"]))
    original = next((directory / "objects/pack").glob(f"*.{suffix}"))
    content = bytearray(original.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    whole = _read_all(directory, oids)
    kept = original.read_bytes()
    original.chmod(0o600)
    original.write_bytes(content)
    try:
        with Workspace.open(directory) as workspace, open_objects(workspace, ()) as objects:
            for oid in oids:
                try:
                    assert objects.read(oid) == whole[oid]
                except CannotTell as reason:
                    assert reason.why in ("objects-damaged", "object-missing", "too-large")
    finally:
        original.write_bytes(kept)


@given(st.binary(max_size=80), st.booleans())
def test_a_loose_file_of_any_bytes_is_no_object(tmp_path_factory: pytest.TempPathFactory, data: bytes, packed: bool) -> None:
    directory = tmp_path_factory.mktemp("loose")
    (directory / "objects/12").mkdir(parents=True)
    (directory / "objects/12" / ("3" * 38)).write_bytes(zlib.compress(data) if packed else data)
    with pytest.raises(CannotTell) as told:
        _read_all(directory, ["12" + "3" * 38])
    assert told.value.why in ("objects-damaged", "too-large")


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "objects/12").mkdir(parents=True)
    stored = tmp_path / "objects/12" / ("3" * 38)
    for head in (b"blob 5\0", b"blob 99999999999\0"):
        stored.write_bytes(zlib.compress(head + b"\0" * (8 << 20)))
        with pytest.raises(CannotTell) as told:
            _read_all(tmp_path, ["12" + "3" * 38])
        assert told.value.why in ("objects-damaged", "too-large")
