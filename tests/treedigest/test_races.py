"""Another process changes the tree while it is digested: a digest is of a state that the tree had, or there is none.

Short by default; 500 rounds of each are marked deep.
"""

from __future__ import annotations

import collections
import contextlib
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fable_exec.errors import TreeUnstable
from fable_exec.treedigest import Level, Profile, tree_digest
from tests.treedigest import attacker
from tests.treedigest.attacker import BIG_BYTES, MAPPED_BYTES, VERSIONS, big_content

PROMISING = (Level.STABLE, Level.SEALED)
ROUNDS = pytest.mark.parametrize("rounds", [12, pytest.param(500, marks=[pytest.mark.deep, pytest.mark.timeout(3000)])])


@contextlib.contextmanager
def attacking(kind: str, root: Path) -> Iterator[None]:
    argv = [sys.executable, attacker.__file__, kind, str(root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield
            process.stdin.close()
            assert int(process.stdout.readline()) >= 1, "nothing was changed meanwhile"
        finally:
            process.kill()


def outcome(root: Path, level: Level) -> str:
    """The digest, or the reason why there is none."""
    try:
        return tree_digest(root, level=level).sha256
    except TreeUnstable as error:
        assert error.paths and error.reason in ("changed", "writer")
        return error.reason


def digests_under_attack(kind: str, root: Path, level: Level, rounds: int) -> collections.Counter[str]:
    with attacking(kind, root):
        return collections.Counter(outcome(root, level) for _ in range(rounds))


def states(root: Path, prepare: Sequence[Callable[[], object]]) -> set[str]:
    """The digests of the states that the tree goes through, each made and left alone."""
    found = set()
    for act in prepare:
        act()
        found.add(tree_digest(root).sha256)
    assert len(found) == len(prepare)
    return found


def assert_only(found: collections.Counter[str], allowed: set[str]) -> None:
    digests = {digest for digest in found if len(digest) == 64}
    assert digests <= allowed, found


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o644)


@ROUNDS
@pytest.mark.parametrize("level", PROMISING)
def test_a_writer_that_rewrites_a_long_file_is_never_torn(level: Level, rounds: int, workspace: Path) -> None:
    def state(big: int, small: int) -> Callable[[], None]:
        def make() -> None:
            write(workspace / "big", big_content(big))
            write(workspace / "small", b"%d" % small)

        return make

    # The long file goes first, so the short one has its number or the one before.
    both = [state(number, other) for number in range(VERSIONS) for other in (number, (number - 1) % VERSIONS)]
    allowed = states(workspace, both)
    state(0, 0)()
    assert (workspace / "big").stat().st_size == BIG_BYTES
    found = digests_under_attack("rewrite", workspace, level, rounds)
    assert_only(found, allowed)
    assert found["writer"] + found["changed"] < rounds, "no round gave a digest, so nothing was shown"


@ROUNDS
@pytest.mark.parametrize("level", PROMISING)
def test_a_name_that_is_swapped_for_links_and_fifos_is_what_it_was(level: Level, rounds: int, workspace: Path) -> None:
    write(workspace.parent / "secret", b"outside")
    act = attacker.swap(str(workspace))
    allowed = states(workspace, [lambda turn=turn: act(turn) for turn in range(3)])
    assert_only(digests_under_attack("swap", workspace, level, rounds), allowed)


@ROUNDS
@pytest.mark.parametrize("level", [*PROMISING, Level.FAST])
def test_a_name_that_comes_and_goes_is_there_or_not_and_no_error_of_its_own(level: Level, rounds: int, workspace: Path) -> None:
    umask = os.umask(0o022)
    try:
        act = attacker.come_and_go(str(workspace))
        allowed = states(workspace, [lambda turn=turn: act(turn) for turn in (1, 2, 3)])
        act(4)
        allowed |= states(workspace, [lambda: act(5)])
        act(6)
        found = digests_under_attack("come_and_go", workspace, level, rounds)
    finally:
        os.umask(umask)
    assert_only(found, allowed)


@ROUNDS
@pytest.mark.parametrize("level", PROMISING)
def test_directories_that_are_renamed_are_seen_under_the_names_that_they_had(level: Level, rounds: int, workspace: Path) -> None:
    for name in ("one", "two"):
        for number in range(40):
            path = workspace / name / f"sub{number % 4}" / f"file{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, f"{name}{number}".encode())
    steps = [("one", "between"), ("two", "one"), ("between", "two")]
    renames = [lambda step=step: os.rename(workspace / step[0], workspace / step[1]) for step in steps]
    allowed = states(workspace, renames) | states(workspace, renames)
    assert len(allowed) == 6
    assert_only(digests_under_attack("rename_directories", workspace, level, rounds), allowed)


@ROUNDS
@pytest.mark.parametrize("level", PROMISING)
def test_a_file_that_is_mapped_for_writing_has_no_digest(level: Level, rounds: int, workspace: Path) -> None:
    write(workspace / "mapped", b"A" * MAPPED_BYTES)
    found = digests_under_attack("hold_mapping", workspace, level, rounds)
    assert found == {"writer": rounds}
    assert len(outcome(workspace, level)) == 64  # when the mapping is gone


@ROUNDS
@pytest.mark.parametrize("level", PROMISING)
def test_a_file_that_is_mapped_for_each_change_is_never_torn(level: Level, rounds: int, workspace: Path) -> None:
    allowed = states(workspace, [lambda byte=byte: write(workspace / "mapped", byte * MAPPED_BYTES) for byte in (b"B", b"A")])
    found = digests_under_attack("map_again", workspace, level, rounds)
    assert_only(found, allowed)
    assert found["writer"] + found["changed"] < rounds, "no round gave a digest, so nothing was shown"


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("level", PROMISING)
def test_an_open_writer_is_named(level: Level, profile: Profile, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    write(workspace / "sub/log", b"x")
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    with (workspace / "sub/log").open("ab"), pytest.raises(TreeUnstable) as refused:
        tree_digest(workspace, profile, level)
    assert (refused.value.reason, refused.value.paths) == ("writer", ("sub/log",))
    assert tree_digest(workspace, profile, level).sha256


def test_a_mapping_without_a_descriptor_is_a_writer(workspace: Path) -> None:
    write(workspace / "mapped", b"A" * MAPPED_BYTES)
    with (workspace / "mapped").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), MAPPED_BYTES)
    with mapped, pytest.raises(TreeUnstable, match="writer"):
        tree_digest(workspace, level="stable")


def test_a_reader_does_not_end_a_process_whose_lease_is_broken(workspace: Path) -> None:
    """SIGIO, which a lease sends by default when a writer comes, would."""
    write(workspace / "big", big_content(0))
    program = (
        "import sys; from fable_exec.errors import TreeUnstable; from fable_exec.treedigest import tree_digest\n"
        "for _ in range(int(sys.argv[2])):\n"
        "    try: tree_digest(sys.argv[1], level='sealed')\n"
        "    except TreeUnstable: pass\n"
        "print('alive')"
    )
    write(workspace / "small", b"0")
    with attacking("rewrite", workspace):
        argv = [sys.executable, "-c", program, str(workspace), "8"]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2])
    assert (done.stdout, done.returncode) == ("alive\n", 0), done.stderr
