"""Every row of the race corpus on both resolvers: another process swaps names while the operation runs. No leak is allowed.

Short by default; 20 000 rounds of each row are marked deep. Row X17, a kill at each system call, is in test_crash.py.
"""

from __future__ import annotations

import collections
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fable_exec.errors import FableExecError
from fable_exec.pathguard import FileContent, PathProfile, Workspace, WorkspacePath
from tests.pathguard import scenes

QUICK_ROUNDS = 300
DEEP_ROUNDS = 20_000
QUICK_SECONDS = 0.15  # long enough for the attacker to get its turns even where an operation takes microseconds
LONGEST_SECONDS = 30.0  # of one round on a busy machine: its retries are bounded, whoever attacks
ROWS = {row["id"]: row for row in scenes.rows("path_races.jsonl")}
SWAPS = [row for row in ROWS.values() if row["attacker"][0] in ("exchange", "create_remove")]

pytestmark = pytest.mark.requires_ability("openat2")


@contextlib.contextmanager
def attacking(root: Path, attacker: list[str]) -> Iterator[None]:
    argv = [sys.executable, str(Path(__file__).with_name("attacker.py")), attacker[0], str(root), *attacker[1:]]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield
            process.stdin.close()
            assert int(process.stdout.readline()) > 1
        finally:
            process.kill()


