"""The other process of the race tests: `attacker.py KIND DIRECTORY NAME...` does one thing over and over until its stdin closes.

Says "ready" when it has done it once, and at the end how often. It works below descriptors of the directories that hold the
names, taken at the start, so that it goes on when a name on the way is swapped.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fable_exec._launcher import kernel_fs


def exchange(root: str, first: str, second: str) -> Callable[[], None]:
    first_fd, first_name = _held(root, first)
    second_fd, second_name = _held(root, second)
    return lambda: kernel_fs.renameat2(first_fd, first_name, second_fd, second_name, kernel_fs.RENAME_EXCHANGE)


def _held(root: str, name: str) -> tuple[int, str]:
    """A descriptor of the directory that holds the name, and the last name; "." is the root seen from its parent."""
    path = os.path.normpath(os.path.join(root, name))
    return os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY), os.path.basename(path)


def create_remove(root: str, name: str) -> Callable[[], None]:
    path = os.path.join(root, name)

    def act() -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
        for child in [os.path.join(path, entry) for entry in _entries(path)] + [path]:
            with contextlib.suppress(OSError):
                os.rmdir(child)

    return act


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def main() -> None:
    kind, root, *names = sys.argv[1:]
    kinds: dict[str, Callable[..., Callable[[], None]]] = {"exchange": exchange, "create_remove": create_remove}
    act = kinds[kind](root, *names)
    count = 0
    while True:
        for _ in range(50):
            with contextlib.suppress(FileNotFoundError):
                act()
                count += 1
                if count == 1:
                    print("ready", flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            break
    print(count, flush=True)


if __name__ == "__main__":
    main()
