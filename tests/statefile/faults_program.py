"""The program of test_faults.py: `... DIRECTORY SCENE kill | fail ERRNO... | halve | fail-twice ERRNO`.

An act is run again and again in a directory of its own: killed at its first, second, ... stop, or with its first, second, ...
call of the file system failing or doing half of its work. After each run the files are looked at. Prints JSON, with `fail` for
each error by itself.
"""

from __future__ import annotations

import errno
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fable_exec.statefile import StateFile
from tests.statefile.scenes import SCENES, check_told, left_in
from tests.tracing import Alteration, Call, killed_at, told_with

OF_FILES = frozenset(
    "openat newfstatat fstat flock fchmod fchmodat pwrite64 pread64 fsync fdatasync rename renameat renameat2 unlink unlinkat"
    " fallocate getdents64 lseek fcntl close".split()
)
HALF_DONE = ("pwrite64", "pread64")

fresh = itertools.count()


def laid_out(directory: Path, scene: str) -> StateFile:
    return SCENES[scene].lay_out(directory / str(next(fresh)))


def calls_of(directory: Path, scene: str) -> list[Call]:
    state = laid_out(directory, scene)
    told = told_with(lambda: SCENES[scene].prepare(state), OF_FILES, {})
    assert told.raised == "", told
    return list(told.calls)


def kill(directory: Path, scene: str) -> Iterator[str]:
    for stop in itertools.count(1):
        state = laid_out(directory, scene)
        went_on = killed_at(stop, lambda state=state: SCENES[scene].prepare(state))
        assert len(left_in(state)) <= 1
        yield SCENES[scene].after(state)
        if not went_on:
            return


def altered(directory: Path, scene: str, alterations: dict[int, Alteration]) -> str:
    state = laid_out(directory, scene)

    def lock_is_free() -> None:
        with state.locked(0):
            pass

    told = told_with(lambda: SCENES[scene].prepare(state), OF_FILES, alterations, lock_is_free)
    assert len(left_in(state)) <= (len(alterations) > 1), "after one fault nothing is left behind"
    word = SCENES[scene].after(state)
    check_told(scene, told, word, len(alterations))
    return word


def fail(directory: Path, scene: str, error: int) -> Iterator[str]:
    for call in calls_of(directory, scene):
        yield altered(directory, scene, {call.index: Alteration(error=error)})


def halve(directory: Path, scene: str) -> Iterator[str]:
    for call in calls_of(directory, scene):
        if call.name in HALF_DONE:
            yield altered(directory, scene, {call.index: Alteration(halved=True)})


def fail_twice(directory: Path, scene: str, error: int) -> Iterator[str]:
    """By their numbers: which call comes second depends on what the act does about the first."""
    indices = [call.index for call in calls_of(directory, scene)]
    for first, second in itertools.combinations(indices, 2):
        yield altered(directory, scene, {first: Alteration(error=error), second: Alteration(error=error)})


WAYS: dict[str, Callable[..., Iterator[str]]] = {"kill": kill, "halve": halve, "fail-twice": fail_twice}


def main() -> None:
    directory, scene, way, *errors = sys.argv[1:]
    if way == "fail":
        print(json.dumps({name: found(fail(Path(directory), scene, getattr(errno, name))) for name in errors}))
    else:
        print(json.dumps(found(WAYS[way](Path(directory), scene, *(getattr(errno, name) for name in errors)))))


def found(seen: Iterator[str]) -> dict[str, object]:
    """How many runs there were, and in which words each left the files."""
    words = list(seen)
    changes = [word for word, _ in itertools.groupby(words)]
    return {"runs": len(words), "words": Counter(words), "changes": changes}


if __name__ == "__main__":
    main()