class Scene:
    """The tree of a row, with what has to be put back between two rounds, done by handle so that it lands in the right place."""

    def __init__(self, row: scenes.Row, root: Path) -> None:
        self.row, self.root = row, root
        scenes.build(root, row["setup"])
        if row["id"] == "X12":
            (root.parent / "outroot").mkdir()
        self.outside = scenes.snapshot(root.parent / "out") if (root.parent / "out").exists() else None
        self.held = os.open(root / "d", os.O_RDONLY | os.O_DIRECTORY) if (root / "d").is_dir() else None

    def close(self) -> None:
        if self.held is not None:
            os.close(self.held)

    def restore(self) -> None:
        restore = {"X05": self._restore_file, "X09": self._move_back, "X04": self._empty, "X19": self._regrow}.get(self.row["id"])
        if restore is not None:
            restore()

    def _restore_file(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.close(os.open("f", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=self.held))

    def _move_back(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.rename("g", self.root / "f2", src_dir_fd=self.held)

    def _empty(self) -> None:
        for path in ("x/y", "x"):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(path, dir_fd=self.held)

    def _regrow(self) -> None:
        """A new deep tree where the old one was emptied, or in place of one that is gone."""
        assert self.held is not None
        if os.fstat(self.held).st_nlink == 0:
            os.close(self.held)
            (self.root / "new").mkdir()
            self.held = os.open(self.root / "new", os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(OSError):
                os.rename(self.root / "new", self.root / "d")
        with contextlib.suppress(FileExistsError):
            os.makedirs(f"/proc/self/fd/{self.held}/" + "/".join(["x"] * 50))

    def check(self, result: object) -> None:
        """The invariant, as far as it can be seen after one round."""
        if isinstance(result, FileContent) and self.row["id"] != "X11":
            assert result.data == b"I", f"leaked {result.data!r}"
        if self.row["id"] != "X11" and self.outside is not None:
            assert (self.root.parent / "out" / "f").read_bytes() == b"S"

    def check_at_end(self) -> None:
        if self.outside is not None and self.row["id"] != "X11":
            assert scenes.snapshot(self.root.parent / "out") == self.outside
        assert not [path for path in self.root.parent.rglob(".fable-tmp-*") if not path.is_dir()]


def run_race(row: scenes.Row, resolver: str, root: Path, rounds: int, seconds: float) -> collections.Counter[str]:
    scene = Scene(row, root)
    outcomes: collections.Counter[str] = collections.Counter()
    victim = row["victim"]
    try:
        with Workspace.open(root, resolver=resolver) as workspace, attacking(root, row["attacker"]):
            end = time.monotonic() + seconds
            while outcomes.total() < rounds or time.monotonic() < end:
                start = time.monotonic()
                outcome = one_round(workspace, victim, scene)
                assert time.monotonic() - start < LONGEST_SECONDS
                outcomes[outcome] += 1
                scene.restore()
        scene.check_at_end()
    finally:
        scene.close()
    assert set(outcomes) <= set(row["allowed"]), outcomes
    return outcomes


def one_round(workspace: Workspace, victim: dict[str, str], scene: Scene) -> str:
    try:
        result = scenes.perform(workspace, victim["op"], victim["input"], victim.get("to"))
    except FableExecError as error:
        result, outcome = None, scenes.reason_of(error)
    else:
        outcome = "ok"
    scene.check(result)
    return outcome


@pytest.mark.parametrize("resolver", scenes.RESOLVERS)
@pytest.mark.parametrize("row", SWAPS, ids=lambda row: row["id"])
def test_a_race_leaks_nothing(row: scenes.Row, resolver: str, workspace: Path) -> None:
    run_race(row, resolver, workspace, min(row["rounds"], QUICK_ROUNDS), QUICK_SECONDS)


@pytest.mark.deep
@pytest.mark.parametrize("resolver", scenes.RESOLVERS)
@pytest.mark.parametrize("row", SWAPS, ids=lambda row: row["id"])
def test_a_race_leaks_nothing_in_all_its_rounds(row: scenes.Row, resolver: str, workspace: Path) -> None:
    print(row["id"], resolver, dict(run_race(row, resolver, workspace, max(DEEP_ROUNDS, row["rounds"]), 1.0)))


def in_parallel(count: int, act: Callable[[int], object]) -> list[BaseException]:
    """Run `act(number)` in threads that start together; the exceptions it raised."""
    barrier = threading.Barrier(count)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            act(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@pytest.mark.parametrize("resolver", scenes.RESOLVERS)
@pytest.mark.parametrize("rounds", [20, pytest.param(20_000, marks=pytest.mark.deep)])
def test_all_makers_of_one_directory_succeed(resolver: str, rounds: int, workspace: Path) -> None:
    row = ROWS["X15"]
    scenes.build(workspace, row["setup"])
    _, op, text, count = row["attacker"]
    with Workspace.open(workspace, resolver=resolver) as held:
        for _ in range(rounds):
            assert in_parallel(count, lambda _: scenes.perform(held, op, text)) == []
            held.remove_tree(WorkspacePath.parse("d/x"))


@pytest.mark.parametrize("resolver", scenes.RESOLVERS)
@pytest.mark.parametrize("rounds", [100, pytest.param(20_000, marks=pytest.mark.deep)])
def test_a_reader_sees_the_whole_content_of_one_writer(resolver: str, rounds: int, workspace: Path) -> None:
    row = ROWS["X16"]
    scenes.build(workspace, row["setup"])
    path = WorkspacePath.parse("f")
    contents = [bytes([number]) * (1000 + 3000 * number) for number in range(row["attacker"][3])]
    reads = 0
    stop = threading.Event()
    with Workspace.open(workspace, resolver=resolver) as held:

        def act(number: int) -> None:
            nonlocal reads
            if number == len(contents):
                while reads < rounds:
                    assert held.read(path).data in [b"old", *contents]
                    reads += 1
                stop.set()
            while not stop.is_set():
                held.write_replace(path, contents[number])

        try:
            assert in_parallel(len(contents) + 1, act) == []
        finally:
            stop.set()
    assert os.listdir(workspace) == ["f"]


@pytest.mark.parametrize("resolver", scenes.RESOLVERS)
@pytest.mark.parametrize("target", ["../../out/f", "../../out/new", "f"])
def test_a_temporary_name_that_was_guessed_is_not_followed(resolver: str, target: str, workspace: Path) -> None:
    scenes.build(workspace, ROWS["X18"]["setup"])
    path = WorkspacePath.parse("d/f")
    names = [f".fable-tmp-{number:016x}" for number in range(2)]
    os.symlink(target, workspace / "d" / names[0])
    with Workspace.open(workspace, resolver=resolver) as held:
        held._fresh_name = lambda: names[0]
        with pytest.raises(FableExecError) as refusal:
            held.write_replace(path, b"new")
        assert scenes.reason_of(refusal.value) == "exists"
        held._fresh_name = iter(names).__next__
        held.write_replace(path, b"new")
    assert (workspace / "d" / "f").read_bytes() == b"new"
    assert scenes.snapshot(workspace.parent / "out") == {"f": (*_mode_and_links(workspace.parent / "out" / "f"), b"S".hex())}
    assert os.readlink(workspace / "d" / names[0]) == target


def _mode_and_links(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_mode, status.st_nlink


@pytest.mark.parametrize("resolver", scenes.RESOLVERS)
def test_a_handle_means_the_same_directory_after_the_workspace_was_renamed(resolver: str, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"I")
    with Workspace.open(workspace, resolver=resolver) as held:
        workspace.rename(workspace.parent / "elsewhere")
        workspace.mkdir()
        (workspace / "f").write_bytes(b"S")
        assert held.read(WorkspacePath.parse("f", PathProfile.POSIX)).data == b"I"
